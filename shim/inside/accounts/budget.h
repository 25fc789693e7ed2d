/* The budget of the allocation sampler: which of the samples that are due are recorded when there are too many. */
#ifndef SCALENE_TRACE_ACCOUNTS_BUDGET_H
#define SCALENE_TRACE_ACCOUNTS_BUDGET_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

#define BUDGET_WINDOW_NS 500000000
#define BUDGET_SAMPLES 100 /* of all sites together in a window */

/* What the samples of a block are counted by: the line that runs (known without walking the stack), or the stack. */
enum budget_level { BUDGET_OF_LINE, BUDGET_OF_STACK };

/* Decides whether a block that is due with the mean `interval` (bytes) is recorded. `site`: hash of the line or stack.
 * Returns the interval that the sample is recorded with, at least `interval`; 0 = it is not recorded. A block of b
 * bytes is recorded with probability 1 - exp(-b / interval) for the interval returned. Context: malloc. */
int64_t budget_admit(enum budget_level level, uint64_t site, uint64_t bytes, int64_t interval, int64_t now_ns,
                     uint64_t *random);
/* Returns the interval in bytes that no site is finer than at present, 0 = none. Context: malloc. */
int64_t budget_floor(void);
/* Forgets the sites of the parent. Context: malloc. */
void budget_postfork_child(void);

#pragma GCC visibility pop

#endif
