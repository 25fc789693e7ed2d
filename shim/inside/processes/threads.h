/* Start and end of threads. */
#ifndef SCALENE_TRACE_PROCESSES_THREADS_H
#define SCALENE_TRACE_PROCESSES_THREADS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Prepares the recording of threads; 0 = success, else an errno. Called once, at load. Context: normal. */
int threads_init(void);
/* Registers the calling thread and arms its timers. Its CPU time counts from now if `from_now`, else from the start of
 * the thread. Context: malloc. */
void threads_begin(bool from_now);
/* Flushes the counters of the calling thread, disarms its timers and writes its end record, once. Context: normal. */
void threads_end(void);
/* Writes only the end record, because the thread continues if exec fails. Context: signal. */
void threads_write_end(void);
/* Registers the calling thread as the only one of a forked child. Context: signal. */
void threads_postfork_child(void);
/* Closes the parent's perf events and forgets its threads, in a forked child that is not recorded. Context: signal. */
void threads_forget(void);

#pragma GCC visibility pop

#endif
