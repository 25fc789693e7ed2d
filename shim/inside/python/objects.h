/* Types of the Python objects in sampled blocks, and counts of garbage collections. */
#ifndef SCALENE_TRACE_PYTHON_OBJECTS_H
#define SCALENE_TRACE_PYTHON_OBJECTS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Returns the hash of the type name of the Python object in the block, and writes the name to the spool if it is new;
 * 0 = the block does not seem to hold an object. held = the caller owns the block, so no other thread can free it.
 * Context: malloc. */
uint64_t objects_type(uintptr_t block, size_t bytes, bool held);
/* Returns the number of garbage collections so far, of all generations. If it has risen, also writes a record of the
 * counts: after each full collection, else at most every 100 ms. Context: signal. */
uint32_t objects_collections(const void *thread_state);
/* Begins anew with the next interpreter, after the library of the last one was unloaded. Context: signal. */
void objects_forget_interpreter(void);

#pragma GCC visibility pop

#endif
