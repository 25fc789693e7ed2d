/* The pool of working memory for reading stacks in this process. It is static, because its users run inside allocators
 * and signal handlers. */
#ifndef SCALENE_TRACE_STACKS_SCRATCH_POOL_H
#define SCALENE_TRACE_STACKS_SCRATCH_POOL_H

#include "shared/base.h"
#include "shared/stacks/scratch.h"

#pragma GCC visibility push(hidden)

/* Takes a scratch from the pool; null = all are in use (counted as a loss). The caller returns it. Context: signal. */
struct scratch *scratch_take(void);
/* Returns a scratch to the pool. Context: signal. */
void scratch_give(struct scratch *scratch);
/* Frees all scratches in a forked child: those in use belonged to threads of the parent. Context: signal. */
void scratch_postfork_child(void);

#pragma GCC visibility pop

#endif
