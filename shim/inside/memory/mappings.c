/* Anonymous mappings that libraries make: memory that does not come from malloc.
 *
 * Not counted are mappings of the allocator itself (recognized by the caller's address; libc's allocator does not call
 * the exported mmap at all), mappings of Python's allocators (pyalloc.c counts them), and files. A mapping without
 * access is a reservation, not memory, until mprotect makes it accessible; one without reserve is memory as far as it is
 * resident, accessible or not (pages.c, residency.c).
 *
 * Ranges leave the table (ranges.c) before they are unmapped and enter it after they are mapped, so a range that another
 * thread gets is never confused with the previous one. */
#include "inside/memory/mappings.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/memory/memory.h"
#include "inside/memory/pages.h"
#include "inside/memory/ranges.h"
#include "inside/memory/residency.h"
#include "inside/stacks/frames.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/sealed/sealed.h"
#include "shared/spool.h"

#define MOST_RESIDENT ((uintptr_t)64 << 30) /* bytes of a mapping without reserve: some reserve terabytes */
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4 /* the address is a wish */
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

void mappings_sizes(int64_t *mapped_bytes, int64_t *reserved_bytes) {
  int64_t resident = residency_bytes(), rest = ranges_bytes(false) - resident;
  *mapped_bytes = ranges_bytes(true) + resident;
  *reserved_bytes = rest > 0 ? rest : 0;
}

/* ---- effects of the calls ---- */

/* If the table is full, groups that were unmapped leave it. */
static uint16_t new_group(uint64_t stack) {
  if (residency_is_full()) {
    residency_clear_marks();
    for (size_t at = 0; at < range_count; at++) {
      if (ranges[at].kind.group) residency_mark(ranges[at].kind.group);
    }
    residency_drop_unmarked(stack);
  }
  return residency_new_group(stack);
}

static bool counting(const void *caller) {
  return memory_counts() && recording() && !this_memory.python_depth && !next_is_allocators(caller);
}

/* Takes a range out before it is unmapped. Returns the number of parts; stores the last one in `last`. */
static int note_unmapped(uintptr_t start, size_t bytes, struct range *last) {
  if (!memory_counts() || !range_count || !ranges_are_possible(start, bytes)) return 0;
  int saved_errno = errno, parts = 0;
  fork_check();
  if (recording() && ranges_lock()) {
    parts = ranges_cut(start, start + ranges_round_up(bytes), 0, last);
    ranges_unlock();
  }
  errno = saved_errno;
  return parts;
}

static void note_mapped(uintptr_t start, size_t bytes, struct kind kind, bool by_residency) {
  int saved_errno = errno;
  fork_check();
  uint32_t section = seal_enter(); /* reading the stack makes system calls, too */
  bool counts = recording();
  uint64_t stack = counts && by_residency ? frames_current() : 0;
  if (counts && ranges_lock()) {
    /* Allocators give back a part of their mapping, and take it again, by mapping over it. */
    if (by_residency) kind.group = ranges_group_around(start, start + ranges_round_up(bytes));
    /* Ranges that the mapping replaces, or that a raw system call has unmapped. */
    ranges_cut(start, start + ranges_round_up(bytes), 0, NULL);
    if (by_residency && !kind.group) kind.group = new_group(stack);
    ranges_enter(start, start + ranges_round_up(bytes), bytes, kind, ALLOC_MMAP, 0);
    ranges_unlock();
  }
  /* With ticks, these look. */
  bool has_ticks = !IS_ATTACHED && (spool->features & FEATURE_CPU);
  if (counts && by_residency && !has_ticks) pages_look(stack, false);
  seal_leave(section);
  errno = saved_errno;
}

/* Finds the next part of [start, end) that has not the wanted access. In a group, access does not matter. */
static bool find_other_access(uintptr_t start, uintptr_t end, bool accessible, struct range *part) {
  for (size_t at = ranges_first_after(start); at < range_count && ranges[at].start < end; at++) {
    if (ranges[at].kind.group || ranges[at].kind.memory == accessible) continue;
    part->start = ranges[at].start > start ? ranges[at].start : start;
    part->end = ranges[at].end < end ? ranges[at].end : end;
    part->kind.shared = ranges[at].kind.shared;
    return true;
  }
  return false;
}

static void note_protected(uintptr_t start, size_t bytes, bool accessible) {
  struct range part;
  if (!memory_counts() || !range_count || !ranges_are_possible(start, bytes)) return;
  int saved_errno = errno;
  fork_check();
  if (recording() && ranges_lock()) {
    while (find_other_access(start, start + ranges_round_up(bytes), accessible, &part)) {
      struct kind kind = {.memory = accessible, .shared = part.kind.shared};
      ranges_cut(part.start, part.end, 0, NULL);
      ranges_enter(part.start, part.end, part.end - part.start, kind, ALLOC_MPROTECT, 0);
    }
    ranges_unlock();
  }
  errno = saved_errno;
}

/* ---- the exported functions ---- */

static void *map(void *address, size_t bytes, int protection, int flags, int fd, off_t offset, const void *caller) {
  if ((flags & MAP_FIXED) && !(flags & MAP_FIXED_NOREPLACE)) pages_before_release((uintptr_t)address, bytes, true);
  void *start = next.mmap ? next.mmap(address, bytes, protection, flags, fd, offset)
                          : (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
  if (start == MAP_FAILED || !memory_counts()) return start;
  if ((flags & MAP_ANONYMOUS) && counting(caller)) {
    bool accessible = protection != PROT_NONE, by_residency = flags & MAP_NORESERVE;
    struct kind kind = {.memory = accessible && !by_residency, .shared = flags & MAP_SHARED};
    if (by_residency && accessible && bytes > MOST_RESIDENT) loss_add(LOSS_mapping_missed);
    note_mapped((uintptr_t)start, bytes, kind, by_residency && bytes <= MOST_RESIDENT);
  } else if (flags & MAP_FIXED) {
    note_unmapped((uintptr_t)start, bytes, NULL);
  }
  return start;
}

EXPORT void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  return map(address, bytes, protection, flags, fd, offset, __builtin_return_address(0));
}

#ifndef EXPORTED_PREFIX /* a test gives the exported functions other names */
#define EXPORTED_PREFIX ""
#endif

/* One function with two names, as in libc: memray warns on stderr where the addresses differ. */
EXPORT void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off64_t offset)
    __attribute__((alias(EXPORTED_PREFIX "mmap")));

/* The kernel refused to unmap, because the number of mappings is limited: the ranges are still mapped. */
static void put_back(int parts, const struct range *last) {
  int saved_errno = errno;
  if (parts == 1) {
    struct kind kind = {.memory = last->kind.memory,
                        .shared = last->kind.shared}; /* another thread may have ended the group */
    note_mapped(last->start, last->end - last->start, kind, last->kind.group != 0);
  } else {
    loss_add(LOSS_mapping_missed);
  }
  errno = saved_errno;
}

EXPORT int munmap(void *address, size_t bytes) {
  struct range last;
  pages_before_release((uintptr_t)address, bytes, true);
  int parts = note_unmapped((uintptr_t)address, bytes, &last);
  int result = next.munmap ? next.munmap(address, bytes) : (int)syscall(SYS_munmap, address, bytes);
  if (result && parts) put_back(parts, &last);
  return result;
}

EXPORT int mprotect(void *address, size_t bytes, int protection) {
  int result = next.mprotect ? next.mprotect(address, bytes, protection)
                             : (int)syscall(SYS_mprotect, address, bytes, protection);
  if (!result) note_protected((uintptr_t)address, bytes, protection != PROT_NONE);
  return result;
}

/* After MADV_FREE the kernel takes pages only when it needs them. */
EXPORT int madvise(void *address, size_t bytes, int advice) {
  bool go = advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED;
  if (go || advice == MADV_FREE) pages_before_release((uintptr_t)address, bytes, go);
  return next.madvise ? next.madvise(address, bytes, advice) : (int)syscall(SYS_madvise, address, bytes, advice);
}

static void *remap(void *address, size_t before, size_t bytes, int flags, void *wanted) {
  return next.mremap ? next.mremap(address, before, bytes, flags, wanted)
                     : (void *)syscall(SYS_mremap, address, before, bytes, flags, wanted);
}

/* With MREMAP_DONTUNMAP, the old range stays mapped, without its pages. Of what shrinks in its place, parts with different
 * access may stay: then only its end goes. */
static void note_remapped(uintptr_t from, size_t before, uintptr_t to, size_t bytes, int flags, struct kind kind) {
  uintptr_t end = from + ranges_round_up(before);
  if (!ranges_are_of_a_kind(from, end)) {
    if (to == from && bytes <= before) {
      ranges_cut(from + ranges_round_up(bytes), end, 0, NULL);
      return;
    }
    loss_add(LOSS_mapping_missed); /* all of it gets the kind of the first part */
  }
  if (!(flags & MREMAP_DONTUNMAP)) ranges_cut(from, end, FREE_RESIZED, NULL);
  ranges_cut(to, to + ranges_round_up(bytes), 0, NULL); /* MREMAP_FIXED replaces them */
  ranges_enter(to, to + ranges_round_up(bytes), bytes, kind, ALLOC_MREMAP, ranges_resized_bytes());
  if (kind.group) residency_moved(kind.group);
}

/* Runs under the lock. Otherwise another thread could be given the old addresses and add them to the table before they
 * were taken out. */
static void *remap_counted(void *address, size_t before, size_t bytes, int flags, void *wanted) {
  size_t at = ranges_first_after((uintptr_t)address);
  bool known = at < range_count && ranges[at].start <= (uintptr_t)address;
  struct kind kind = known ? ranges[at].kind : (struct kind){0};
  void *start = remap(address, before, bytes, flags, wanted);
  int saved_errno = errno;
  if (start != MAP_FAILED && known && before) {
    note_remapped((uintptr_t)address, before, (uintptr_t)start, bytes, flags, kind);
  } else if (start != MAP_FAILED && (flags & MREMAP_FIXED)) {
    ranges_cut((uintptr_t)start, (uintptr_t)start + ranges_round_up(bytes), 0, NULL);
  }
  errno = saved_errno;
  return start;
}

EXPORT void *mremap(void *address, size_t before, size_t bytes, int flags, ...) {
  va_list more;
  va_start(more, flags);
  void *wanted = flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) ? va_arg(more, void *) : NULL;
  va_end(more);
  size_t kept = ranges_round_up(bytes);
  if (bytes && bytes <= kept && kept < before) pages_before_release((uintptr_t)address + kept, before - kept, true);
  if (memory_counts() && range_count) fork_check();
  if (!memory_counts() || !range_count || !recording() || !ranges_lock()) {
    return remap(address, before, bytes, flags, wanted);
  }
  void *start = remap_counted(address, before, bytes, flags, wanted);
  ranges_unlock();
  return start;
}

/* The child has the same mappings. */
int64_t mappings_postfork_child(void) {
  int64_t before = ranges_bytes(true) + residency_bytes();
  bool consistent = ranges_postfork_child();
  pages_postfork_child();
  residency_postfork_child(!consistent);
  return consistent ? 0 : before;
}
