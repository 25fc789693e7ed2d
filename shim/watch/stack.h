/* The Python stack of a thread of another process. Only the watcher's thread calls these functions. */
#ifndef SCALENE_TRACE_WATCH_STACK_H
#define SCALENE_TRACE_WATCH_STACK_H

#include "shared/base.h"
#include "shared/stacks/target.h"
#include "watch/native/instruction.h"
#include "watch/threads.h"

#pragma GCC visibility push(hidden)

/* Reads the thread's stack, writes its new nodes to the spool, and stores the hash of the innermost one (0 = no stack).
 * False = torn. If the thread runs in the meantime, the stack may be a mixture of two moments that are about a microsecond
 * apart; a caller that does not want that must verify that it did not run. */
bool stack_read(struct watched *thread, uint64_t *hash);
/* Returns the stack of the thread that stack_read has just read; null = it has none. */
const struct walked_stack *stack_walked(const struct watched *thread);
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
