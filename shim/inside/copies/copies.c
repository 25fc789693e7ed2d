/* Copy volume: the bytes that the program asks memcpy and memmove to copy (Scalene, OSDI 2023, §3.5). libc does the
 * copying.
 *
 * A thread counts down from a limit drawn from [T/2, 3T/2), so that of lines that copy in turns, not always the same
 * one is sampled. At the end of the countdown it writes a sample with the bytes that it has copied since its last one.
 * A copy of at least T bytes is a sample of its own. */
#include "inside/copies/copies.h"

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/native/diverted.h"
#include "inside/stacks/frames.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/random.h"
#include "shared/sealed/sealed.h"
#include "shared/spool.h"

#define NEVER INT64_MAX

/* Invariant: granted - left == bytes copied since the last sample, as long as left >= 0. */
struct copy_state {
  int64_t left; /* < 0: the slow path finds out what is due; 0 at first */
  int64_t granted;
  uintptr_t busy; /* address of the slow path's stack frame while it runs; 0 = it does not run */
  uint64_t random;
};
static THREAD_LOCAL struct copy_state this_copies;
static _Atomic int64_t carried;             /* bytes of threads that have ended, for the next sample */
static enum { EARLY, FORWARD, COUNT } mode; /* EARLY: thread-local variables may not be ready yet (next.c) */

static void grant(struct copy_state *c) {
  int64_t threshold = (int64_t)spool->copy_threshold_bytes;
  if (threshold < 2) threshold = 2;
  if (!c->random) c->random = random_seed(this_thread.tid);
  c->granted = c->left = threshold / 2 + (int64_t)(random_next(&c->random) % (uint64_t)threshold) + 1;
}

static void write_sample(uint32_t thread, uint64_t stack, int64_t bytes) {
  struct record_copy *record = spool_claim(1);
  if (!record) return;
  *record = (struct record_copy){
      .head = record->head, .thread = thread, .t_ns = clock_now_ns(), .stack = stack, .bytes = (uint64_t)bytes};
  spool_publish(record, RECORD_COPY, 1);
}

static void sample(struct copy_state *c, int64_t size) {
  int64_t threshold = (int64_t)spool->copy_threshold_bytes, copied = c->granted - c->left;
  bool large = size >= threshold && threshold > 0;
  thread_ensure();
  if (large) {
    copied -= size;
    if (!spool->paused) write_sample(this_thread.id, frames_current(), size);
  }
  if (!large || copied >= threshold) {
    if (!spool->paused) copied += atomic_exchange(&carried, 0);
    if (copied > 0 && !spool->paused) write_sample(this_thread.id, frames_current(), copied);
    copied = 0;
  }
  grant(c);
  c->granted += copied;
}

/* The slow path. Returns false if libc's functions are not known yet. */
static SLOW_PATH bool run_slow_path(size_t size) {
  if (mode == EARLY) return next.resolved;
  struct copy_state *c = &this_copies;
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  if (c->busy && here <= c->busy) return true; /* a frame above it: that run of the slow path was left by longjmp */
  int saved_errno = errno;
  fork_check();
  c->busy = here;
  if (mode == FORWARD || (!recording() && !seal_may_end())) {
    c->left = NEVER;
    c->granted = 0;
  } else if (sealed()) {
    c->left = c->granted = 0;
  } else if (!c->granted) {
    grant(c);
    c->left -= (int64_t)size;
    if (c->left < 0) sample(c, (int64_t)size);
  } else {
    sample(c, (int64_t)size);
  }
  c->busy = 0;
  errno = saved_errno;
  return true;
}

static inline bool counts_down(size_t size) {
  return likely(mode != EARLY) && likely((this_copies.left -= (int64_t)size) >= 0);
}

/* ---- before libc is ready ---- */

static void *copy_early(void *to, const void *from, size_t size) {
  char *out = to;
  const char *in = from;
  if (out <= in || out >= in + size) return shim_copy(to, from, size);
  while (size-- > 0) ((volatile char *)out)[size] = in[size];
  return to;
}

/* ---- the exported functions; each calls its slow path last, so that its fast path saves no register ---- */

#undef memcpy

static SLOW_PATH void *memcpy_slowly(void *to, const void *from, size_t size) {
  return run_slow_path(size) ? next.memcpy(to, from, size) : copy_early(to, from, size);
}

EXPORT HOT void *memcpy(void *to, const void *from, size_t size) {
  return counts_down(size) ? next.memcpy(to, from, size) : memcpy_slowly(to, from, size);
}

static SLOW_PATH void *memmove_slowly(void *to, const void *from, size_t size) {
  return run_slow_path(size) ? next.memmove(to, from, size) : copy_early(to, from, size);
}

EXPORT HOT void *memmove(void *to, const void *from, size_t size) {
  return counts_down(size) ? next.memmove(to, from, size) : memmove_slowly(to, from, size);
}

/* If room < size, libc's function ends the program, as it would without the shim. */
static SLOW_PATH void *memcpy_chk_slowly(void *to, const void *from, size_t size, size_t room) {
  return run_slow_path(size) ? next.__memcpy_chk(to, from, size, room)
                             : copy_early(to, from, size < room ? size : room);
}

EXPORT HOT void *__memcpy_chk(void *to, const void *from, size_t size, size_t room) {
  return counts_down(size) ? next.__memcpy_chk(to, from, size, room) : memcpy_chk_slowly(to, from, size, room);
}

static SLOW_PATH void *memmove_chk_slowly(void *to, const void *from, size_t size, size_t room) {
  return run_slow_path(size) ? next.__memmove_chk(to, from, size, room)
                             : copy_early(to, from, size < room ? size : room);
}

EXPORT HOT void *__memmove_chk(void *to, const void *from, size_t size, size_t room) {
  return counts_down(size) ? next.__memmove_chk(to, from, size, room) : memmove_chk_slowly(to, from, size, room);
}

/* ---- begin ---- */

/* Nothing that is copied in a pause is recorded. */
static void divert(void) {
  const struct diversion diversions[] = {{"memcpy", (uintptr_t)next.memcpy},
                                         {"memmove", (uintptr_t)next.memmove},
                                         {"__memcpy_chk", (uintptr_t)next.__memcpy_chk},
                                         {"__memmove_chk", (uintptr_t)next.__memmove_chk}};
  diverted_begin(diversions, sizeof diversions / sizeof *diversions);
}

void copies_init(void) {
  mode = spool && (spool->features & FEATURE_COPY) ? COUNT : FORWARD;
  if (mode == COUNT && spool->paused) divert();
}

/* ---- end of threads, end of the process, fork ---- */

static int64_t take_unsampled(void) {
  struct copy_state *c = &this_copies;
  int64_t copied = c->granted ? c->granted - c->left : 0;
  c->left = c->granted = 0;
  return copied;
}

void copies_thread_end(void) { atomic_fetch_add(&carried, take_unsampled()); }

void copies_process_end(void) {
  if (mode != COUNT) return;
  int64_t rest = take_unsampled() + atomic_exchange(&carried, 0);
  if (rest > 0 && !spool->paused) write_sample(0, 0, rest);
}

void copies_postfork_child(void) {
  take_unsampled();
  atomic_store(&carried, 0);
  this_copies.busy = 0;
  this_copies.random = 0;
}
