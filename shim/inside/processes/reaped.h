/* The ends of children, as the process learns of them when it waits for them: also of those that were killed. */
#ifndef SCALENE_TRACE_PROCESSES_REAPED_H
#define SCALENE_TRACE_PROCESSES_REAPED_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Records what the process and the children that it has waited for have used: what its parent learns to be more has been
 * used by its end. Context: signal. */
void reaped_write_own(void);

#pragma GCC visibility pop

#endif
