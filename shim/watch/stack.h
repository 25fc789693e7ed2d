/* The Python stack of a thread of another process. */
#ifndef SCALENE_TRACE_WATCH_STACK_H
#define SCALENE_TRACE_WATCH_STACK_H

#include "shared/base.h"
#include "shared/stacks/target.h"
#include "watch/threads.h"

#pragma GCC visibility push(hidden)

/* Hash of its innermost node, 0 = none; false = torn. The caller sees to it that the thread does not run meanwhile;
 * `moving`: it may, so the innermost frame must be the same before and after. */
bool stack_read(struct watched *thread, bool moving, uint64_t *hash);
/* Everything that is read from here on is of the thread's process. false = nothing of its Python is known. */
bool stack_aim(struct watched *thread);
/* Its PyThreadState, searched for where it is not known yet; 0 = there is none. */
uintptr_t stack_state(struct watched *thread, int64_t now_ns);

#pragma GCC visibility pop

#endif
