/* The instruction of a sampled thread's innermost Python frame. Only the watcher's thread calls these functions. */
#ifndef SCALENE_TRACE_WATCH_NATIVE_INSTRUCTION_H
#define SCALENE_TRACE_WATCH_NATIVE_INSTRUCTION_H

#include "shared/base.h"
#include "shared/native/frame_step.h"
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
/* Where an interpreter's bytecode loop may keep its next instruction while it calls a function. */
#define NEXT_REGISTERS 6 /* that the callee saves */
#define NEXT_WORDS 64    /* of the loop's C frame, from the stack pointer on */
#define NEXT_PLACES (NEXT_REGISTERS + NEXT_WORDS)
#define NEXT_CALLS 256
struct next_counts {
  uint16_t right[NEXT_PLACES]; /* number of samples in which the place agreed with the frame as it was read */
};
struct next_places {
  struct next_counts all;
  struct next_call {
    uintptr_t after; /* the call instruction; 0 = the entry is free */
    struct next_counts counts;
  } call[NEXT_CALLS]; /* of the loop, by a hash */
};

/* The bytecode loop that a sample was in. */
struct loop_of_sample {
  uintptr_t frame;                          /* its stack pointer; 0 = unknown */
  const struct unwind_registers *registers; /* when it made its call */
  struct next_places *places;               /* of the interpreter; null = none */
};

/* After that: puts the innermost frame to the instruction that it had when the thread was sampled, if its function still runs. */
void instruction_of_sample(const struct walked_stack *walked, const struct ring_sample *sample,
                           const struct loop_of_sample *loop, struct attached_stack *out);

#pragma GCC visibility pop

#endif
