/* Signals of our number that the program has blocked. */
#ifndef SCALENE_TRACE_SIGNALS_HELD_H
#define SCALENE_TRACE_SIGNALS_HELD_H

#include <signal.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Keeps a signal for thread, 0 = for any. False when no slot is free. Context: signal. */
bool held_add(const siginfo_t *info, int32_t thread);
bool held_any(int32_t thread);
/* Moves out the oldest that this thread may have. Context: signal. */
bool held_take(int32_t thread, siginfo_t *out);
void held_discard(void);
void held_postfork_child(void);

#pragma GCC visibility pop

#endif
