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
extern char __ehdr_start[] __attribute__((visibility("hidden")));
extern char __start_kept[] __attribute__((visibility("hidden")));
extern char __stop_kept[] __attribute__((visibility("hidden")));

static char *page_after(char *at) {
  uintptr_t page = arch_page_bytes();
  return (char *)(((uintptr_t)at + page - 1) & ~(page - 1));
}

static void add_part(char *start, char *end, char *filled_end) {
  if (start >= end || count == MOST_PARTS) return;
  parts[count++] =
      (struct part){.start = start, .end = end, .filled = filled_end > start ? (size_t)(filled_end - start) : 0};
}

/* What the loader has made read-only is left out; it comes first in its segment, or is one of its own. */
static void find_parts(void) {
  const ElfW(Ehdr) *file = (const ElfW(Ehdr) *)__ehdr_start;
  const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(__ehdr_start + file->e_phoff);
  char *bias = NULL, *read_only_end = NULL;
  for (int i = file->e_phnum; i-- > 0;) {
    if (segments[i].p_type == PT_LOAD && !segments[i].p_offset) bias = __ehdr_start - segments[i].p_vaddr;
  }
  for (int i = 0; i < file->e_phnum; i++) {
    if (segments[i].p_type == PT_GNU_RELRO)
      read_only_end = page_after(bias + segments[i].p_vaddr + segments[i].p_memsz);
  }
  for (int i = 0; i < file->e_phnum; i++) {
    const ElfW(Phdr) *each = &segments[i];
    char *start = bias + each->p_vaddr, *end = start + each->p_memsz, *filled = start + each->p_filesz;
    if (each->p_type != PT_LOAD || !(each->p_flags & PF_W)) continue;
    if (read_only_end && start < read_only_end && read_only_end - start < (ptrdiff_t)(end - start + 65536))
      start = read_only_end;
    if (__start_kept >= start && __stop_kept <= end) {
      add_part(start, __start_kept, filled < __start_kept ? filled : __start_kept);
      start = __stop_kept;
    }
    add_part(start, end, filled);
  }
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
  find_parts();
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
