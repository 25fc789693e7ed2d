/* Alternate signal stacks (sigaltstack): whether our handler fits on one. */
#ifndef SCALENE_TRACE_CPU_ALTERNATE_STACK_H
#define SCALENE_TRACE_CPU_ALTERNATE_STACK_H

#include <signal.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* True if a signal frame of this processor and our handler do not fit on `stack`. Context: signal. */
bool alternate_stack_too_small(const stack_t *stack);
/* The same for the stack that the calling thread has registered. The kernel is asked, because a forked child inherits the
 * stack, and a program may have registered it by a system call. Context: signal. */
bool alternate_stack_is_too_small(void);

#pragma GCC visibility pop

#endif
