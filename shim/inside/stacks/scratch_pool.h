/* Who reads a stack takes a scratch from here. */
#ifndef SCALENE_TRACE_STACKS_SCRATCH_POOL_H
#define SCALENE_TRACE_STACKS_SCRATCH_POOL_H

#include "shared/base.h"
#include "shared/stacks/scratch.h"

#pragma GCC visibility push(hidden)

/* Null when all are in use (counted). Context: signal. */
struct scratch *scratch_take(void);
void scratch_give(struct scratch *scratch);
void scratch_postfork_child(void);

#pragma GCC visibility pop

#endif
