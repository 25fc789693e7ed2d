/* Kernel time of threads whose events sample their own code alone.
 *
 * The kernel counts it in steps of 10 ms, and a step says nothing of where it was spent. But polls find a thread wherever it
 * runs, and samples only in its own code. So for each stack the time in which polls have found it is added up, less what its
 * samples stand for, and a step goes to the stack with the most time that no sample explains. */
#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "watch/attached/attached.h"
#include "watch/attached/events.h"
#include "watch/reading/proc.h"

#define WITHIN_SAMPLES 20
#define WITHIN_NS 200000000
#define MOST_FACTOR 2.0

/* The place of a stack, perhaps that of another one whose time matters least. */
static struct unexplained *place_of(struct thread_event *event, uint64_t stack, uint32_t flags) {
  struct unexplained *least = &event->places[0];
  for (int i = 0; i < EVENT_PLACES; i++) {
    struct unexplained *each = &event->places[i];
    if (each->stack == stack && each->flags == flags) return each;
    int64_t size_ns = each->ns < 0 ? -each->ns : each->ns, least_ns = least->ns < 0 ? -least->ns : least->ns;
    if (size_ns < least_ns) least = each;
  }
  *least = (struct unexplained){.stack = stack, .flags = flags};
  return least;
}

void kernel_explain(struct thread_event *event, const struct attached_stack *stack, int64_t user_ns) {
  place_of(event, stack->hash, stack->flags & TICK_NO_PYTHON)->ns -= user_ns;
}

/* Between a sample and the next period, the thread uses CPU time that is in no period. So samples stand for more where all of
 * them so far are behind the thread's own time, and for less where they are ahead. That time has steps of 10 ms, and a sample
 * at random moments an error of the same size as itself, so what is missing is made up for little by little. */
static void weigh(struct attached_thread *thread) {
  struct thread_event *event = thread->event;
  int64_t own_ns = attached_used_ns(thread) - (thread->system_seen_ns - thread->system_start_ns);
  int64_t within_ns = WITHIN_SAMPLES * event->mean_ns > WITHIN_NS ? WITHIN_SAMPLES * event->mean_ns : WITHIN_NS;
  double factor = 1 + (double)(own_ns - event->user_ns) / (double)within_ns;
  event->factor = factor < 1 / MOST_FACTOR ? 1 / MOST_FACTOR : factor > MOST_FACTOR ? MOST_FACTOR : factor;
}

/* A stack that samples explain more than well owes nothing to later steps. */
static void charge(struct attached_thread *thread, int64_t system_ns) {
  struct unexplained *most = &thread->event->places[0];
  for (int i = 1; i < EVENT_PLACES; i++) {
    if (thread->event->places[i].ns > most->ns) most = &thread->event->places[i];
  }
  thread->system_seen_ns = system_ns;
  thread->owed_ns = system_ns - thread->system_ns;
  most->ns -= thread->owed_ns;
  uint32_t class = most->flags & TICK_NO_PYTHON ? 0 : PC_UNREAD << TICK_PC_SHIFT;
  attached_write_tick(thread, most->stack, most->flags | TICK_SYSTEM | class, clock_now_ns());
}

/* The CPU time that a poll stands for. On a busy machine, the thread had a CPU for only a part of what has passed. */
static int64_t weight_ns(struct attached_thread *thread, int64_t passed_ns) {
  int64_t used_ns = attached_used_ns(thread), polled_ns = thread->event->polled_ns += passed_ns;
  return used_ns < polled_ns ? (int64_t)((double)passed_ns * (double)used_ns / (double)polled_ns) : passed_ns;
}

void kernel_poll(struct attached_thread *thread, int64_t passed_ns, attached_reader read, void *context) {
  uint64_t stack = 0;
  uint32_t flags = 0;
  int64_t polled_ns = weight_ns(thread, passed_ns);
  if (read(context, &stack, &flags)) place_of(thread->event, stack, flags & TICK_NO_PYTHON)->ns += polled_ns;
  int64_t system_ns = proc_system_ns(thread->process->start.pid, thread->tid);
  if (system_ns > thread->system_ns) charge(thread, system_ns);
  weigh(thread);
}
