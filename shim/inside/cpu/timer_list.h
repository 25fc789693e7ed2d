/* The list of the POSIX timers of all threads, so that one thread can stop them all. */
#ifndef SCALENE_TRACE_CPU_TIMER_LIST_H
#define SCALENE_TRACE_CPU_TIMER_LIST_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Lists a timer. Context: signal. */
void timer_list_add(int32_t id, bool is_kernel_timer);
/* Removes a timer that is about to be deleted. Context: signal. */
void timer_list_remove(int32_t id);
/* Empties the list: a forked child has no timers. Context: signal. */
void timer_list_clear(void);
/* Stops every listed timer. Context: normal. */
void timer_list_stop(void);
/* Starts every listed timer: kernel timers with that period, user timers once after that time of their clock.
 * Context: normal. */
void timer_list_start(int64_t kernel_period_ns, int64_t user_period_ns);

#pragma GCC visibility pop

#endif
