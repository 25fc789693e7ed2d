/* Held signals: signals of our number that were sent while the program had the number blocked. They stay pending here,
 * as the kernel would keep them for the program. */
#ifndef SCALENE_TRACE_SIGNALS_HELD_H
#define SCALENE_TRACE_SIGNALS_HELD_H

#include <signal.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Stores a signal that was sent to `thread` (0 = to the process); false = no slot is free, the signal is dropped.
 * Context: signal. */
bool held_add(const siginfo_t *info, int32_t thread);
/* True if a signal for this thread or for the process is held. Context: signal. */
bool held_any(int32_t thread);
/* Removes the oldest signal for this thread or for the process, and stores it in `out`; false = there is none.
 * Context: signal. */
bool held_take(int32_t thread, siginfo_t *out);
/* Discards all held signals, because the program ignores the number now. Context: signal. */
void held_discard(void);
/* Empties the store, also of slots that another thread of the parent was changing. Context: signal. */
void held_postfork_child(void);

#pragma GCC visibility pop

#endif
