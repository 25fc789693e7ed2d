/* The stacks of the last allocations and frees, when all of them are recorded. */
#ifndef SCALENE_TRACE_STACKS_RECENT_H
#define SCALENE_TRACE_STACKS_RECENT_H

#include "shared/base.h"
#include "shared/stacks/target.h"

#pragma GCC visibility push(hidden)

/* Returns the hash of the stack that begins at the frame `innermost`, and writes its new nodes to the spool, if all
 * of its code objects are known (codes.h); 0 = the stack must be read and verified. Makes no system call, unless a
 * frame lies outside the thread's chunks. Context: malloc. */
uint64_t recent_stack(const struct stack_target *target, const char *state, uintptr_t innermost);
/* Frees the memory of threads that a forked child does not have. Context: malloc. */
void recent_postfork_child(void);

#pragma GCC visibility pop

#endif
