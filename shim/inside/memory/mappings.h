/* Anonymous mappings that libraries make. */
#ifndef SCALENE_TRACE_MEMORY_MAPPINGS_H
#define SCALENE_TRACE_MEMORY_MAPPINGS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Context: malloc. */
void mappings_sizes(int64_t *mapped, int64_t *reserved);
/* Pages of 4 KiB that are mapped and not resident, looked up for at most EXAMINED_PAGES of them. Context: malloc. */
uint32_t mappings_untouched_pages(void);
void mappings_postfork_child(void);

#pragma GCC visibility pop

#endif
