/* The loaded images (executable and libraries), and the evidence that the native stack of a thread gives about its
 * work. */
#ifndef SCALENE_TRACE_STACKS_IMAGES_H
#define SCALENE_TRACE_STACKS_IMAGES_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

struct image {
  uintptr_t start, end;              /* of an executable segment */
  uintptr_t bias;                    /* load bias: ELF virtual address = address - bias */
  uintptr_t tables;                  /* .eh_frame_hdr, which leads to the unwind tables; 0 = there is none */
  uintptr_t tables_low, tables_high; /* the segment that contains it, as far as the file goes */
  uint32_t pc_class;                 /* PC_* */
  bool stays;                        /* loaded when the process started, so it is never unmapped */
};
/* Reads the list of loaded libraries for the first time. Context: normal. */
void images_init(void);
/* Reads the list again if libraries were loaded or closed. Costs only a few reads of memory otherwise.
 * Context: signal. */
void images_refresh(void);
/* Ends a refresh and calls of dlclose that another thread of the parent had begun. Context: signal. */
void images_postfork_child(void);
/* Returns the executable segment that contains `address`; null = none. The result stays valid for three more reads of
 * the list. Context: signal. */
const struct image *images_find(uintptr_t address);
/* Returns the number of the list's current state, from 1. It changes with each read of the list. Context: signal. */
uint64_t images_generation(void);
/* True if the instruction before `address`, which lies in `image`, is a call. Context: signal. */
bool images_follows_call(uintptr_t address, const struct image *image);
/* The same for code outside of all images. Context: signal. */
bool images_follows_call_elsewhere(uintptr_t address);
/* Returns how many calls of dlclose have ended, or UINT32_MAX while one is in progress. Context: signal. */
uint32_t images_closed_count(void);
/* The evidence on the native stack, from the interrupted instruction outwards to the bytecode loop. */
struct native_evidence {
  uintptr_t extension_pc; /* innermost return address in an extension; 0 = none */
  uintptr_t eval_frame;   /* lowest known address of the bytecode loop's C frame; 0 = not found */
  uintptr_t inner;        /* the address of the interpreter that was found last; 0 = none */
  uint32_t flags;         /* TICK_EVAL_FOUND | TICK_VECTORCALL | ... | PC_* << TICK_PC_SHIFT */
};
/* Scans up to `capacity` words of the stack from `sp` on, copied into `words`, and stores the evidence. `pc` is the
 * interrupted instruction. Context: signal. */
void images_scan(uintptr_t pc, uintptr_t sp, uint64_t *words, size_t capacity, struct native_evidence *out);

#pragma GCC visibility pop

#endif
