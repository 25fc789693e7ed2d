/* From frames to a stack in the spool: used by the shim for the calling thread, by the watcher for threads of other
 * processes. */
#ifndef SCALENE_TRACE_STACKS_CHAIN_H
#define SCALENE_TRACE_STACKS_CHAIN_H

#include "shared/base.h"
#include "shared/stacks/scratch.h"
#include "shared/stacks/target.h"

#pragma GCC visibility push(hidden)

enum chain_frame { CHAIN_FRAME, CHAIN_NO_CODE, CHAIN_BROKEN };
/* Reads the frame at `address`, whose bytes are in `frame`, into `out`. CHAIN_NO_CODE: it has no code object.
 * CHAIN_BROKEN: the bytes are not a frame. Context: signal. */
enum chain_frame chain_read(const struct stack_target *target, uintptr_t address, const char *frame,
                            struct frame_entry *out);
/* Appends the frame at `address`, whose bytes are in `frame`, to scratch->entry, which must have room. Ignores frames
 * without a code object. False = the bytes are not a frame. Context: signal. */
bool chain_add(const struct stack_target *target, struct scratch *scratch, uintptr_t address, const char *frame);
/* True if every frame in scratch->entry leads to a code object. Removes frames that are still being set up.
 * Context: signal. */
bool chain_verify(const struct stack_target *target, struct scratch *scratch);
/* Returns the hash of the innermost frame's node, and writes the nodes that are new; 0 = a node was lost.
 * Context: signal. */
uint64_t chain_intern(const struct stack_target *target, struct scratch *scratch, bool truncated);

#pragma GCC visibility pop

#endif
