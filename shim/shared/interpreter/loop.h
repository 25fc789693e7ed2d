/* What the interpreter's machine code tells: where the other part of the bytecode loop is, what that calls, and which
 * function an object is made with. */
#ifndef SCALENE_TRACE_SHARED_INTERPRETER_LOOP_H
#define SCALENE_TRACE_SHARED_INTERPRETER_LOOP_H

#include "shared/base.h"
#include "shared/interpreter/place.h"

#pragma GCC visibility push(hidden)

struct code_range {
  uintptr_t start, end;
};

/* Finds the part of the function `loop` that lies outside of it. False = there is none, or it is not known. Context:
 * normal. */
bool loop_part_find(const struct interpreter_place *place, struct code_range loop, struct code_range *part);
/* Finds functions that the code in `parts` (0, 0 = none) calls by name and that refer to `function`: at most `room`.
 * Returns how many. Context: normal. */
int loop_find_callers(const struct interpreter_place *place, const struct code_range parts[2], uintptr_t function,
                      struct code_range *out, int room);
/* True if the function `code` refers to `function`. Context: normal. */
bool loop_refers(const struct interpreter_place *place, struct code_range code, uintptr_t function);
/* Finds the functions whose addresses `code` stores into an object. Returns how many; 0 = none, or more than `room`.
 * Context: normal. */
int loop_find_stored(const struct interpreter_place *place, struct code_range code, uintptr_t *out, int room);
/* Finds the range of the function that starts at `start`, in the image with the function `loop`. False = none does, by the
 * unwind tables. Context: normal. */
bool loop_function_at(const struct interpreter_place *place, struct code_range loop, uintptr_t start,
                      struct code_range *out);

#pragma GCC visibility pop

#endif
