/* Anonymous mappings that libraries make: memory that does not come from malloc.
 *
 * Not counted are mappings of the allocator itself (recognized by the caller's address; libc's allocator does not call
 * the exported mmap at all), mappings of Python's allocators (pyalloc.c counts them), and files. A mapping without
 * access is a reservation, not memory, until mprotect makes it accessible; one without reserve is memory as far as it is
 * resident, accessible or not (residency.c).
 *
 * The ranges are in a sorted table of disjoint ranges under a lock. The holder blocks all signals, so no handler finds
 * the lock held by its own thread and none leaves by longjmp while holding it. A thread that finds the lock taken for
 * too long counts a loss instead. Ranges leave the table before they are unmapped and enter it after they are mapped,
 * so a range that another thread gets is never confused with the previous one. */
#include "inside/memory/mappings.h"

#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/accounts/live.h"
#include "inside/memory/memory.h"
#include "inside/memory/residency.h"
#include "inside/memory/sampler.h"
#include "inside/python/python.h"
#include "inside/stacks/frames.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/sealed/sealed.h"
#include "shared/spool.h"

#define MAX_RANGES 8192
#define MOST_YIELDS 10000
#define PAGE arch_page_bytes()
#define UNTOUCHED_UNIT 4096 /* bytes, whatever the kernel's pages have */
#define ADDRESSES ((uintptr_t)1 << ARCH_ADDRESS_BITS)
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4 /* the address is a wish */
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

/* A mapped range. Invariant: start < end <= start of the next range. */
struct range {
  uintptr_t start, end;
  uint64_t id; /* of its sample; 0 = none */
  int64_t interval;
  uint64_t block_bytes; /* bytes of the mapping when it was sampled */
  struct kind {
    bool memory;    /* false = a reservation, or in a group */
    uint16_t group; /* of residency.c; 0 = none */
  } kind;
};

static struct range ranges[MAX_RANGES];
static _Atomic size_t range_count;
static _Atomic int32_t holder; /* tid; 0 = free */
static _Atomic int64_t mapped, reserved;

void mappings_sizes(int64_t *mapped_bytes, int64_t *reserved_bytes) {
  int64_t resident = residency_bytes(), rest = atomic_load(&reserved) - resident;
  *mapped_bytes = atomic_load(&mapped) + resident;
  *reserved_bytes = rest > 0 ? rest : 0;
}

/* ---- the lock ---- */

static uint64_t saved_mask;    /* signal mask of the holder before it took the lock */
static uint32_t saved_section; /* the holder's section (sealed.h) */

static void set_mask(uint64_t mask) { syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask); }

static bool try_lock(uint32_t section) {
  int32_t own = (int32_t)syscall(SYS_gettid);
  uint64_t all = ~(uint64_t)0, before = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof before);
  for (int i = 0; i < MOST_YIELDS; i++) {
    int32_t free = 0;
    if (atomic_compare_exchange_strong(&holder, &free, own)) {
      saved_mask = before;
      saved_section = section;
      return true;
    }
    sched_yield();
  }
  set_mask(before);
  loss_add(LOSS_mapping_missed);
  return false;
}

static bool lock(void) {
  uint32_t section = seal_enter();
  if (!sealed() && try_lock(section)) return true;
  seal_leave(section);
  return false;
}

static void unlock(void) {
  uint64_t before = saved_mask;
  uint32_t section = saved_section;
  atomic_store(&holder, 0);
  set_mask(before);
  seal_leave(section);
}

/* True inside memory_mapped, whose slow path may call mappings_untouched_pages. */
static bool locked_by_caller(void) { return atomic_load(&holder) == (int32_t)syscall(SYS_gettid); }

/* ---- the table ---- */

/* Returns the index of the first range that ends after `start`. */
static size_t first_after(uintptr_t start) {
  size_t low = 0, high = range_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (ranges[middle].end <= start) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static bool insert_at(size_t at, const struct range *range) {
  if (range_count >= MAX_RANGES) {
    loss_add(LOSS_mapping_missed);
    return false;
  }
  for (size_t i = range_count; i > at; i--) ranges[i] = ranges[i - 1];
  ranges[at] = *range;
  range_count++;
  return true;
}

static void erase_at(size_t at) {
  range_count--;
  for (size_t i = at; i < range_count; i++) ranges[i] = ranges[i + 1];
}

static size_t resized_bytes; /* bytes of memory that mremap has taken out and will put back with another size */

/* Counts a range, or a part of one, that was taken out of the table as freed. */
static void account(const struct range *part, uint32_t flags) {
  int64_t bytes = (int64_t)(part->end - part->start);
  atomic_fetch_sub(part->kind.memory ? &mapped : &reserved, bytes);
  if (!part->kind.memory) return;
  if (part->id) {
    struct live_sample sample = {.id = part->id, .usable = part->block_bytes, .interval = part->interval};
    bool whole = part->block_bytes == (uint64_t)bytes;
    sampler_ended(&sample, (uint64_t)bytes, frames_current(), flags | (whole ? 0 : FREE_PART));
  }
  if (flags & FREE_RESIZED) {
    resized_bytes += (size_t)bytes;
  } else {
    memory_count_freed(&this_memory, NATIVE, (size_t)bytes);
  }
}

/* Takes [start, end) out of the table. Returns the number of parts; stores the last one in `last`. */
static int cut(uintptr_t start, uintptr_t end, uint32_t flags, struct range *last) {
  int parts = 0;
  for (size_t at = first_after(start); at < range_count && ranges[at].start < end;) {
    struct range part = ranges[at], rest = ranges[at];
    if (part.start < start) part.start = start;
    if (part.end > end) part.end = end;
    if (ranges[at].start < start) {
      rest.start = end;
      ranges[at++].end = start;
      /* Two ranges remain around the middle. */
      if (rest.end > end && !insert_at(at, &rest)) account(&rest, flags);
    } else if (ranges[at].end > end) {
      ranges[at].start = end;
    } else {
      erase_at(at);
    }
    account(&part, flags);
    parts++;
    if (last) *last = part;
  }
  return parts;
}

static bool is_same(struct kind a, struct kind b) { return a.memory == b.memory && a.group == b.group; }

/* Joins neighbouring ranges that have no sample. */
static void join_neighbours(size_t at) {
  for (size_t i = at > 0 ? at - 1 : 0; i < at + 1 && i + 1 < range_count;) {
    struct range *left = &ranges[i], *right = &ranges[i + 1];
    if (left->end == right->start && !left->id && !right->id && is_same(left->kind, right->kind)) {
      left->end = right->end;
      erase_at(i + 1);
    } else {
      i++;
    }
  }
}

/* Adds a range. before: bytes of memory that it had as another mapping. */
static void enter(uintptr_t start, uintptr_t end, size_t size, struct kind kind, uint16_t source, size_t before) {
  struct range range = {.start = start, .end = end, .block_bytes = end - start, .kind = kind};
  struct block block = {start, size, end - start, source, false, true, false};
  size_t at = first_after(start);
  if (!insert_at(at, &range)) {
    if (before) memory_count_freed(&this_memory, NATIVE, before);
    return;
  }
  atomic_fetch_add(kind.memory ? &mapped : &reserved, (int64_t)(end - start));
  if (kind.memory) ranges[at].id = memory_mapped(&block, before);
  join_neighbours(at);
}

/* ---- resident pages ---- */

#define PIECE_PAGES 1024
#define EXAMINED_PAGES 65536                /* pages in total; of a larger number, only every n-th piece is examined */
#define MOST_RESIDENT ((uintptr_t)64 << 30) /* bytes of a mapping without reserve: some reserve terabytes */
#define STEP_PAGES ((uint64_t)1 << 17)      /* of such mappings, at a tick: 0.2 ms if all are resident */
#define RELEASE_PAGES ((uint64_t)1 << 20)  /* before pages are given back: 4 GiB, one millisecond if none is resident */
#define RELEASED_PAGES ((uint64_t)1 << 18) /* that a call gives back: of more, the next count finds the rest */
#define LAST_STEP_PAGES ((uint64_t)1 << 26) /* at the end of the process: 256 GiB */

/* Returns the number of resident pages; `otherwise` if it is unknown. */
static unsigned resident_in(uintptr_t start, size_t pages, unsigned otherwise) {
  static unsigned char resident[PIECE_PAGES]; /* guarded by the lock */
  unsigned count = 0;
  if (syscall(SYS_mincore, start, pages * PAGE, resident)) return otherwise;
  for (size_t i = 0; i < pages; i++) count += resident[i] & 1;
  return count;
}

static size_t pages_of_piece(uintptr_t start, uintptr_t end) {
  size_t pages = (end - start) / PAGE;
  return pages < PIECE_PAGES ? pages : PIECE_PAGES;
}

static uint64_t count_untouched(void) {
  uint64_t every = (uint64_t)atomic_load(&mapped) / PAGE / EXAMINED_PAGES + 1, piece = 0, count = 0;
  for (size_t at = 0; at < range_count; at++) {
    uintptr_t start = ranges[at].start, end = ranges[at].end;
    for (; ranges[at].kind.memory && start < end; start += PIECE_PAGES * PAGE) {
      unsigned pages = (unsigned)pages_of_piece(start, end);
      if (piece++ % every == 0) count += every * (pages - resident_in(start, pages, pages));
    }
  }
  return count;
}

static uintptr_t counted_to; /* where the count of resident pages goes on; 0 = none has begun */

/* Adds the pages of a range from counted_to on, at most `pages`. Returns how many it has looked at. */
static uint64_t count_range(const struct range *range, uint64_t pages) {
  uintptr_t start = range->start > counted_to ? range->start : counted_to;
  uint64_t looked_at = 0, resident = 0;
  while (start < range->end && looked_at < pages) {
    size_t piece = pages_of_piece(start, range->end);
    resident += resident_in(start, piece, 0);
    looked_at += piece;
    start += piece * PAGE;
  }
  residency_add(range->kind.group, (int64_t)resident * PAGE);
  counted_to = start;
  return looked_at;
}

static bool has_moved(const struct range *range) { return range->kind.group && residency_has_moved(range->kind.group); }

/* Counts the groups again that have moved since the count began: they may have been missed, or found twice. This takes at
 * most one more step. */
static void count_moved(void) {
  uint64_t pages = 0;
  for (size_t at = 0; at < range_count; at++) {
    if (has_moved(&ranges[at])) pages += (ranges[at].end - ranges[at].start) / PAGE;
  }
  if (!pages) return;
  if (pages > STEP_PAGES) {
    loss_add(LOSS_mapping_missed);
    return;
  }
  residency_begin_again();
  counted_to = 0;
  for (size_t at = 0; at < range_count; at++) {
    if (has_moved(&ranges[at])) count_range(&ranges[at], pages);
  }
  residency_end_again();
}

/* Takes a step of the count. True = it is complete. */
static bool count_resident(uint64_t stack, uint64_t pages) {
  if (!counted_to) residency_begin();
  for (size_t at = first_after(counted_to); at < range_count; at++) {
    if (!ranges[at].kind.group) continue;
    uint64_t looked_at = count_range(&ranges[at], pages);
    pages -= looked_at < pages ? looked_at : pages;
    if (!pages) return false;
  }
  count_moved();
  counted_to = 0;
  residency_settle(stack);
  return true;
}

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

/* Returns the group that has the whole of [start, end), 0 = none. Allocators give back a part of their mapping, and take it
 * again, by mapping over it. */
static uint16_t group_around(uintptr_t start, uintptr_t end) {
  size_t at = first_after(start);
  bool inside = at < range_count && ranges[at].start <= start && end <= ranges[at].end;
  return inside ? ranges[at].kind.group : 0;
}

uint32_t mappings_untouched_pages(void) {
  bool inside = locked_by_caller();
  if (!range_count || (!inside && !lock())) return 0;
  int saved_errno = errno;
  uint64_t count = count_untouched();
  errno = saved_errno;
  if (!inside) unlock();
  count *= PAGE / UNTOUCHED_UNIT;
  return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

/* In a tick, a thread does not wait for another one that has the lock. */
static bool lock_at_once(void) {
  uint32_t section = seal_enter();
  if (!sealed() && !atomic_load(&holder) && try_lock(section)) return true;
  seal_leave(section);
  return false;
}

enum extent { ONE_STEP, TO_THE_END, ALL };

/* A count that had begun before the pages were touched has not seen them, so another one follows. */
static bool count_to_the_end(uint64_t stack) {
  bool is_new = !counted_to;
  bool ended = count_resident(stack, RELEASE_PAGES);
  return ended && !is_new ? count_resident(stack, RELEASE_PAGES) : ended;
}

static void look(uint64_t stack, enum extent extent) {
  int64_t before_ns = clock_thread_cpu_ns();
  bool ended = true;
  if (extent == ALL ? lock() : lock_at_once()) {
    if (extent == ALL) counted_to = 0;
    if (extent == TO_THE_END) ended = count_to_the_end(stack);
    if (extent != TO_THE_END) ended = count_resident(stack, extent == ALL ? LAST_STEP_PAGES : STEP_PAGES);
    unlock();
  }
  residency_put_off(clock_thread_cpu_ns() - before_ns, ended);
}

void mappings_look(uint64_t stack, bool now) {
  if (likely(!residency_has_groups()) || this_memory.busy) return;
  int saved_errno = errno;
  if (!now) residency_note_running(stack);
  if (now || residency_is_due()) look(stack, now ? ALL : ONE_STEP);
  errno = saved_errno;
}

/* Returns the group of the page, 0 = none or unknown. */
static uint16_t group_at(uintptr_t address) {
  uintptr_t page = address & ~(uintptr_t)(PAGE - 1);
  return group_around(page, page + PAGE);
}

bool mappings_are_resident_part(uintptr_t address) {
  if (!residency_has_groups() || !lock_at_once()) return false;
  uint16_t group = group_at(address);
  unlock();
  return group != 0;
}

/* ---- pages that are given back ---- */

/* An interpreter that ends gives everything back. */
static bool is_first_of_the_end(void) {
  static _Atomic bool was_seen;
  bool ends = python_finalizing();
  if (atomic_load_explicit(&was_seen, memory_order_relaxed) == ends) return false;
  return !atomic_exchange(&was_seen, ends) && ends;
}

static bool is_any_in_group(uintptr_t start, uintptr_t end) {
  for (size_t at = first_after(start); at < range_count && ranges[at].start < end; at++) {
    if (ranges[at].kind.group) return true;
  }
  return false;
}

/* Takes the resident pages of [start, end) from a group. Those that a count has passed must leave it, too. */
static void release_part(uint16_t group, uintptr_t start, uintptr_t end, uint64_t *pages_left) {
  int64_t bytes = 0, found = 0;
  while (start < end && *pages_left) {
    size_t piece = pages_of_piece(start, end);
    if (start < counted_to && (counted_to - start) / PAGE < piece) piece = (counted_to - start) / PAGE;
    if (piece > *pages_left) piece = *pages_left;
    int64_t resident = (int64_t)(resident_in(start, piece, 0) * PAGE);
    bytes += resident;
    if (start < counted_to) found += resident;
    *pages_left -= piece;
    start += piece * PAGE;
  }
  int64_t taken = residency_release(group, bytes, found);
  if (taken) residency_take(group, taken, frames_current());
}

static void release_range(uintptr_t start, uintptr_t end) {
  uint64_t pages_left = RELEASED_PAGES;
  for (size_t at = first_after(start); at < range_count && ranges[at].start < end; at++) {
    const struct range *range = &ranges[at];
    uintptr_t from = range->start > start ? range->start : start, to = range->end < end ? range->end : end;
    if (range->kind.group) release_part(range->kind.group, from, to, &pages_left);
  }
}

static void count_and_release(uintptr_t start, uintptr_t end, bool go) {
  int64_t before_ns = 0;
  bool ended = true;
  if (!lock_at_once()) return;
  bool within = is_any_in_group(start, end), looks = within && (is_first_of_the_end() || residency_is_due());
  if (looks) {
    before_ns = clock_thread_cpu_ns();
    ended = count_to_the_end(0); /* who gives pages back says nothing about who has touched them */
  }
  if (within && go) release_range(start, end);
  unlock();
  if (looks) residency_put_off(clock_thread_cpu_ns() - before_ns, ended);
}

static uintptr_t round_up(size_t bytes) { return (bytes + PAGE - 1) & ~(uintptr_t)(PAGE - 1); }

static bool is_range(uintptr_t start, size_t bytes) {
  return bytes > 0 && start % PAGE == 0 && start < ADDRESSES && bytes <= ADDRESSES - start;
}

/* Before pages are given back: what was touched since the last count is counted while it is there, also in a program that
 * waited and so had no tick. `go`: the pages go at once. */
static void before_release(uintptr_t start, size_t bytes, bool go) {
  if (likely(!residency_has_groups()) || this_memory.busy || !memory_counts() || !is_range(start, bytes)) return;
  if (spool->paused || (!go && !residency_may_be_due())) return;
  int saved_errno = errno;
  uint32_t section = seal_enter(); /* clocks and stacks make system calls, too */
  if (!sealed() && recording()) {
    fork_check();
    count_and_release(start, start + round_up(bytes), go);
  }
  seal_leave(section);
  errno = saved_errno;
}

/* What the parent has touched is not the child's growth. */
void mappings_prefork(void) {
  if (likely(!residency_has_groups()) || this_memory.busy || !memory_counts() || spool->paused) return;
  int saved_errno = errno;
  uint32_t section = seal_enter();
  if (!sealed() && recording()) {
    fork_check();
    if (residency_may_be_due() || residency_has_faulted()) look(0, TO_THE_END);
  }
  seal_leave(section);
  errno = saved_errno;
}

void mappings_note_fault(uintptr_t address, uint64_t faults, uint64_t stack) {
  if (!lock_at_once()) return;
  uint16_t group = group_at(address); /* in the meantime, another thread may have ended the one before */
  if (group) residency_note_fault(group, faults, stack);
  unlock();
}

/* ---- effects of the calls ---- */

static bool counting(const void *caller) {
  return memory_counts() && recording() && !this_memory.python_depth && !next_is_allocators(caller);
}

/* Takes a range out before it is unmapped. Returns the number of parts; stores the last one in `last`. */
static int note_unmapped(uintptr_t start, size_t bytes, struct range *last) {
  if (!memory_counts() || !range_count || !is_range(start, bytes)) return 0;
  int saved_errno = errno, parts = 0;
  fork_check();
  if (recording() && lock()) {
    parts = cut(start, start + round_up(bytes), 0, last);
    unlock();
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
  if (counts && lock()) {
    if (by_residency) kind.group = group_around(start, start + round_up(bytes));
    /* Ranges that the mapping replaces, or that a raw system call has unmapped. */
    cut(start, start + round_up(bytes), 0, NULL);
    if (by_residency && !kind.group) kind.group = new_group(stack);
    enter(start, start + round_up(bytes), bytes, kind, ALLOC_MMAP, 0);
    unlock();
  }
  /* With ticks, these look. */
  if (counts && by_residency && !(spool->features & FEATURE_CPU)) mappings_look(stack, false);
  seal_leave(section);
  errno = saved_errno;
}

/* Finds the next part of [start, end) that has not the wanted access. In a group, access does not matter. */
static bool find_other_access(uintptr_t start, uintptr_t end, bool accessible, struct range *part) {
  for (size_t at = first_after(start); at < range_count && ranges[at].start < end; at++) {
    if (ranges[at].kind.group || ranges[at].kind.memory == accessible) continue;
    part->start = ranges[at].start > start ? ranges[at].start : start;
    part->end = ranges[at].end < end ? ranges[at].end : end;
    return true;
  }
  return false;
}

static void note_protected(uintptr_t start, size_t bytes, bool accessible) {
  struct range part;
  if (!memory_counts() || !range_count || !is_range(start, bytes)) return;
  int saved_errno = errno;
  fork_check();
  if (recording() && lock()) {
    while (find_other_access(start, start + round_up(bytes), accessible, &part)) {
      cut(part.start, part.end, 0, NULL);
      enter(part.start, part.end, part.end - part.start, (struct kind){.memory = accessible}, ALLOC_MPROTECT, 0);
    }
    unlock();
  }
  errno = saved_errno;
}

/* ---- the exported functions ---- */

static void *map(void *address, size_t bytes, int protection, int flags, int fd, off_t offset, const void *caller) {
  if ((flags & MAP_FIXED) && !(flags & MAP_FIXED_NOREPLACE)) before_release((uintptr_t)address, bytes, true);
  void *start = next.mmap ? next.mmap(address, bytes, protection, flags, fd, offset)
                          : (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
  if (start == MAP_FAILED || !memory_counts()) return start;
  if ((flags & MAP_ANONYMOUS) && counting(caller)) {
    bool accessible = protection != PROT_NONE, by_residency = flags & MAP_NORESERVE;
    struct kind kind = {.memory = accessible && !by_residency};
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

EXPORT void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off64_t offset) {
  return map(address, bytes, protection, flags, fd, offset, __builtin_return_address(0));
}

/* The kernel refused to unmap, because the number of mappings is limited: the ranges are still mapped. */
static void put_back(int parts, const struct range *last) {
  int saved_errno = errno;
  if (parts == 1) {
    struct kind kind = {.memory = last->kind.memory}; /* another thread may have ended the group */
    note_mapped(last->start, last->end - last->start, kind, last->kind.group != 0);
  } else {
    loss_add(LOSS_mapping_missed);
  }
  errno = saved_errno;
}

EXPORT int munmap(void *address, size_t bytes) {
  struct range last;
  before_release((uintptr_t)address, bytes, true);
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
  if (go || advice == MADV_FREE) before_release((uintptr_t)address, bytes, go);
  return next.madvise ? next.madvise(address, bytes, advice) : (int)syscall(SYS_madvise, address, bytes, advice);
}

static void *remap(void *address, size_t before, size_t bytes, int flags, void *wanted) {
  return next.mremap ? next.mremap(address, before, bytes, flags, wanted)
                     : (void *)syscall(SYS_mremap, address, before, bytes, flags, wanted);
}

/* With MREMAP_DONTUNMAP, the old range stays mapped, without its pages. */
static void note_remapped(uintptr_t from, size_t before, uintptr_t to, size_t bytes, int flags, struct kind kind) {
  resized_bytes = 0;
  if (!(flags & MREMAP_DONTUNMAP)) cut(from, from + round_up(before), FREE_RESIZED, NULL);
  cut(to, to + round_up(bytes), 0, NULL); /* MREMAP_FIXED replaces them */
  enter(to, to + round_up(bytes), bytes, kind, ALLOC_MREMAP, resized_bytes);
  if (kind.group) residency_moved(kind.group);
}

/* Runs under the lock. Otherwise another thread could be given the old addresses and add them to the table before they
 * were taken out. */
static void *remap_counted(void *address, size_t before, size_t bytes, int flags, void *wanted) {
  size_t at = first_after((uintptr_t)address);
  bool known = at < range_count && ranges[at].start <= (uintptr_t)address;
  struct kind kind = known ? ranges[at].kind : (struct kind){0};
  void *start = remap(address, before, bytes, flags, wanted);
  int saved_errno = errno;
  if (start != MAP_FAILED && known && before) {
    note_remapped((uintptr_t)address, before, (uintptr_t)start, bytes, flags, kind);
  } else if (start != MAP_FAILED && (flags & MREMAP_FIXED)) {
    cut((uintptr_t)start, (uintptr_t)start + round_up(bytes), 0, NULL);
  }
  errno = saved_errno;
  return start;
}

EXPORT void *mremap(void *address, size_t before, size_t bytes, int flags, ...) {
  va_list more;
  va_start(more, flags);
  void *wanted = flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) ? va_arg(more, void *) : NULL;
  va_end(more);
  size_t kept = round_up(bytes);
  if (bytes && bytes <= kept && kept < before) before_release((uintptr_t)address + kept, before - kept, true);
  if (memory_counts() && range_count) fork_check();
  if (!memory_counts() || !range_count || !recording() || !lock()) {
    return remap(address, before, bytes, flags, wanted);
  }
  void *start = remap_counted(address, before, bytes, flags, wanted);
  unlock();
  return start;
}

/* The child has the same mappings, but their samples are the parent's. If another thread of the parent was changing the
 * table, it is inconsistent, so it is emptied. */
int64_t mappings_postfork_child(void) {
  bool inconsistent = atomic_exchange(&holder, 0) != 0;
  int64_t lost = inconsistent ? atomic_exchange(&mapped, 0) + residency_bytes() : 0;
  counted_to = 0;
  if (inconsistent) {
    range_count = 0;
    atomic_store(&reserved, 0);
    loss_add(LOSS_mapping_missed);
  }
  residency_postfork_child(inconsistent);
  for (size_t i = 0; i < range_count; i++) ranges[i].id = 0;
  return lost;
}
