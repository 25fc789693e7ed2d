/* CPU ticks by polls: what py-spy and Tachyon do.
 *
 * The watcher passes at random times. A thread that is found running stands, with the stack that it has then, for the time
 * since the pass before. So the shares of lines are those of a random sample, and the analysis scales each thread's sum to
 * its exact CPU time. The growth of that CPU time itself must not be the weight: the kernel brings it up to date only at its
 * own ticks, when a thread is switched, and when it is asked for. A program that asks for it between two pieces of work would
 * have each piece charged to the next one (measured: up to 12 points).
 *
 * A thread that is ready to run but has no CPU looks like one that runs, and on a busy machine most are of that kind. One that
 * was preempted, perhaps by the watcher, stands where it was running, so it counts. One that was woken and has not run yet
 * stands where it waited, and does not. The kernel counts how often a thread has got a CPU and how often it has left one: it
 * has one if the first count is ahead by one more than while it waits. (That should be one, but the kernel may leave out the
 * first time.) Whether it left to wait or was preempted is counted too.
 *
 * Neither the interrupted instruction nor its kind is known, so the analysis cannot tell Python's time from native time. */
#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/spool.h"
#include "watch/attached/attached.h"
#include "watch/attached/events.h"
#include "watch/reading/proc.h"

#define LEARN_NS 50000000 /* between two readings of a thread that waits */

/* Half of the interval, since the times between passes vary by that much. */
static bool is_due(const struct attached_thread *thread) {
  return thread->owed_ns >= (int64_t)(spool->cpu_interval_ns / 2);
}

/* Stores by how much the first count is ahead now, and why the thread has left CPUs since it was last asked. False = the count
 * has changed meanwhile. */
static bool read_lead(struct attached_thread *thread, const struct attached_poll *poll, int64_t *lead) {
  struct schedule now;
  struct switches left;
  if (!proc_switches(thread->process->start.pid, thread->tid, &left)) return false;
  if (!proc_schedule(poll->schedule_fd, &now) || now.count != poll->schedule.count) return false;
  uint64_t waits = left.waits - thread->left.waits, preemptions = left.preemptions - thread->left.preemptions;
  if (waits || preemptions) thread->preempted = preemptions > waits;
  thread->left = left;
  thread->run_ns = now.run_ns;
  *lead = (int64_t)(now.count - left.waits - left.preemptions);
  return true;
}

static void learn(struct attached_thread *thread, const struct attached_poll *poll) {
  int64_t now_ns = clock_now_ns(), lead;
  if (now_ns - thread->learned_ns < LEARN_NS || !read_lead(thread, poll, &lead)) return;
  thread->lead = lead + 1;
  thread->learned_ns = now_ns;
}

/* A thread that was never seen to wait leads most while it has a CPU. */
static bool runs(struct attached_thread *thread, const struct attached_poll *poll) {
  int64_t lead;
  if (!read_lead(thread, poll, &lead)) return false;
  if (lead > thread->lead) thread->lead = lead;
  return lead == thread->lead || thread->preempted;
}

void attached_charge(struct attached_thread *thread, const struct attached_poll *poll, attached_reader read,
                     void *context) {
  uint64_t stack = 0;
  uint32_t flags = 0;
  thread->run_ns = poll->schedule.run_ns;
  if (thread->event && thread->event->of_kernel) return;
  if (!poll->ready) learn(thread, poll);
  if (!poll->ready || !runs(thread, poll)) return;
  if (thread->event) {
    kernel_poll(thread, poll->passed_ns, read, context);
    return;
  }
  thread->owed_ns += poll->passed_ns;
  if (!is_due(thread)) return;
  if (!read(context, &stack, &flags)) {
    loss_add(LOSS_torn_stack);
    flags |= TICK_TORN;
    stack = 0;
  }
  int64_t system_ns = proc_system_ns(thread->process->start.pid, thread->tid);
  if (system_ns >= 0) thread->system_seen_ns = system_ns;
  attached_write_tick(thread, stack, flags, clock_now_ns());
}

/* A tick of no weight: with it comes the CPU time until now, to which the others are scaled, perhaps those of other threads. */
void attached_charge_rest(struct attached_thread *thread, int64_t now_ns) {
  thread->owed_ns = 0;
  if (attached_used_ns(thread) > 0) attached_write_tick(thread, thread->stack, thread->flags, now_ns);
}
