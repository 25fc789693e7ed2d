/* Where calls of the CUDA libraries are observed. */
#ifndef SCALENE_TRACE_CUDA_HOOKS_H
#define SCALENE_TRACE_CUDA_HOOKS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Puts libraries under watch that were loaded since the last look. Context: normal. */
void cuda_hooks_refresh(void);
void cuda_hooks_postfork_child(void);

#pragma GCC visibility pop

#endif
