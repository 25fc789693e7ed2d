/* CPU ticks of the calling thread: the handler of their signal, and the accounting of pauses. */
#ifndef SCALENE_TRACE_CPU_TICKS_H
#define SCALENE_TRACE_CPU_TICKS_H

#include <signal.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Handles our signal; returns false if none of our timers has sent it. signals.c calls it. Context: signal. */
bool ticks_handle(siginfo_t *info, void *context);
/* Adds the calling thread's clocks to its usage during pauses (sign 1), or subtracts them (sign -1).
 * Context: signal. */
void ticks_add_paused_usage(int64_t sign);

#pragma GCC visibility pop

#endif
