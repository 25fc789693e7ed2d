/* Random numbers for drawing sampling intervals, usable in signal handlers. Not for cryptography. */
#ifndef SCALENE_TRACE_SHARED_RANDOM_H
#define SCALENE_TRACE_SHARED_RANDOM_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Returns an initial state: never 0, and different in each thread (tid). Context: signal. */
uint64_t random_seed(int32_t tid);
/* Advances the state and returns a number, uniform in [1, 2^64). Context: signal. */
uint64_t random_next(uint64_t *state);

#pragma GCC visibility pop

#endif
