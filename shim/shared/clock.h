/* Clocks. */
#ifndef SCALENE_TRACE_SHARED_CLOCK_H
#define SCALENE_TRACE_SHARED_CLOCK_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

int64_t clock_now_ns(void);        /* CLOCK_MONOTONIC. Context: signal. */
int64_t clock_thread_cpu_ns(void); /* CPU clock of the calling thread. Context: signal. */
/* RUSAGE_THREAD in ns. Context: signal. */
void clock_thread_usage(int64_t *user_ns, int64_t *system_ns);

#pragma GCC visibility pop

#endif
