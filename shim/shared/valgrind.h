/* Detects valgrind. Under it, the shim must not read memory that is uninitialised or not its own: valgrind would report
 * that as errors of the program. */
#ifndef SCALENE_TRACE_CHECKED_H
#define SCALENE_TRACE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

/* True if the process runs under valgrind. The sequence is the one of valgrind.h: rotations of a register that cancel
 * each other out, and an exchange of a register with itself. A processor executes it without effect; valgrind
 * recognizes it as a request. Context: signal. */
static inline bool under_valgrind(void) {
  uint64_t result = 0;
  volatile uint64_t request[6] = {0x1001 /* RUNNING_ON_VALGRIND */};
  __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
                   : "+d"(result)
                   : "a"(&request[0])
                   : "cc", "memory");
  return result != 0;
}

#endif
