/* The ranges are in a sorted table of disjoint ranges under a lock. The holder blocks all signals, so no handler finds
 * the lock held by its own thread and none leaves by longjmp while holding it. A thread that finds the lock taken for
 * too long counts a loss instead. */
#include "inside/memory/ranges.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/accounts/live.h"
#include "inside/memory/memory.h"
#include "inside/memory/sampler.h"
#include "inside/stacks/frames.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/sealed/sealed.h"

#define MOST_YIELDS 10000
#define ADDRESSES ((uintptr_t)1 << ARCH_ADDRESS_BITS)

struct range ranges[MAX_RANGES];
_Atomic size_t range_count;
static _Atomic int32_t holder;      /* tid; 0 = free */
static _Atomic int64_t bytes_of[2]; /* by struct kind's `memory` */

static _Atomic int64_t shared_bytes; /* of that memory */

int64_t ranges_shared_bytes(void) { return atomic_load(&shared_bytes); }

int64_t ranges_bytes(bool memory) { return atomic_load(&bytes_of[memory]); }

uintptr_t ranges_round_up(size_t bytes) {
  size_t page = arch_page_bytes();
  return (bytes + page - 1) & ~(uintptr_t)(page - 1);
}

bool ranges_are_possible(uintptr_t start, size_t bytes) {
  return bytes > 0 && start % arch_page_bytes() == 0 && start < ADDRESSES && bytes <= ADDRESSES - start;
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

bool ranges_lock(void) {
  uint32_t section = seal_enter();
  if (!sealed() && try_lock(section)) return true;
  seal_leave(section);
  return false;
}

void ranges_unlock(void) {
  uint64_t before = saved_mask;
  uint32_t section = saved_section;
  atomic_store(&holder, 0);
  set_mask(before);
  seal_leave(section);
}

/* True inside memory_mapped, whose slow path may call pages_touched. */
bool ranges_are_locked_here(void) { return atomic_load(&holder) == (int32_t)syscall(SYS_gettid); }

/* In a tick, a thread does not wait for another one that has the lock. */
bool ranges_lock_at_once(void) {
  uint32_t section = seal_enter();
  if (!sealed() && !atomic_load(&holder) && try_lock(section)) return true;
  seal_leave(section);
  return false;
}

/* ---- the table ---- */

size_t ranges_first_after(uintptr_t start) {
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
  atomic_fetch_sub(&bytes_of[part->kind.memory], bytes);
  if (!part->kind.memory) return;
  if (part->kind.shared) atomic_fetch_sub(&shared_bytes, bytes);
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

int ranges_cut(uintptr_t start, uintptr_t end, uint32_t flags, struct range *last) {
  int parts = 0;
  for (size_t at = ranges_first_after(start); at < range_count && ranges[at].start < end;) {
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

static bool is_same(struct kind a, struct kind b) {
  return a.memory == b.memory && a.shared == b.shared && a.group == b.group;
}

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

void ranges_enter(uintptr_t start, uintptr_t end, size_t size, struct kind kind, uint16_t source, size_t before) {
  struct range range = {.start = start, .end = end, .block_bytes = end - start, .kind = kind};
  struct block block = {start, size, end - start, source, false, true, false};
  size_t at = ranges_first_after(start);
  if (!insert_at(at, &range)) {
    if (before) memory_count_freed(&this_memory, NATIVE, before);
    return;
  }
  atomic_fetch_add(&bytes_of[kind.memory], (int64_t)(end - start));
  if (kind.memory && kind.shared) atomic_fetch_add(&shared_bytes, (int64_t)(end - start));
  if (kind.memory) {
    ranges[at].id = memory_mapped(&block, before);
  } else if (before) {
    memory_count_freed(&this_memory, NATIVE, before);
  }
  join_neighbours(at);
}

bool ranges_are_of_a_kind(uintptr_t start, uintptr_t end) {
  size_t first = ranges_first_after(start);
  for (size_t at = first + 1; at < range_count && ranges[at].start < end; at++) {
    if (!is_same(ranges[at].kind, ranges[first].kind)) return false;
  }
  return true;
}

uint16_t ranges_group_around(uintptr_t start, uintptr_t end) {
  size_t at = ranges_first_after(start);
  bool inside = at < range_count && ranges[at].start <= start && end <= ranges[at].end;
  return inside ? ranges[at].kind.group : 0;
}

size_t ranges_resized_bytes(void) {
  size_t bytes = resized_bytes;
  resized_bytes = 0;
  return bytes;
}

bool ranges_postfork_child(void) {
  bool consistent = atomic_exchange(&holder, 0) == 0;
  resized_bytes = 0; /* another thread of the parent may have been within mremap */
  if (!consistent) {
    range_count = 0;
    atomic_store(&bytes_of[false], 0);
    atomic_store(&bytes_of[true], 0);
    atomic_store(&shared_bytes, 0);
    loss_add(LOSS_mapping_missed);
  }
  for (size_t i = 0; i < range_count; i++) ranges[i].id = 0;
  return consistent;
}
