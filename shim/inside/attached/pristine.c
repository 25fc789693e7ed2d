/* A library that was loaded once may record again and again, each time as if it had just been loaded. */
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inside/attached/attached.h"
#include "shared/base.h"

#define MOST_PARTS 8

/* A part of a writable segment: `filled` bytes that the file gives, the rest up to `end` is zero at first. */
struct part {
  char *start, *end;
  size_t filled;
  char *copy;
};
static LASTING struct part parts[MOST_PARTS];
static LASTING int count;
extern char __start_kept[] __attribute__((visibility("hidden")));
extern char __stop_kept[] __attribute__((visibility("hidden")));

static char *page_after(char *at) {
  uintptr_t page = arch_page_bytes();
  return (char *)(((uintptr_t)at + page - 1) & ~(page - 1));
}

static bool is_own(const struct dl_phdr_info *info) {
  for (int i = 0; i < info->dlpi_phnum; i++) {
    uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && (uintptr_t)&is_own - start < info->dlpi_phdr[i].p_memsz) return true;
  }
  return false;
}

static void add_part(char *start, char *end, char *filled_end) {
  if (start >= end || count == MOST_PARTS) return;
  parts[count++] =
      (struct part){.start = start, .end = end, .filled = filled_end > start ? (size_t)(filled_end - start) : 0};
}

/* What the loader has made read-only is left out; it comes first in its segment, or is one of its own. */
static int find_parts(struct dl_phdr_info *info, size_t size, void *unused) {
  char *read_only_end = NULL;
  (void)size, (void)unused;
  if (!is_own(info)) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *each = &info->dlpi_phdr[i];
    if (each->p_type == PT_GNU_RELRO)
      read_only_end = page_after((char *)info->dlpi_addr + each->p_vaddr + each->p_memsz);
  }
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *each = &info->dlpi_phdr[i];
    char *start = (char *)info->dlpi_addr + each->p_vaddr, *end = start + each->p_memsz,
         *filled = start + each->p_filesz;
    if (each->p_type != PT_LOAD || !(each->p_flags & PF_W)) continue;
    if (read_only_end && start < read_only_end && read_only_end - start < (ptrdiff_t)(end - start + 65536))
      start = read_only_end;
    if (__start_kept >= start && __stop_kept <= end) {
      add_part(start, __start_kept, filled < __start_kept ? filled : __start_kept);
      start = __stop_kept;
    }
    add_part(start, end, filled);
  }
  return 1;
}

static bool keep(struct part *part) {
  if (!part->filled) return true;
  long memory = syscall(SYS_mmap, NULL, part->filled, (long)(PROT_READ | PROT_WRITE),
                        (long)(MAP_PRIVATE | MAP_ANONYMOUS), -1L, 0L);
  if (memory == -1) return false;
  part->copy = (char *)memory;
  memcpy(part->copy, part->start, part->filled);
  return true;
}

bool pristine_keep(void) {
  bool kept = true;
  if (count) return true;
  dl_iterate_phdr(find_parts, NULL);
  for (int i = 0; i < count; i++) kept = kept && keep(&parts[i]);
  if (!kept) count = 0;
  return kept && count;
}

/* Whole pages that the file does not give are given back, which makes them zero. */
static void restore(const struct part *part) {
  char *zeros = part->start + part->filled, *whole = page_after(zeros);
  memcpy(part->start, part->copy, part->filled);
  if (whole >= part->end) whole = part->end;
  memset(zeros, 0, (size_t)(whole - zeros));
  char *last = (char *)((uintptr_t)part->end & ~(arch_page_bytes() - 1));
  if (last > whole) {
    if (syscall(SYS_madvise, whole, (size_t)(last - whole), (long)MADV_DONTNEED))
      memset(whole, 0, (size_t)(last - whole));
    whole = last;
  }
  memset(whole, 0, (size_t)(part->end - whole));
}

void pristine_restore(void) {
  for (int i = 0; i < count; i++) restore(&parts[i]);
}
