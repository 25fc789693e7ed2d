/* The life of a process: load, fork, exec, end. */
#ifndef SCALENE_TRACE_PROCESSES_PROCESS_H
#define SCALENE_TRACE_PROCESSES_PROCESS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Ends the recording of this image before the calling thread execs: disarms its timers, writes the end records and
 * publishes the exec handoff. Does nothing in a vfork child, whose memory is its parent's. Context: signal. */
void process_before_exec(void);
/* Undoes process_before_exec after exec has failed. Context: signal. */
void process_after_failed_exec(void);

/* Ends the recording of this process before the calling thread sets a seccomp filter. Context: normal. */
void process_before_filter(void);
/* Undoes process_before_filter after the filter was refused. Context: normal. */
void process_after_refused_filter(void);

#pragma GCC visibility pop

#endif
