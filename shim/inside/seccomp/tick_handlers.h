/* Threads that are inside the handler of a tick. */
#ifndef SCALENE_TRACE_SECCOMP_TICK_HANDLERS_H
#define SCALENE_TRACE_SECCOMP_TICK_HANDLERS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Waits until no other thread that is awake has blocked `signal`, as each does inside the handler up to the return from
 * it, for at most that time. Context: normal, one thread at a time. */
void tick_handlers_finish(int signal, int64_t most_ns);

#pragma GCC visibility pop

#endif
