/* What calls of the CUDA libraries copy, allocate and wait. */
#ifndef SCALENE_TRACE_CUDA_CALLS_H
#define SCALENE_TRACE_CUDA_CALLS_H

#include "inside/cuda/cuda.h"
#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Makes the call and records it. Context: normal. */
int cuda_calls_make(cuda_function *real, const struct cuda_call *call, const uintptr_t *arguments);
/* Writes what threads have not told yet, but for those that are just adding to it. Context: signal. */
void cuda_calls_flush_all(void);
/* The same of the calling thread, at its end, and if it is due. Context: signal. */
void cuda_calls_thread_end(void);
void cuda_calls_tick(void);
void cuda_calls_postfork_child(void);

#pragma GCC visibility pop

#endif
