/* The rule by which the caller of a function is found, for any address in the loaded images. */
#ifndef SCALENE_TRACE_SHARED_EVIDENCE_FRAME_RULES_H
#define SCALENE_TRACE_SHARED_EVIDENCE_FRAME_RULES_H

#include "shared/native/frame_program.h"
#include "shared/native/image.h"
#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Finds the rule of `pc`; false = it is in no image, or its tables have no rule that is supported. A return address may
 * lie behind the last instruction of its function, so `is_return` makes pc - 1 count. Sets pc_class, RULE_CALLED and
 * `start` (0 without a rule) of `out` in any case. Rules are cached; a repeated address costs some tens of nanoseconds.
 * Context: signal. */
bool frame_rules_find(uintptr_t pc, bool is_return, struct frame_rule *out);
/* The same without the cache, from the tables of `image`. Context: signal. */
bool frame_rules_read(const struct image *image, uintptr_t pc, bool is_return, struct frame_rule *out);

#pragma GCC visibility pop

#endif
