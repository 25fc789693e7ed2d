/* Detects valgrind. Under it, the shim must not read memory that is uninitialised or not its own: valgrind would report
 * that as errors of the program. */
#ifndef SCALENE_TRACE_CHECKED_H
#define SCALENE_TRACE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/arch/arch.h"

/* True if the process runs under valgrind. The sequence is the one of valgrind.h: a processor executes it without
 * effect; valgrind recognizes it as a request. Context: signal. */
static inline bool under_valgrind(void) {
  volatile uint64_t request[6] = {0x1001 /* RUNNING_ON_VALGRIND */};
  return arch_valgrind_request(request) != 0;
}

#endif
