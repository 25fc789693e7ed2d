/* Finds the function of the kernel's that libc's clock_gettime calls (vdso(7)), by its name in the image that the kernel has
 * mapped. Without such an image the clock remains the one of the process. */
#include "inside/core/kernel_clock.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include "shared/arch/arch.h"
#include "shared/clock.h"
#include "shared/interpreter/elf_image.h"
#include "shared/spool.h"

/* True if the process's clock_gettime comes from the library that has getauxval, which nobody replaces. */
static bool is_libcs(void) {
  Dl_info clock, libc;
  return !dladdr((void *)clock_gettime, &clock) || !dladdr((void *)getauxval, &libc) ||
         clock.dli_fbase == libc.dli_fbase;
}

void kernel_clock_ensure(void) {
  const ElfW(Ehdr) *head = (const void *)getauxval(AT_SYSINFO_EHDR);
  struct elf_image image;
  if (is_libcs() || !head || (spool->features & FEATURE_OTHER_CLOCK)) return;
  const ElfW(Phdr) *segments = (const void *)((uintptr_t)head + head->e_phoff), *first = segments;
  while (first < segments + head->e_phnum && first->p_type != PT_LOAD) first++;
  if (first == segments + head->e_phnum) return;
  uintptr_t bias = (uintptr_t)head + first->p_offset - first->p_vaddr;
  elf_image_read(&(struct dl_phdr_info){.dlpi_addr = bias, .dlpi_phdr = segments, .dlpi_phnum = head->e_phnum}, &image);
  const elf_symbol *symbol = elf_image_symbol(&image, ARCH_KERNEL_CLOCK);
  if (symbol) clock_read_by((clock_function *)(image.bias + symbol->st_value));
}
