/* What the ticks of short intervals cost.
 *
 * The interval counts the program's time between two ticks. Where a tick costs many times as much, the program gets next
 * to nothing: at 10 us, on a busy virtual machine where the kernel takes 100 us to deliver a signal, one that needs a
 * second alone did not end within two minutes. So each thread measures over 64 ticks what one costs: the mean time in the
 * handler, and the shortest time that passes between two handlers beyond the period. (Longer ones hold system calls of the
 * program.) The interval of the process is then half of that at least, so that the program has a third of its CPU time. */
#include "inside/cpu/cost.h"

#include "inside/core/thread_state.h"
#include "shared/clock.h"
#include "shared/loss.h"

#define MEASURED_BELOW_NS 1000000 /* at longer intervals, the default among them, nothing is measured */
#define WINDOW_TICKS 64

static _Atomic int64_t shortest_mean_ns;

int64_t cost_shortest_mean_ns(void) { return atomic_load_explicit(&shortest_mean_ns, memory_order_relaxed); }

static void raise_shortest_mean(int64_t wanted_ns) {
  if (wanted_ns > MEASURED_BELOW_NS) wanted_ns = MEASURED_BELOW_NS;
  int64_t found_ns = cost_shortest_mean_ns();
  while (found_ns < wanted_ns && !atomic_compare_exchange_weak(&shortest_mean_ns, &found_ns, wanted_ns)) {}
  if (found_ns == 0) loss_add(LOSS_interval_widened);
}

/* A window may hold ticks that cost much once, as when an image is read: what counts is the cheaper of two in a row. */
static void end_window(struct tick_cost *cost) {
  int64_t tick_ns = cost->handlers_ns / WINDOW_TICKS + cost->least_beyond_ns;
  int64_t lasting_ns = tick_ns < cost->before_ns ? tick_ns : cost->before_ns;
  if (lasting_ns / 2 > this_thread.mean_ns) raise_shortest_mean(lasting_ns / 2);
  *cost = (struct tick_cost){.due_ns = cost->due_ns, .before_ns = tick_ns};
}

int64_t cost_begin(void) {
  struct tick_cost *cost = &this_thread.tick_cost;
  if (likely(this_thread.mean_ns >= MEASURED_BELOW_NS)) return 0;
  int64_t now_ns = clock_thread_cpu_ns(), beyond_ns = now_ns - cost->due_ns; /* < 0 in a forked child, once */
  if (cost->due_ns && (cost->ticks == 0 || beyond_ns < cost->least_beyond_ns)) cost->least_beyond_ns = beyond_ns;
  return now_ns;
}

void cost_end(int64_t began_ns, int64_t period_ns) {
  struct tick_cost *cost = &this_thread.tick_cost;
  if (likely(!began_ns)) return;
  int64_t now_ns = clock_thread_cpu_ns();
  cost->handlers_ns += now_ns - began_ns;
  cost->ticks += cost->due_ns != 0; /* the first one only begins the window */
  cost->due_ns = now_ns + period_ns;
  if (cost->ticks == WINDOW_TICKS) end_window(cost);
}
