/* The Python stack of the calling thread. */
#ifndef SCALENE_TRACE_STACKS_FRAMES_H
#define SCALENE_TRACE_STACKS_FRAMES_H

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/stacks/scratch.h"

#pragma GCC visibility push(hidden)

struct python_stack {
  uint64_t hash; /* 0 = none */
  uint8_t opcodes[TICK_OPCODES];
  uint32_t flags; /* TICK_GC | TICK_TORN */
};
/* Walks and interns. `eval_frame` (of the native evidence; 0 = unknown) is a second source for the innermost frame.
 * Context: signal. */
#define FIND_EVAL_FRAME UINTPTR_MAX /* it lies above the caller's own frame, to be looked for when it is needed */
void frames_sample(void *thread_state, uintptr_t eval_frame, struct scratch *scratch, struct python_stack *out);
/* Takes a scratch and walks the calling thread's stack; its hash, 0 = none. Context: malloc. */
uint64_t frames_current(void);

#pragma GCC visibility pop

#endif
