/* The instruction of a sampled thread's innermost Python frame. Only the watcher's thread calls these functions. */
#ifndef SCALENE_TRACE_WATCH_NATIVE_INSTRUCTION_H
#define SCALENE_TRACE_WATCH_NATIVE_INSTRUCTION_H

#include "shared/base.h"
#include "shared/stacks/scratch.h"
#include "watch/attached/attached.h"
#include "watch/attached/ring.h"

#pragma GCC visibility push(hidden)

/* A Python stack that was just read, of the process that all reads are of. */
struct walked_stack {
  struct scratch *scratch; /* its frames, the innermost first: at least one */
  bool is_truncated;
  uintptr_t interpreter; /* of the thread; 0 = unknown */
};

/* Stores the instructions around that of the innermost frame, and whether the interpreter collects garbage. `walked`: null =
 * there is no stack. */
void instruction_read(const struct walked_stack *walked, struct attached_stack *out);
/* After that: puts the innermost frame to the instruction that it had when the thread was sampled, if its function still runs.
 * `eval_frame`: address of the bytecode loop's C frame then; 0 = unknown. */
void instruction_of_sample(const struct walked_stack *walked, const struct ring_sample *sample, uintptr_t eval_frame,
                           struct attached_stack *out);

#pragma GCC visibility pop

#endif
