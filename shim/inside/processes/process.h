/* The life of a process. */
#ifndef SCALENE_TRACE_PROCESSES_PROCESS_H
#define SCALENE_TRACE_PROCESSES_PROCESS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* The calling thread is about to exec. In a vfork child, whose memory is its parent's, nothing is done.
 * Context: signal. */
void process_before_exec(void);
void process_after_failed_exec(void);

#pragma GCC visibility pop

#endif
