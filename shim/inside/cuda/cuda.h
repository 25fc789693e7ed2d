/* Functions of the CUDA libraries. No header of CUDA is needed: all that they take are whole numbers and pointers, at
 * most nine of them, which are handed on as they came. */
#ifndef SCALENE_TRACE_CUDA_CUDA_H
#define SCALENE_TRACE_CUDA_CUDA_H

#include "shared/base.h"

#define CUDA_ARGUMENTS 9
typedef int cuda_function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                          uintptr_t);

enum cuda_act { COPY, COPY_DESCRIBED, ALLOCATE, ALLOCATE_PITCHED, FREE, WAIT, LOOK_UP };

/* A line of call_list.h. */
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

#endif
