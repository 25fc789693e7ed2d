/* The ends of children, as the process learns of them when it waits for them: also of those that were killed. */
#ifndef SCALENE_TRACE_PROCESSES_REAPED_H
#define SCALENE_TRACE_PROCESSES_REAPED_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Begins to count what children use: at load, and in a forked child. Context: signal. */
void reaped_begin(void);
/* Records that libc will wait for a child by itself, so that nobody learns what that child used. Context: signal. */
void reaped_unseen(void);
/* Calls reaped_unseen if the kernel knows of CPU time of children that no recorded wait has returned: of those that were
 * waited for without libc. Context: signal. */
void reaped_check(void);

#pragma GCC visibility pop

#endif
