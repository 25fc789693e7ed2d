/* CPU ticks by polls: what py-spy and Tachyon do.
 *
 * The watcher passes at random times. A thread that is found running stands, with the stack that it has then, for the time
 * since the pass before. So the shares of lines are those of a random sample, and the analysis scales each thread's sum to
 * its exact CPU time. The growth of that CPU time itself must not be the weight: the kernel brings it up to date only at its
 * own ticks, when a thread is switched, and when it is asked for. A program that asks for it between two pieces of work would
 * have each piece charged to the next one (measured: up to 12 points).
 *
 * A thread that is ready to run but has no CPU looks like one that runs, and on a busy machine most are of that kind; the
 * caller tells them apart.
 *
 * Neither the interrupted instruction nor its kind is known, so the analysis cannot tell Python's time from native time. */
#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/spool.h"
#include "watch/attached/attached.h"
#include "watch/reading/proc.h"

/* Half of the interval, since the times between passes vary by that much. */
static bool is_due(const struct attached_thread *thread) {
  return thread->owed_ns >= (int64_t)(spool->cpu_interval_ns / 2);
}

void attached_charge(struct attached_thread *thread, const struct attached_poll *poll, attached_reader read,
                     void *context) {
  uint64_t stack = 0;
  uint32_t flags = 0;
  thread->run_ns = poll->run_ns;
  if (!poll->runs) return;
  thread->owed_ns += poll->passed_ns;
  if (!is_due(thread)) return;
  if (!read(context, &stack, &flags)) {
    loss_add(LOSS_torn_stack);
    flags |= TICK_TORN;
    stack = 0;
  }
  thread->system_seen_ns = proc_system_ns(thread->process->start.pid, thread->tid);
  attached_write_tick(thread, stack, flags, clock_now_ns());
}

/* A tick of no weight: with it comes the CPU time until now, to which the others are scaled. */
void attached_charge_rest(struct attached_thread *thread, int64_t now_ns) {
  thread->owed_ns = 0;
  if (thread->had_tick) attached_write_tick(thread, thread->stack, thread->flags, now_ns);
}
