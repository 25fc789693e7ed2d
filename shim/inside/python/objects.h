/* Types of the Python objects in sampled blocks, and counts of garbage collections. */
#ifndef SCALENE_TRACE_PYTHON_OBJECTS_H
#define SCALENE_TRACE_PYTHON_OBJECTS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* What keeps the block from being freed while it is read. The thread is inside one of Python's allocators, except in
 * the first case. */
enum block_hold {
  BLOCK_MAY_GO, /* nothing */
  BLOCK_STAYS,  /* the GIL, if there is only one interpreter */
  BLOCK_OWNED   /* the thread is the one that is about to free it */
};
/* Returns the hash of the type name of the Python object in the block, and writes the name to the spool if it is new;
 * 0 = the block does not seem to hold an object. `thread_state`: of the calling thread, null = none. Context: malloc. */
uint64_t objects_type(uintptr_t block, size_t bytes, enum block_hold hold, const void *thread_state);
/* From now on the function returns the id of the block of Python's allocators that begins at an address, has at
 * least so many bytes and is not freed; 0 = none is known. `closed` returns how many libraries were closed, UINT32_MAX =
 * one is being closed; `pooled` is true for an address that certainly lies in a pool of pymalloc. Null = there is no such
 * function. Context: malloc. */
void objects_follow(uint64_t (*living)(uintptr_t address, size_t bytes), uint32_t (*closed)(void),
                    bool (*pooled)(uintptr_t address));
/* Returns the number of garbage collections so far, of all generations. If it has risen, also writes a record of the
 * counts: after each full collection, else at most every 100 ms. `held`: the thread is inside one of Python's allocators, so
 * it has the GIL. Context: signal. */
uint32_t objects_collections(const void *thread_state, bool held);
/* Begins anew with the next interpreter, after the library of the last one was unloaded. Context: signal. */
void objects_forget_interpreter(void);

#pragma GCC visibility pop

#endif
