/* The rule by which the caller of a function is found, from the unwind tables of its image. */
#ifndef SCALENE_TRACE_SHARED_NATIVE_FRAME_TABLES_H
#define SCALENE_TRACE_SHARED_NATIVE_FRAME_TABLES_H

#include "shared/base.h"
#include "shared/native/frame_program.h"
#include "shared/native/image.h"

#pragma GCC visibility push(hidden)

/* Reads the rule of `pc` in `image`; false = its tables have none that is supported. A return address may lie behind the
 * last instruction of its function, so `is_return` makes pc - 1 count. `generation`: a number of 16 bits of the list of
 * images, by which words of images that do not stay are cached. Sets pc_class in any case. Context: signal. */
bool frame_tables_find(const struct image *image, uint64_t generation, uintptr_t pc, bool is_return,
                       struct frame_rule *out);

#pragma GCC visibility pop

#endif
