/* The timers that send ticks. */
#ifndef SCALENE_TRACE_CPU_TIMERS_H
#define SCALENE_TRACE_CPU_TIMERS_H

#include <signal.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

#define KERNEL_POLL_NS 2000000  /* at most the scheduler's tick (1 to 10 ms); finer only costs */
#define PAUSED_POLL_NS 10000000 /* while the recording is paused: whether it goes on */

/* Arms / disarms the calling thread. Context: signal. */
void timers_arm(void);
void timers_disarm(void);
/* Is this descriptor still an event that we opened? Context: signal. */
bool timers_own_descriptor(int fd);
/* Context: signal. */
void timers_postfork_child(void);
/* While the process has one thread, limits may be changed for a moment. Context: signal. */
void timers_alone(bool alone);

/* Which timer of the calling thread has sent this? Context: signal. */
enum timer_signal {
  SIGNAL_FOREIGN,
  SIGNAL_PERF,
  SIGNAL_USER,
  SIGNAL_KERNEL,
  SIGNAL_LATE /* of an event that was closed a moment ago */
};
enum timer_signal timers_signal(const siginfo_t *info);

/* The mean interval in force; a period drawn uniformly from [0.5 q, 1.5 q), and the first one from (0, q], so that threads
 * shorter than q get their fair share. Context: signal. */
int64_t timers_mean_period_ns(void);
int64_t timers_draw_period_ns(void);
int64_t timers_draw_first_ns(void);
/* Engine perf: 0 = armed. Context: signal. */
int timers_arm_perf(void);
void timers_disarm_perf(void);
/* Sets the event's period; starts its next shot too. Context: signal. */
void timers_set_perf_period(int fd, int64_t period_ns);
void timers_start_perf(int fd, int64_t period_ns);
/* Engine posix: arms the timer of user time; sets it to next_user_ns; begins a schedule of periods. Context: signal. */
void timers_arm_user(void);
void timers_set_user(void);
void timers_begin_user_schedule(void);
/* Lets the kernel timer fire once in so much CPU time. Context: signal. */
void timers_set_kernel(int64_t period_ns);

#pragma GCC visibility pop

#endif
