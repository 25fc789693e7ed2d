/* Records what calls of the CUDA libraries copy, allocate and wait for. */
#ifndef SCALENE_TRACE_CUDA_CALLS_H
#define SCALENE_TRACE_CUDA_CALLS_H

#include "inside/cuda/cuda.h"
#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Makes the call, records it, and returns its result. A stand-in calls it in the place of `real`. Context: normal. */
int cuda_calls_make(cuda_function *real, const struct cuda_call *call, const uintptr_t *arguments);
/* Writes the sums of all threads, except those that a thread is changing at this moment. Called before the process ends
 * or execs. Context: signal. */
void cuda_calls_flush_all(void);
/* Writes the sums of the calling thread, which ends. Context: signal. */
void cuda_calls_thread_end(void);
/* Writes the sums of the calling thread if its last flush is FLUSH_NS ago. Called at each tick. Context: signal. */
void cuda_calls_tick(void);
/* Discards all sums: they are the parent's. Context: signal. */
void cuda_calls_postfork_child(void);

#pragma GCC visibility pop

#endif
