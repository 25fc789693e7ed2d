/* Native stacks in the spool: each function on a stack is written when it is first seen with its callers, so that ticks
 * need only a hash. */
#ifndef SCALENE_TRACE_SHARED_EVIDENCE_CHAINS_H
#define SCALENE_TRACE_SHARED_EVIDENCE_CHAINS_H

#include "shared/base.h"
#include "shared/evidence/unwind.h"

#pragma GCC visibility push(hidden)

/* Returns the hash of the innermost function's record, and writes the records that are new; 0 = there is none, or one was
 * lost. `frame`: innermost first; `cut`: the outermost frame has callers that are not in it; `thread`: the records' one.
 * Context: signal. */
uint64_t native_chain(const struct native_frame *frame, int count, bool cut, uint32_t thread);

#pragma GCC visibility pop

#endif
