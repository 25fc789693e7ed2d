/* A program may register an alternate stack that is too small for a signal frame of this processor and never need it.
 * Our handler would overflow it. */
#include "inside/cpu/alternate_stack.h"

#include <cpuid.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
#define HANDLER_BYTES 4096
#define FRAME_BYTES 1536 /* of a signal frame, besides the extended state of the processor */

/* Kernels before 5.14 do not tell the size of a signal frame. */
static size_t frame_bytes(void) {
  unsigned eax, extended_state = 0, ecx, edx;
  size_t told = getauxval(AT_MINSIGSTKSZ);
  if (told) return told;
  __get_cpuid_count(13, 0, &eax, &extended_state, &ecx, &edx);
  return extended_state + FRAME_BYTES;
}

bool alternate_stack_too_small(const stack_t *stack) {
  return !(stack->ss_flags & SS_DISABLE) && stack->ss_size < frame_bytes() + HANDLER_BYTES;
}

bool alternate_stack_is_too_small(void) {
  stack_t now;
  return syscall(SYS_sigaltstack, NULL, &now) == 0 && alternate_stack_too_small(&now);
}
