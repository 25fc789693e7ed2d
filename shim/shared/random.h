/* Random numbers. */
#ifndef SCALENE_TRACE_SHARED_RANDOM_H
#define SCALENE_TRACE_SHARED_RANDOM_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* A state to begin with, not 0, different in each thread (tid). Context: signal. */
uint64_t random_seed(int32_t tid);
/* The next number, uniform in [0, 2^64). Context: signal. */
uint64_t random_next(uint64_t *state);

#pragma GCC visibility pop

#endif
