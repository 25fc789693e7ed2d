/* The label of a request or job that the calling thread works for. */
#ifndef SCALENE_TRACE_PYTHON_LABELS_H
#define SCALENE_TRACE_PYTHON_LABELS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Returns the hash of the label in the context of this thread state, which is the calling thread's, and writes the label
 * to the spool if it is new; 0 = none. Context: signal. */
uint64_t labels_of(const char *state); /* the slow path */
extern _Atomic int labels_told;        /* variables that hold labels and are known; 0 = no label can be read */
static inline uint64_t labels_current(const char *state) {
  return likely(!atomic_load_explicit(&labels_told, memory_order_relaxed)) ? 0 : labels_of(state);
}

/* For the program itself, which says where its labels are (recorder/labelled.py): the address of the context variable, its
 * hash, and that of its value in the current context, which must be found there. Returns 0 if it is not. Context: normal. */
EXPORT int scalene_program_label(uintptr_t variable, uint64_t hash, uintptr_t value);

#pragma GCC visibility pop

#endif
