/* The stacks of tasks. Many are read at once: each frame is a step, and a stack is a chain of steps. Stacks of the same
 * place in the program are verified and written only once. Only the watcher's thread calls these functions. */
#ifndef SCALENE_TRACE_WATCH_READING_PLACES_H
#define SCALENE_TRACE_WATCH_READING_PLACES_H

#include "shared/base.h"
#include "shared/stacks/chain.h"
#include "shared/stacks/scratch.h"

#pragma GCC visibility push(hidden)

/* One frame of a task's stack. */
struct step {
  struct frame_entry entry;
  int32_t outer; /* index of the step of the outer frame; -1 = none */
};

/* Discards all steps. */
void places_clear(void);
/* Adds a step without an outer frame for the frame at `address`, whose bytes are in `frame`. CHAIN_BROKEN also if there is
 * no room for it. */
enum chain_frame places_add(uintptr_t address, const char *frame, struct step **out);
/* Returns the index of a step. */
int32_t places_index(const struct step *step);
/* Returns the step with this index. */
struct step *places_step(int32_t index);
/* Stores the hash of the stack whose innermost step has this index; 0 = a node was lost. `place`: a hash of the codes and
 * instructions of its steps. Counts the loss tasks_torn if a frame does not lead to a code object. */
void places_stack(uint64_t place, int32_t innermost, bool truncated, uint64_t *stack);

#pragma GCC visibility pop

#endif
