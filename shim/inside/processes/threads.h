/* Threads: birth and end. */
#ifndef SCALENE_TRACE_PROCESSES_THREADS_H
#define SCALENE_TRACE_PROCESSES_THREADS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* 0 = ok. Context: normal. */
int threads_init(void);
/* Makes the calling thread known and arms it. The clocks count from here if `from_now`, else from the thread's birth.
 * Context: malloc. */
void threads_begin(bool from_now);
/* Writes its end record and disarms it. Context: normal. */
void threads_end(void);
/* The end record alone: the thread goes on (exec may fail). Context: signal. */
void threads_write_end(void);
/* The calling thread is the only one of a new process. Context: signal. */
void threads_postfork_child(void);
/* The same in a child that is not recorded: the parent's events are closed, nothing begins. Context: signal. */
void threads_forget(void);

#pragma GCC visibility pop

#endif
