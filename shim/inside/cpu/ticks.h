/* CPU ticks of the calling thread. */
#ifndef SCALENE_TRACE_CPU_TICKS_H
#define SCALENE_TRACE_CPU_TICKS_H

#include <signal.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* The handler of our signal; false = the signal is none of our timers'. Context: signal. */
bool ticks_handle(siginfo_t *info, void *context);
/* Adds the calling thread's clocks to what it used while paused (sign 1), or takes them off (-1). Context: signal. */
void ticks_count_unseen(int64_t sign);

#pragma GCC visibility pop

#endif
