/* From frames to a stack in the spool: what chain.c does for frames.c, and for the watcher. */
#ifndef SCALENE_TRACE_CHAIN_H
#define SCALENE_TRACE_CHAIN_H

#include "shim.h"

#pragma GCC visibility push(hidden)

/* Appends the frame at `address`, of which `frame` holds the bytes, to scratch->entry; there must be room. Frames without
 * code are passed over. false = this is no frame. Context: signal. */
bool chain_add(struct scratch *scratch, uintptr_t address, const char *frame);
/* Does every frame lead to a code object? Drops those that are still being set up. Context: signal. */
bool chain_verify(struct scratch *scratch);
/* Hash of the innermost frame's node, 0 = lost; writes the nodes that are new. Context: signal. */
uint64_t chain_intern(struct scratch *scratch, bool truncated);

#pragma GCC visibility pop

#endif
