/* Counts the resident pages of mappings: of those without reserve, which are memory as far as they are resident
 * (residency.c), at ticks, before pages are given back, before a fork, and at the end of the process; and how many pages
 * of the others were never touched. */
#include "inside/memory/pages.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/memory/memory.h"
#include "inside/memory/ranges.h"
#include "inside/memory/residency.h"
#include "inside/python/python.h"
#include "inside/stacks/frames.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/sealed/sealed.h"
#include "shared/spool.h"

#define PAGE arch_page_bytes()
#define UNIT_OF_RECORDS 4096 /* bytes, whatever the kernel's pages have */
#define PIECE_PAGES 1024
#define EXAMINED_PAGES 65536                /* pages of a kind; of a larger number, only a part is examined */
#define STEP_PAGES ((uint64_t)1 << 17)      /* of such mappings, at a tick: 0.2 ms if all are resident */
#define WHOLE_PAGES ((uint64_t)1 << 20)     /* before a release or a fork: 4 GiB, 1 ms if none is resident */
#define RELEASED_PAGES ((uint64_t)1 << 18)  /* that a call gives back: of more, the next count finds the rest */
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

/* A way through the pages of one kind, of which one piece is examined for each stretch. */
struct walk {
  uint64_t pages;
  uint64_t stretch; /* pages; 0 = all are examined */
  uint64_t passed;  /* pages */
  uint64_t places;  /* that were passed */
};

/* The place in each stretch varies: mappings may alternate, and what is examined at equal distances would be one of them. */
static uint64_t place_of(const struct walk *walk) {
  uint64_t varied = (walk->places + 1) * 0x9E3779B97F4A7C15u >> 32;
  return walk->places * walk->stretch + varied % walk->stretch;
}

/* Passes a piece. Returns for how many pages it stands; 0 = it is not examined. */
static uint64_t pass(struct walk *walk, uint64_t pages) {
  uint64_t before = walk->places;
  if (!walk->stretch) return pages;
  walk->passed += pages;
  while (place_of(walk) < walk->passed) walk->places++;
  uint64_t end = walk->places * walk->stretch;
  return (end < walk->pages ? end : walk->pages) - before * walk->stretch;
}

/* Begins a walk for private mappings and one for shared ones. */
static void begin_walks(struct walk *walks) {
  uint64_t pages[2] = {0};
  for (size_t at = 0; at < range_count; at++) {
    if (ranges[at].kind.memory) pages[ranges[at].kind.shared] += (ranges[at].end - ranges[at].start) / PAGE;
  }
  for (int shared = 0; shared < 2; shared++) {
    uint64_t every = pages[shared] / EXAMINED_PAGES + 1;
    walks[shared] = (struct walk){pages[shared], .stretch = every > 1 ? every * PIECE_PAGES : 0};
  }
}

static void count_touched(uint64_t *untouched, uint64_t *shared) {
  struct walk walks[2];
  begin_walks(walks);
  for (size_t at = 0; at < range_count; at++) {
    uintptr_t start = ranges[at].start, end = ranges[at].end;
    for (; ranges[at].kind.memory && start < end; start += PIECE_PAGES * PAGE) {
      unsigned pages = (unsigned)pages_of_piece(start, end);
      uint64_t stands_for = pass(&walks[ranges[at].kind.shared], pages);
      if (!stands_for) continue;
      uint64_t touched = stands_for * resident_in(start, pages, pages) / pages;
      *untouched += stands_for - touched;
      if (ranges[at].kind.shared) *shared += touched;
    }
  }
}

static uint32_t in_units(uint64_t pages) {
  uint64_t count = pages * (PAGE / UNIT_OF_RECORDS);
  return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
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
  for (size_t at = ranges_first_after(counted_to); at < range_count; at++) {
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

/* Returns how many pages of 4 KiB of shared mappings there are besides so many. */
static uint32_t beside(uint32_t others) {
  int64_t count = ranges_shared_bytes() / UNIT_OF_RECORDS - others;
  return count < 0 ? 0 : count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

struct touched pages_touched(void) {
  bool inside = ranges_are_locked_here();
  if (!range_count || (!inside && !ranges_lock())) return (struct touched){0};
  int saved_errno = errno;
  uint64_t untouched = 0, shared = 0;
  count_touched(&untouched, &shared);
  uint32_t absent = beside(in_units(shared));
  errno = saved_errno;
  if (!inside) ranges_unlock();
  return (struct touched){in_units(untouched), absent};
}

uint32_t pages_shared(uint32_t absent) { return beside(absent); }

static void look(uint64_t stack, bool now) {
  int64_t before_ns = clock_thread_cpu_ns();
  bool ended = true;
  if (now ? ranges_lock() : ranges_lock_at_once()) {
    if (now) counted_to = 0;
    ended = count_resident(stack, now ? LAST_STEP_PAGES : STEP_PAGES);
    ranges_unlock();
  }
  residency_put_off(clock_thread_cpu_ns() - before_ns, ended);
}

void pages_look(uint64_t stack, bool now) {
  if (likely(!residency_has_groups()) || this_memory.busy) return;
  int saved_errno = errno;
  if (!now) residency_note_running(stack);
  if (now || residency_is_due()) look(stack, now);
  errno = saved_errno;
}

/* Returns the group of the page, 0 = none or unknown. */
static uint16_t group_at(uintptr_t address) {
  uintptr_t page = address & ~(uintptr_t)(PAGE - 1);
  return ranges_group_around(page, page + PAGE);
}

bool pages_are_followed(uintptr_t address) {
  if (!residency_has_groups() || !ranges_lock_at_once()) return false;
  uint16_t group = group_at(address);
  ranges_unlock();
  return group != 0;
}

void pages_note_fault(uintptr_t address, uint64_t faults, uint64_t stack) {
  if (!ranges_lock_at_once()) return;
  uint16_t group = group_at(address); /* in the meantime, another thread may have ended the one before */
  if (group) residency_note_fault(group, faults, stack);
  ranges_unlock();
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
  for (size_t at = ranges_first_after(start); at < range_count && ranges[at].start < end; at++) {
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
  for (size_t at = ranges_first_after(start); at < range_count && ranges[at].start < end; at++) {
    const struct range *range = &ranges[at];
    uintptr_t from = range->start > start ? range->start : start, to = range->end < end ? range->end : end;
    if (range->kind.group) release_part(range->kind.group, from, to, &pages_left);
  }
}

/* A count that had begun before the pages were touched has not seen them, so another one follows. Who gives pages back, or
 * forks, says nothing about who has touched them. */
static void count_now(void) {
  int64_t before_ns = clock_thread_cpu_ns();
  bool is_new = !counted_to, ended = count_resident(0, WHOLE_PAGES);
  if (ended && !is_new) ended = count_resident(0, WHOLE_PAGES);
  residency_put_off(clock_thread_cpu_ns() - before_ns, ended);
}

static void count_and_release(uintptr_t start, uintptr_t end, bool go) {
  if (!ranges_lock_at_once()) return;
  if (is_any_in_group(start, end)) {
    if (is_first_of_the_end() || residency_is_due()) count_now();
    if (go) release_range(start, end);
  }
  ranges_unlock();
}

void pages_before_release(uintptr_t start, size_t bytes, bool go) {
  if (likely(!residency_has_groups()) || this_memory.busy || !memory_counts() || !ranges_are_possible(start, bytes))
    return;
  if (spool->paused || (!go && !residency_may_be_due())) return;
  int saved_errno = errno;
  uint32_t section = seal_enter(); /* clocks and stacks make system calls, too */
  if (!sealed() && recording()) {
    fork_check();
    count_and_release(start, start + ranges_round_up(bytes), go);
  }
  seal_leave(section);
  errno = saved_errno;
}

void pages_prefork(void) {
  if (likely(!residency_has_groups()) || this_memory.busy || !memory_counts() || spool->paused) return;
  int saved_errno = errno;
  uint32_t section = seal_enter();
  if (!sealed() && recording()) {
    fork_check();
    if ((residency_may_be_due() || residency_has_faulted()) && ranges_lock_at_once()) {
      count_now();
      ranges_unlock();
    }
  }
  seal_leave(section);
  errno = saved_errno;
}

void pages_postfork_child(void) { counted_to = 0; }
