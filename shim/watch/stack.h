/* The Python stack of a thread of another process. Only the watcher's thread calls these functions. */
#ifndef SCALENE_TRACE_WATCH_STACK_H
#define SCALENE_TRACE_WATCH_STACK_H

#include "shared/base.h"
#include "shared/stacks/target.h"
#include "watch/attached/attached.h"
#include "watch/attached/ring.h"
#include "watch/threads.h"

#pragma GCC visibility push(hidden)

/* Reads the thread's stack, writes its new nodes to the spool, and stores the hash of the innermost one (0 = no stack).
 * False = torn. If the thread runs in the meantime, the stack may be a mixture of two moments that are about a microsecond
 * apart; a caller that does not want that must verify that it did not run. */
bool stack_read(struct watched *thread, uint64_t *hash);
/* After stack_read: stores the instructions around that of its innermost frame, and whether its interpreter collects
 * garbage. */
void stack_of_instruction(struct watched *thread, struct attached_stack *out);
/* After that: puts the innermost frame to the instruction that it had when the thread was sampled, if its function still runs.
 * `eval_frame`: address of the bytecode loop's C frame then; 0 = unknown. */
void stack_of_sample(struct watched *thread, const struct ring_sample *sample, uintptr_t eval_frame,
                     struct attached_stack *out);
/* From now on, all reads are of the thread's process. False = its Python cannot be read. */
bool stack_aim(struct watched *thread);
/* True if the thread has begun so recently that its PyThreadState may still be found soon. */
bool stack_may_find_state(const struct watched *thread, int64_t now_ns);
/* Returns the address of the thread's PyThreadState, and searches for it if it is unknown; 0 = not found. `now_ns`
 * limits how often it searches. */
uintptr_t stack_state(struct watched *thread, int64_t now_ns);
/* Searches for the variable that holds the labels of the thread's process (process.labels), if that is due. */
void stack_search_labels(struct watched *thread, int64_t now_ns);

#pragma GCC visibility pop

#endif
