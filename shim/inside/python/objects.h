/* Python objects in sampled blocks, and the collector's counts. */
#ifndef SCALENE_TRACE_PYTHON_OBJECTS_H
#define SCALENE_TRACE_PYTHON_OBJECTS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Hash of the name of the type of the Python object in the block, which is written on first sight; 0 = none.
 * held: the caller has the block, nobody can free it meanwhile. Context: malloc. */
uint64_t objects_type(uintptr_t block, size_t bytes, bool held);
/* Garbage collections so far; writes the counts, now and then, when there were more. Context: signal. */
uint32_t objects_collections(const void *thread_state);

#pragma GCC visibility pop

#endif
