/* Places where calls of the CUDA libraries are intercepted: GOT slots of other libraries, and dlsym. */
#ifndef SCALENE_TRACE_CUDA_HOOKS_H
#define SCALENE_TRACE_CUDA_HOOKS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Hooks libraries that were loaded since the last scan, if copies or memory are recorded. Costs only a few reads of
 * memory if nothing was loaded or closed. Context: normal. */
void cuda_hooks_refresh(void);
/* Ends a scan that another thread of the parent had begun. Context: signal. */
void cuda_hooks_postfork_child(void);

#pragma GCC visibility pop

#endif
