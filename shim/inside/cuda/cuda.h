/* Functions of the CUDA libraries, described without CUDA's headers: they take only integers and pointers, at most
 * nine, which are forwarded unchanged. */
#ifndef SCALENE_TRACE_CUDA_CUDA_H
#define SCALENE_TRACE_CUDA_CUDA_H

#include "shared/base.h"

#define CUDA_ARGUMENTS 9
typedef int cuda_function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                          uintptr_t);

enum cuda_act { COPY, COPY_DESCRIBED, ALLOCATE, ALLOCATE_PITCHED, FREE, WAIT, LOOK_UP };

/* An entry of call_list.h, which explains the fields. */
struct cuda_call {
  const char *name;
  uint8_t act; /* enum cuda_act */
  int8_t size, times;
  int8_t how; /* DEVICE_* (> 0) or the source of an allocation; -1 - n: the cudaMemcpyKind in argument n */
};

/* Calls the real function with all nine arguments; it ignores those that it does not take. */
static inline int cuda_forward(cuda_function *real, const uintptr_t *a) {
  return real(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
}

#endif
