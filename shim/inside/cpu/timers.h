/* The timers that send the tick signal. Each function acts on the calling thread's timers. */
#ifndef SCALENE_TRACE_CPU_TIMERS_H
#define SCALENE_TRACE_CPU_TIMERS_H

#include <signal.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

#define KERNEL_POLL_NS 2000000  /* at most the scheduler's tick (1 to 10 ms); a shorter period only costs more */
#define PAUSED_POLL_NS 10000000 /* of CPU time, between two questions whether the recording is paused */

/* Arms the timers, and sets the thread's engine. Context: signal. */
void timers_arm(void);
/* True if the calling thread is to ask now whether the recording is paused, while it is not. Context: signal. */
bool timers_ask_now(void);
/* It asks again after PAUSED_POLL_NS of its CPU time. Context: signal. */
void timers_ask_later(void);
/* Disarms and deletes the timers. The engine stays. Context: signal. */
void timers_disarm(void);
/* True if the descriptor is still a perf event that we opened; the program may have closed it and used the number
 * again. Context: signal. */
bool timers_own_descriptor(int fd);
/* The same, and the event is the calling thread's: another one's may have the number of an event that the program has
 * closed. Context: signal. */
bool timers_own_event(int fd);
/* Stops the timers and events of all threads, by calls of the calling thread. Context: normal. */
void timers_stop_all(void);
/* Starts them again. Context: normal. */
void timers_start_all(void);
/* Resets the number of armed timers: a forked child inherits none. Context: signal. */
void timers_postfork_child(void);
/* Disables the events of all threads if they are too many for a limit on queued signals. Call it before the limit is set,
 * and again with the one in force. Context: normal. */
void timers_limit_signals(uint64_t limit, bool in_force);
/* Returns a number that has changed if events were disabled because of such a limit since the call before, or may be
 * enabled again, or if a limit was set. Context: signal. */
uint32_t timers_scarcities(void);
/* True while the process has one thread: then its limits may be changed for a moment. Context: signal. */
void timers_set_single_threaded(bool single);

enum timer_signal {
  SIGNAL_FOREIGN, /* not from our timers */
  SIGNAL_PERF,
  SIGNAL_USER,
  SIGNAL_KERNEL,
  SIGNAL_FAULT,
  SIGNAL_LATE /* from a perf event that was closed a moment ago */
};
/* Returns which timer of the calling thread sent the signal. Context: signal. */
enum timer_signal timers_signal(const siginfo_t *info);

/* Returns the mean interval in force, in ns. Context: signal. */
int64_t timers_mean_period_ns(void);
/* Draws a period uniformly from [0.5 q, 1.5 q), where q is the mean interval, and stores q in mean_ns.
 * Context: signal. */
int64_t timers_draw_period_ns(void);
/* Draws the first period uniformly from (0, q], so that threads shorter than q get their fair share.
 * Context: signal. */
int64_t timers_draw_first_ns(void);
/* Engine perf: opens the event and starts its first period. 0 = armed, -1 = failed (counted). Context: signal. */
int timers_arm_perf(void);
/* Engine perf: closes the event. Context: signal. */
void timers_disarm_perf(void);
/* Engine perf: sets the period of the event. Context: signal. */
void timers_set_perf_period(int fd, int64_t period_ns);
/* Engine perf: sets the period and enables the event for one more overflow. Context: signal. */
void timers_start_perf(int fd, int64_t period_ns);
/* False if signals of one more timer or event could fill the user's queue, which is a loss. Context: signal. */
bool timers_may_arm(void);
/* Moves an event's descriptor where it disturbs the program least, lists it and directs its signals to the calling thread.
 * Returns the new descriptor, and its index in descriptors.c; -1 = failed, it is closed. Context: signal. */
int timers_adopt_event(int fd, int32_t *slot);
/* Closes such an event, unless the program has. Context: signal. */
void timers_close_event(int fd, int32_t slot);
/* Enables such an event for one more overflow. Context: signal. */
void timers_enable_event(int fd);
/* Engine posix: creates the timer of user time and begins its schedule. Context: signal. */
void timers_arm_user(void);
/* Engine posix: sets the timer to next_user_ns. Context: signal. */
void timers_set_user(void);
/* Engine posix: begins a new schedule, with a first period from now. Context: signal. */
void timers_begin_user_schedule(void);
/* Both engines: sets the period of the kernel timer, in ns of CPU time. Context: signal. */
void timers_set_kernel(int64_t period_ns);

#pragma GCC visibility pop

#endif
