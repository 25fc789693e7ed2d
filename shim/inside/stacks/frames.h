/* The Python stack of the calling thread, as a tick or an allocation sample needs it. */
#ifndef SCALENE_TRACE_STACKS_FRAMES_H
#define SCALENE_TRACE_STACKS_FRAMES_H

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/stacks/scratch.h"

#pragma GCC visibility push(hidden)

struct python_stack {
  uint64_t hash;                 /* of the innermost frame's node; 0 = no stack */
  uint8_t opcodes[TICK_OPCODES]; /* as in record_tick */
  uint32_t flags;                /* TICK_GC | TICK_TORN */
};
/* Walks the stack of `thread_state`, writes its new nodes to the spool and stores its hash. When the thread state's own
 * innermost frame is inconsistent, the C frame of the bytecode loop leads to another: `eval_frame`
 * (native_evidence.eval_frame, 0 = unknown), then what a scan of the C stack from `sp` on finds. Context: signal. */
void frames_sample(void *thread_state, uintptr_t eval_frame, uintptr_t sp, struct scratch *scratch,
                   struct python_stack *out);
/* Returns the hash of the calling thread's stack, and writes its new nodes to the spool; 0 = no stack.
 * Context: malloc. */
uint64_t frames_current(void);
/* The same for a thread state that is the calling thread's; null = it has none. Context: malloc. */
uint64_t frames_of(void *thread_state);
/* Returns the address of the Thread object whose method start the calling thread runs; 0 = it runs something else.
 * Whether the object is a Thread must be checked. Context: normal. */
uintptr_t frames_thread_started(void);
/* Returns a hash of the code and the instruction that the calling thread runs, without walking its stack; 0 = no
 * Python. Two instructions hardly ever have the same hash. Context: malloc. */
uint64_t frames_line(void);

#pragma GCC visibility pop

#endif
