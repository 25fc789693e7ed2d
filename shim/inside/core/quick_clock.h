/* The clock for a thread that may ask for the time very often: of each allocation. */
#ifndef SCALENE_TRACE_CORE_QUICK_CLOCK_H
#define SCALENE_TRACE_CORE_QUICK_CLOCK_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* What a thread knows of the processor's counter (arch_ticks). All 0 = nothing yet. */
struct quick_clock {
  uint64_t ticks, valid; /* when the clock was last read; for how many ticks from then on it need not be read again */
  int64_t ns;            /* what it was then */
  int64_t last_ns;       /* the last answer */
  uint64_t rate;         /* ns for each tick << 32; 0 = unknown */
  uint64_t since_ticks;  /* when the measurement of the rate began */
  int64_t since_ns;      /* 0 = not at all */
};
extern THREAD_LOCAL struct quick_clock quick_clock;

/* The slow path of quick_clock_ns. Context: signal. */
int64_t quick_clock_read(struct quick_clock *q);
/* Returns CLOCK_MONOTONIC in nanoseconds, within a microsecond, and never less than the answer before in this thread.
 * Context: signal. */
static inline int64_t quick_clock_ns(void) {
  struct quick_clock *q = &quick_clock;
  uint64_t ticks = q->ticks, valid = q->valid;
  int64_t ns = q->ns;
  atomic_signal_fence(memory_order_seq_cst);
  uint64_t passed = arch_ticks() - ticks;
  if (unlikely(passed >= valid || q->ticks != ticks))
    return quick_clock_read(q); /* a handler may have read the clock */
  int64_t now_ns = ns + (int64_t)(passed * q->rate >> 32);
  return q->last_ns = now_ns > q->last_ns ? now_ns : q->last_ns;
}

#pragma GCC visibility pop

#endif
