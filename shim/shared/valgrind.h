/* Does valgrind look at what this process reads and writes? Then only what is its own and initialised may be touched. */
#ifndef SCALENE_TRACE_CHECKED_H
#define SCALENE_TRACE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

/* Asked as valgrind.h does: rotations of a register that cancel each other out, and an exchange of one with itself, which
 * valgrind answers and the processor takes for nothing. Context: signal. */
static inline bool under_valgrind(void) {
  uint64_t answer = 0;
  volatile uint64_t request[6] = {0x1001 /* RUNNING_ON_VALGRIND */};
  __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
                   : "+d"(answer)
                   : "a"(&request[0])
                   : "cc", "memory");
  return answer != 0;
}

#endif
