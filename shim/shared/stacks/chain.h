/* From frames to a stack in the spool: used by the shim for the calling thread, by the watcher for threads of other
 * processes. */
#ifndef SCALENE_TRACE_STACKS_CHAIN_H
#define SCALENE_TRACE_STACKS_CHAIN_H

#include "shared/base.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/scratch.h"
#include "shared/stacks/target.h"
#include "shared/words.h"

#pragma GCC visibility push(hidden)

enum chain_frame { CHAIN_FRAME, CHAIN_NO_CODE, CHAIN_BROKEN };
/* Returns the address of that copy of the code object's bytecode; 0 = it could not be read. Context: signal. */
uintptr_t chain_copied_bytecode(const struct python_layout *layout, uintptr_t code, int copy);
/* Returns the index of the instruction in 2-byte units. It is less than first_traceable while the frame is being set
 * up, and arbitrary if the bytes are not a frame. */
static inline int64_t chain_instruction(const struct stack_target *target, const char *frame, uintptr_t code) {
  const struct python_layout *layout = target->layout;
  if (layout->frame_owner < 0) return (int32_t)word_at(frame, layout->frame_instruction);
  uintptr_t first = code + (uintptr_t)layout->code_bytecode;
  int copy = layout->frame_copy ? int_at(frame, layout->frame_copy) : 0;
  if (copy) first = chain_copied_bytecode(layout, code, copy);
  return (int64_t)(word_at(frame, layout->frame_instruction) - first) >> 1; /* unsigned: garbage may make it wrap */
}
/* Reads the frame at `address`, whose bytes are in `frame`, into `out`. CHAIN_NO_CODE: it has no code object.
 * CHAIN_BROKEN: the bytes are not a frame. Context: signal. */
static inline enum chain_frame chain_read(const struct stack_target *target, uintptr_t address, const char *frame,
                                          struct frame_entry *out) {
  const struct python_layout *layout = target->layout;
  int owner = layout->frame_owner < 0 ? 0 : (signed char)frame[layout->frame_owner];
  if (owner >= OWNER_NO_CODE) return CHAIN_NO_CODE;
  uintptr_t code = word_at(frame, layout->frame_code) & layout->reference_mask;
  int64_t index = chain_instruction(target, frame, code);
  if (!code || (code & 7) || index < -1 || index > INT32_MAX / 2) return CHAIN_BROKEN;
  *out = (struct frame_entry){.frame = address, .code = code, .instruction = (int32_t)index, .owner = owner};
  return CHAIN_FRAME;
}
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
