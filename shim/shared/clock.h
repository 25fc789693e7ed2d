/* Clocks in int64 nanoseconds. All times in the shim, the watcher and the spool are in nanoseconds. */
#ifndef SCALENE_TRACE_SHARED_CLOCK_H
#define SCALENE_TRACE_SHARED_CLOCK_H

#include <time.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

typedef int clock_function(clockid_t, struct timespec *); /* stores the time of a clock; 0 = it could */
/* Has the clocks below read by this function instead of clock_gettime. Context: normal, before there are other threads. */
void clock_read_by(clock_function *function);
/* Returns CLOCK_MONOTONIC in nanoseconds. Context: signal. */
int64_t clock_now_ns(void);
/* Returns the CPU time of the calling thread in nanoseconds. Context: signal. */
int64_t clock_thread_cpu_ns(void);
/* Stores the user and kernel time of the calling thread (RUSAGE_THREAD) in nanoseconds. Context: signal. */
void clock_thread_usage(int64_t *user_ns, int64_t *system_ns);

#pragma GCC visibility pop

#endif
