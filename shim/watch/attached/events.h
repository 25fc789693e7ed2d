/* Perf events that sample the CPU time of attached threads. */
#ifndef SCALENE_TRACE_WATCH_ATTACHED_EVENTS_H
#define SCALENE_TRACE_WATCH_ATTACHED_EVENTS_H

#include "shared/base.h"
#include "watch/attached/attached.h"
#include "watch/attached/ring.h"

#pragma GCC visibility push(hidden)

/* Time of a stack in which polls have found it, less what samples explain. */
struct unexplained {
  uint64_t stack;
  uint32_t flags; /* TICK_NO_PYTHON */
  int64_t ns;
};
#define EVENT_PLACES 64

struct thread_event {
  int fd;
  bool of_kernel; /* it samples the time in the kernel, too */
  int64_t mean_ns;
  struct ring ring;
  int64_t user_ns;   /* what the samples of the thread's own code stand for */
  double factor;     /* how much more the next ones stand for than their mean; 1 if it samples the kernel */
  int64_t polled_ns; /* between passes, the second of which has found it running: unless it samples the kernel, as is */
  struct unexplained places[EVENT_PLACES];
};

/* ---- kernel.c: where the kernel time of a thread is spent whose event does not sample it ---- */

/* A sample has found the stack; it stands for so much of the thread's own time. */
void kernel_explain(struct thread_event *event, const struct attached_stack *stack, int64_t user_ns);
/* A poll has found the thread running, `passed_ns` after the pass before. Writes what the kernel has counted since then. */
void kernel_poll(struct attached_thread *thread, int64_t passed_ns, attached_reader read, void *context);

/* ---- events.c ---- */

/* CPU time that the watcher has spent on samples, without passes. */
extern int64_t events_spent_ns;

/* Samples the thread from now on, if the kernel allows it: thread->event. Else its ticks come from polls, and the loss
 * attached_polled counts its process once. */
void events_open(struct attached_thread *thread);
/* Does nothing without an event. */
void events_close(struct attached_thread *thread);
/* The recording is paused, or goes on: what was sampled in the meantime is discarded. Samples that were not taken before
 * are lost, here and by events_close. */
void events_enable(struct attached_thread *thread, bool enabled);
/* Draws the time until the next sample, uniformly in [0.5 q, 1.5 q), and notes q: the interval of the recording, at least
 * 1 ms, at most 2 s, and more where samples take much CPU time. */
void events_draw(struct thread_event *event);
/* Returns how many threads have an event. */
uint32_t events_count(void);
/* Waits until a thread was sampled, until `until_ns` (CLOCK_MONOTONIC), or until events_wake is called. False = there is no
 * event, or waiting fails: it has not waited. */
bool events_wait(int64_t until_ns);
/* Returns the next thread that was sampled by the end of the last wait; null = there is none. */
struct attached_thread *events_next(void);
/* True if the thread has a sample that was not taken. */
bool events_is_sampled(const struct attached_thread *thread);
/* Ends a wait, or the next one. May be called from any thread. */
void events_wake(void);

#pragma GCC visibility pop

#endif
