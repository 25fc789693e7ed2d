/* Copy volume: counts and samples the bytes that the program copies with memcpy and memmove. */
#ifndef SCALENE_TRACE_COPIES_COPIES_H
#define SCALENE_TRACE_COPIES_COPIES_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Starts the counting if copies are recorded; else copies are only forwarded. Called once, at load. Context: normal. */
void copies_init(void);
/* Passes the bytes that the calling thread has copied since its last sample to the next sample of any thread.
 * Context: malloc. */
void copies_thread_end(void);
/* Writes the bytes that no sample holds yet as one sample without a thread and a stack. Context: normal. */
void copies_process_end(void);
/* Discards the bytes that no sample holds yet: they are the parent's. Context: signal. */
void copies_postfork_child(void);

#pragma GCC visibility pop

#endif
