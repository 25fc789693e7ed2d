/* Functions of the CUDA libraries, and the stand-ins that are called in their place. No header of CUDA is needed: all
 * that they take are whole numbers and pointers, at most nine of them, which are handed on as they came. */
#ifndef SCALENE_TRACE_CUDA_H
#define SCALENE_TRACE_CUDA_H

#include "shim.h"

#pragma GCC visibility push(hidden)

#define CUDA_ARGUMENTS 9
typedef int cuda_function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                          uintptr_t);

enum cuda_act { COPY, COPY_DESCRIBED, ALLOCATE, ALLOCATE_PITCHED, FREE, WAIT, LOOK_UP };

/* A line of cuda_calls.h. */
struct cuda_call {
  const char *name;
  uint8_t act; /* enum cuda_act */
  int8_t size, times;
  int8_t how; /* DEVICE_* > 0; -1 - n: the cudaMemcpyKind in argument n */
};

/* Hands the call on. */
static inline int cuda_forward(cuda_function *real, const uintptr_t *a) {
  return real(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
}

/* ---- cuda.c ---- */

/* The watched function of that name; null = it is not watched. Context: normal. */
const struct cuda_call *cuda_find(const char *name);
/* What is to be called in the place of `real`, which is that function; `real` itself when there is no room (counted).
 * Context: normal. */
void *cuda_stand_in(void *real, const struct cuda_call *call);

/* ---- devices.c ---- */

/* Makes the call and records it. Context: normal. */
int devices_call(cuda_function *real, const struct cuda_call *call, const uintptr_t *arguments);

#pragma GCC visibility pop

#endif
