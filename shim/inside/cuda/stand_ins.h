/* Stand-ins: functions that are called in the place of functions of the CUDA libraries. */
#ifndef SCALENE_TRACE_CUDA_STAND_INS_H
#define SCALENE_TRACE_CUDA_STAND_INS_H

#include "inside/cuda/cuda.h"
#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Returns the entry of the intercepted function with that name; null = it is not intercepted. Context: normal. */
const struct cuda_call *cuda_find(const char *name);
/* Returns the stand-in for the function `real`, which `call` describes. Returns `real` itself if it is a stand-in, or
 * if all stand-ins are in use (counted as a loss). Context: normal. */
void *cuda_stand_in(void *real, const struct cuda_call *call);

#pragma GCC visibility pop

#endif
