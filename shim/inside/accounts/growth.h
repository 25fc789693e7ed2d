/* Which stack a sample of the footprint's growth is charged to. */
#ifndef SCALENE_TRACE_ACCOUNTS_GROWTH_H
#define SCALENE_TRACE_ACCOUNTS_GROWTH_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Adds bytes that a sample of that stack stands for. Context: malloc. */
void growth_allocated(uint64_t stack, uint32_t thread, int64_t bytes);
/* Subtracts bytes that a sample of that stack stood for. Context: malloc. */
void growth_freed(uint64_t stack, int64_t bytes);
/* Chooses the stack to which growth by `bytes` bytes is charged, by the bytes that stacks hold and have not been
 * charged with; false = no stack holds anything. Context: malloc. */
bool growth_charge(int64_t bytes, uint64_t *random, uint32_t *thread, uint64_t *stack);
/* A block is a footprint sample of its own. If it is the first sample, it stands for the start-up too, and what stacks
 * hold now counts as charged. Context: malloc. */
void growth_begin(void);
/* The footprint has shrunk: no stack stays charged with more than it holds. Context: malloc. */
void growth_shrank(void);
/* Forgets what the parent holds. Context: malloc. */
void growth_postfork_child(void);

#pragma GCC visibility pop

#endif
