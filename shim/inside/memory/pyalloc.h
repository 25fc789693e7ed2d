/* Python's allocators. */
#ifndef SCALENE_TRACE_MEMORY_PYALLOC_H
#define SCALENE_TRACE_MEMORY_PYALLOC_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Puts ours around Python's. Before Py_Initialize. Context: normal. */
void pyalloc_init(void);
/* Counts what can only be told at the end. Context: normal. */
void pyalloc_end(void);
/* How much of the arenas is mapped now. Context: malloc. */
int64_t pyalloc_arena_bytes(void);

#pragma GCC visibility pop

#endif
