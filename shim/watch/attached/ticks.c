/* CPU ticks by polls: what py-spy and Tachyon do, but with weights.
 *
 * The watcher passes at random times. A thread that is found running in one pass of ten has used about a tenth of the time, so
 * its stack at that moment gets all CPU time since the last such pass, which schedstat has counted exactly. So sums are exact,
 * and the shares of lines are those of a random sample. A thread that is found waiting keeps its CPU time: its stack now is
 * not where it was used.
 *
 * Neither the interrupted instruction nor its kind is known, so the analysis cannot tell Python's time from native time. */
#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/spool.h"
#include "watch/attached/attached.h"
#include "watch/reading/proc.h"

#define LEAST_REST_NS 100000

/* Half of the interval: where passes come at times between half of it and one and a half, each becomes a tick. */
static bool is_due(const struct attached_thread *thread) {
  return thread->run_ns - thread->charged_ns >= (int64_t)(spool->cpu_interval_ns / 2);
}

void attached_charge(struct attached_thread *thread, int64_t run_ns, bool runs, attached_reader read, void *context) {
  uint64_t stack = 0;
  uint32_t flags = 0;
  thread->run_ns = run_ns;
  if (!runs || !is_due(thread)) return;
  if (!read(context, &stack, &flags)) {
    loss_add(LOSS_torn_stack);
    flags |= TICK_TORN;
    stack = 0;
  }
  thread->system_seen_ns = proc_system_ns(thread->process->start.pid, thread->tid);
  attached_write_tick(thread, stack, flags, clock_now_ns());
}

void attached_charge_rest(struct attached_thread *thread, int64_t now_ns) {
  if (!thread->had_tick || thread->run_ns - thread->charged_ns < LEAST_REST_NS) return;
  attached_write_tick(thread, thread->stack, thread->flags, now_ns);
}
