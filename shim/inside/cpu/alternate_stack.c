/* A program may register an alternate stack that is too small for a signal frame of this processor and never need it.
 * Our handler would overflow it. */
#include "inside/cpu/alternate_stack.h"

#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
#define HANDLER_BYTES 4096

/* Kernels before 5.14 do not tell the size of a signal frame. */
static size_t frame_bytes(void) {
  size_t told = getauxval(AT_MINSIGSTKSZ);
  if (told) return told;
  return arch_signal_frame_bytes();
}

bool alternate_stack_too_small(const stack_t *stack) {
  return !(stack->ss_flags & SS_DISABLE) && stack->ss_size < frame_bytes() + HANDLER_BYTES;
}

bool alternate_stack_is_too_small(void) {
  stack_t now;
  return syscall(SYS_sigaltstack, NULL, &now) == 0 && alternate_stack_too_small(&now);
}
