/* What an address belongs to. */
#ifndef SCALENE_TRACE_STACKS_IMAGES_H
#define SCALENE_TRACE_STACKS_IMAGES_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

struct image {
  uintptr_t start, end; /* of an executable segment */
  uintptr_t bias;
  uint32_t pc_class; /* PC_* */
};
/* Context: normal. */
void images_init(void);
/* Looks whether libraries came or went, at most a few reads when none did. Context: signal. */
void images_refresh(void);
/* Modules will be written again by this process. Context: signal. */
void images_postfork_child(void);
const struct image *images_find(uintptr_t address);
/* How often a library was closed, or UINT32_MAX while one is. Context: signal. */
uint32_t images_closed_count(void);
/* What the native stack tells, from the interrupted instruction up to the bytecode loop. Context: signal. */
struct native_evidence {
  uintptr_t extension_pc;
  uintptr_t eval_frame; /* lowest known address of the bytecode loop's C frame; 0 = not met */
  uint32_t flags;       /* TICK_EVAL_FOUND | TICK_VECTORCALL | ... | PC_* << TICK_PC_SHIFT */
};
void images_scan(uintptr_t pc, uintptr_t sp, uint64_t *words, size_t capacity, struct native_evidence *out);

#pragma GCC visibility pop

#endif
