/* Anonymous mappings that libraries make with mmap. */
#ifndef SCALENE_TRACE_MEMORY_MAPPINGS_H
#define SCALENE_TRACE_MEMORY_MAPPINGS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Stores the bytes of the mappings that count as memory, and of those that are only reservations. Context: malloc. */
void mappings_sizes(int64_t *mapped, int64_t *reserved);
/* Keeps the ranges and forgets their samples, which are the parent's. Returns the bytes of memory that are no longer
 * counted, because the table was inconsistent. Context: malloc. */
int64_t mappings_postfork_child(void);

#pragma GCC visibility pop

#endif
