/* Reads the processor's counter instead of the clock, which costs a third as much.
 *
 * The clock is read again after 0.1 ms, so nothing is assumed of the counter beyond that: processors may count differently,
 * and a virtual machine may move to another host. The rate is measured between two readings of the clock, 10 ms apart or
 * more, and is used only if two measurements in a row agree. A reading that took long, because the thread was interrupted in
 * it or the clock is slow, is only an answer. */
#include "inside/core/quick_clock.h"

#include "shared/clock.h"

#define VALID_NS 100000
#define MEASURED_NS 10000000 /* for so long the rate is measured */
#define MOST_MEASURED_NS 2000000000
#define MOST_TICKS 1000 /* that a reading of the clock may take */
#define TOLERANCE 4096  /* two measurements differ by less than the rate divided by this */

THREAD_LOCAL struct quick_clock quick_clock;

/* Returns for how many ticks the clock need not be read. */
static uint64_t measure(struct quick_clock *q, uint64_t ticks, int64_t now_ns) {
  int64_t passed_ns = now_ns - q->since_ns;
  uint64_t passed = ticks - q->since_ticks, before = q->rate;
  if (q->since_ns && passed_ns >= 0 && passed_ns < MEASURED_NS) return q->valid;
  bool fits = q->since_ns && passed_ns > 0 && passed_ns < MOST_MEASURED_NS && passed;
  q->rate = fits ? ((uint64_t)passed_ns << 32) / passed : 0;
  uint64_t differs = q->rate > before ? q->rate - before : before - q->rate;
  q->since_ticks = ticks;
  q->since_ns = now_ns;
  return q->rate && differs <= q->rate / TOLERANCE ? ((uint64_t)VALID_NS << 32) / q->rate : 0;
}

/* A signal handler that comes between the two stores reads the clock. */
static void begin_at(struct quick_clock *q, uint64_t ticks, int64_t now_ns, uint64_t valid) {
  q->valid = 0;
  atomic_signal_fence(memory_order_seq_cst);
  q->ticks = ticks;
  q->ns = now_ns;
  atomic_signal_fence(memory_order_seq_cst);
  q->valid = valid;
}

int64_t quick_clock_read(struct quick_clock *q) {
  uint64_t before = arch_ticks();
  int64_t now_ns = clock_now_ns();
  uint64_t took = arch_ticks() - before, middle = before + took / 2;
  if (before && took < MOST_TICKS) {
    begin_at(q, middle, now_ns, measure(q, middle, now_ns));
  } else {
    q->ticks = before - q->valid; /* the clock is read the next time, too */
  }
  return q->last_ns = now_ns > q->last_ns ? now_ns : q->last_ns;
}
