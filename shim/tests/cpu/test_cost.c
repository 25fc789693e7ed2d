/* cost.c with a simulated CPU clock: when the interval becomes longer, and how long. */
#include "inside/cpu/cost.h"

#include "formats/spool/spool.h"
#include "inside/core/thread_state.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "tests/check.h"

#define US 1000

THREAD_LOCAL struct thread_state this_thread;
static int64_t cpu_ns = 1000000000;
static int reads, widened;

int64_t clock_thread_cpu_ns(void) {
  reads++;
  return cpu_ns;
}

void loss_add(enum loss loss) { widened += loss == LOSS_interval_widened; }

/* Runs ticks as ticks.c does. Each comes `beyond_ns` after it was due and takes `handler_ns`. */
static void run_ticks(int count, int64_t handler_ns, int64_t beyond_ns) {
  int64_t mean_ns = this_thread.mean_ns;
  for (int i = 0; i < count; i++) {
    cpu_ns += beyond_ns;
    int64_t began_ns = cost_begin(), period_ns = mean_ns / 2 + i * 37 % mean_ns;
    cpu_ns += handler_ns;
    cost_end(began_ns, period_ns);
    cpu_ns += period_ns;
  }
}

static void begin(int64_t mean_ns) { this_thread = (struct thread_state){.mean_ns = mean_ns}; }

int main(void) {
  begin(100 * US);
  run_ticks(1000, 90 * US, 100 * US);
  check(cost_shortest_mean_ns() == 0); /* less than twice the interval */

  begin(10 * US);
  run_ticks(65, 900 * US, 10 * US); /* one window, after the first tick */
  run_ticks(640, 5 * US, 10 * US);
  check(cost_shortest_mean_ns() == 0);

  for (int i = 0; i < 100; i++) { /* system calls of the program, in all gaps but a few */
    run_ticks(50, 5 * US, 900 * US);
    run_ticks(1, 5 * US, 2 * US);
  }
  check(cost_shortest_mean_ns() == 0);

  run_ticks(200, 300 * US, 100 * US);
  check(cost_shortest_mean_ns() == 200 * US && widened == 1);
  run_ticks(200, 9000 * US, 100 * US);
  check(cost_shortest_mean_ns() == 1000 * US && widened == 1);

  begin(1000 * US);
  int reads_before = reads;
  run_ticks(1000, 9000 * US, 100 * US);
  check(reads == reads_before); /* nothing is measured at longer intervals */
  return 0;
}
