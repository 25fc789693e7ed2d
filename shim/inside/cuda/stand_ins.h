/* Stand-ins that are called in the place of functions of the CUDA libraries. */
#ifndef SCALENE_TRACE_CUDA_STAND_INS_H
#define SCALENE_TRACE_CUDA_STAND_INS_H

#include "inside/cuda/cuda.h"
#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* The watched function of that name; null = it is not watched. Context: normal. */
const struct cuda_call *cuda_find(const char *name);
/* What is to be called in the place of `real`, which is that function; `real` itself when there is no room (counted).
 * Context: normal. */
void *cuda_stand_in(void *real, const struct cuda_call *call);

#pragma GCC visibility pop

#endif
