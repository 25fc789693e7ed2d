/* CPU ticks of the calling thread. */
#ifndef SCALENE_TRACE_CPU_TICKS_H
#define SCALENE_TRACE_CPU_TICKS_H

#include <signal.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

bool ticks_handle(siginfo_t *info, void *context);
/* Arms / disarms the calling thread. Context: signal. */
void ticks_arm(void);
void ticks_disarm(void);
/* Is this descriptor still the event that we opened for thread tid? Context: signal. */
bool ticks_owns_descriptor(int fd);
void ticks_postfork_child(void);
/* Adds the calling thread's clocks to what it used while paused (sign 1), or takes them off (-1). Context: signal. */
void ticks_count_unseen(int64_t sign);
/* While the process has one thread, limits may be changed for a moment. Context: signal. */
void ticks_alone(bool alone);

#pragma GCC visibility pop

#endif
