/* From frames to a stack in the spool. */
#ifndef SCALENE_TRACE_STACKS_CHAIN_H
#define SCALENE_TRACE_STACKS_CHAIN_H

#include "shared/base.h"
#include "shared/stacks/scratch.h"
#include "shared/stacks/target.h"

#pragma GCC visibility push(hidden)

/* Appends the frame at `address`, of which `frame` holds the bytes, to scratch->entry; there must be room. Frames without
 * code are passed over. false = this is no frame. Context: signal. */
bool chain_add(const struct stack_target *target, struct scratch *scratch, uintptr_t address, const char *frame);
/* Does every frame lead to a code object? Drops those that are still being set up. Context: signal. */
bool chain_verify(const struct stack_target *target, struct scratch *scratch);
/* Hash of the innermost frame's node, 0 = lost; writes the nodes that are new. Context: signal. */
uint64_t chain_intern(const struct stack_target *target, struct scratch *scratch, bool truncated);

#pragma GCC visibility pop

#endif
