#include "inside/native/relocations.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shared/interpreter/elf_image.h"
#include "shared/base.h"

static const ElfW(Rela) * table_at(const struct relocated *image, const ElfW(Dyn) * entry) {
  return (const void *)elf_image_address(&image->image, entry->d_un.d_ptr);
}

static void read_dynamic(struct relocated *image, const ElfW(Dyn) * entry) {
  size_t relative = 0;
  for (; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_JMPREL) image->tables[0] = table_at(image, entry);
    if (entry->d_tag == DT_PLTRELSZ) image->counts[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
    if (entry->d_tag == DT_RELA) image->tables[1] = table_at(image, entry);
    if (entry->d_tag == DT_RELASZ) image->counts[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
    if (entry->d_tag == DT_RELACOUNT) relative = entry->d_un.d_val;
  }
  if (!image->tables[1] || relative > image->counts[1]) return;
  image->tables[1] += relative; /* relocations without a symbol come first */
  image->counts[1] -= relative;
}

bool relocations_read(const struct dl_phdr_info *info, struct relocated *out) {
  const ElfW(Dyn) *dynamic = NULL;
  *out = (struct relocated){.path = info->dlpi_name};
  elf_image_read(info, &out->image);
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + segment->p_vaddr, end = start + segment->p_memsz;
    if (segment->p_type == PT_DYNAMIC) dynamic = (const void *)start;
    if (segment->p_type != PT_GNU_RELRO) continue;
    out->read_only_start = start;
    out->read_only_end = end;
  }
  out->dynamic = dynamic;
  if (dynamic) read_dynamic(out, dynamic);
  return dynamic && out->image.symbols && out->image.names;
}

/* Another thread may be loading the image at this moment. The loader then still has to write to these pages, and to
 * make them read-only, so their protection must not be changed. This writes the current value by a system call, which
 * fails where the memory is read-only. Returns 0 = writable, else an errno. */
static int write_error(uintptr_t *slot) {
  uintptr_t value = *slot;
  struct iovec from = {&value, sizeof value}, to = {slot, sizeof *slot};
  ssize_t written = syscall(SYS_process_vm_writev, syscall(SYS_getpid), &from, 1, &to, 1, 0L);
  return written == sizeof value ? 0 : written < 0 ? errno : EFAULT;
}

/* The same for a slot that the loader may fill at this moment: the system call does "or 0" to half of it, atomically. It wakes
 * nobody, as nobody waits there. */
static int atomic_write_error(uintptr_t *slot) {
  uint32_t nothing = 0;
  int operation = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0);
  long woken = syscall(SYS_futex, &nothing, (long)FUTEX_WAKE_OP_PRIVATE, 0L, 0L, slot, (long)operation);
  return woken < 0 ? errno : 0;
}

#define MOST_TRIES 1000
static LASTING _Atomic bool busy;

bool relocations_try_begin(void) { return !atomic_exchange(&busy, true); }

bool relocations_begin(void) {
  for (int tries = 0; tries < MOST_TRIES; tries++) {
    if (relocations_try_begin()) return true;
    syscall(SYS_sched_yield);
  }
  return false;
}

void relocations_end(void) { atomic_store(&busy, false); }

void relocations_postfork_child(void) { atomic_store(&busy, false); }

/* That fails if the kernel has no memory at the moment. */
static void close_page(uintptr_t page, uintptr_t page_size) {
  for (int tries = 0; tries < 3 && syscall(SYS_mprotect, page, page_size, PROT_READ); tries++) syscall(SYS_sched_yield);
}

/* Returns false if the slot could not be made writable. The loader protects whole pages; the others may be
 * read-only as the program has them, and stay so. */
static bool change(const struct relocated *image, uintptr_t *slot, const uintptr_t *expected, uintptr_t value,
                   bool loaded) {
  uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE), mask = ~(page_size - 1), page = (uintptr_t)slot & mask;
  bool may_be_closed = page >= (image->read_only_start & mask) && page < (image->read_only_end & mask);
  int failure = expected ? atomic_write_error(slot) : !may_be_closed ? 0 : loaded ? EFAULT : write_error(slot);
  if (failure && (failure != EFAULT || !may_be_closed)) return false;
  if (failure && syscall(SYS_mprotect, page, page_size, PROT_READ | PROT_WRITE)) return false;
  uintptr_t found = expected ? *expected : 0;
  if (!expected) {
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
  } else {
    __atomic_compare_exchange_n(slot, &found, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
  if (failure) close_page(page, page_size);
  return true;
}

bool relocations_store(const struct relocated *image, uintptr_t *slot, uintptr_t value, bool loaded) {
  return change(image, slot, NULL, value, loaded);
}

bool relocations_replace(const struct relocated *image, uintptr_t *slot, uintptr_t expected, uintptr_t value) {
  return change(image, slot, &expected, value, false);
}
