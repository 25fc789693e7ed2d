/* The instructions of .eh_frame (DWARF's call frame information): how a function's caller is found. */
#ifndef SCALENE_TRACE_SHARED_NATIVE_FRAME_PROGRAM_H
#define SCALENE_TRACE_SHARED_NATIVE_FRAME_PROGRAM_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Values of a base, besides DWARF's numbers of registers (shared/arch). */
#define BASE_CFA DWARF_REGISTERS           /* the canonical frame address: the stack pointer before the call */
#define BASE_SAME (DWARF_REGISTERS + 1)    /* the register is unchanged */
#define BASE_UNKNOWN (DWARF_REGISTERS + 2) /* it is lost; a return address: this frame is the outermost one */

/* The registers that are followed: the frame pointer, one more that the callee saves, and the return address. */
enum followed { FOLLOW_EXTRA, FOLLOW_FRAME, FOLLOW_RETURN, FOLLOWED };

/* Four more registers that the callee saves, from DWARF_FURTHER on: saved at CFA - 8 * n, or one of these. */
#define FURTHER 4
#define FURTHER_SAME 0
#define FURTHER_UNKNOWN 255

#define RULE_DEREF 1  /* the CFA is the word at base + offset, plus `after` */
#define RULE_SIGNAL 2 /* a signal frame: the frame found by it was interrupted, so its address is exact */
#define RULE_CALLED 4 /* the looked-up address follows a call instruction */

/* How to find the caller from one address of a function. */
struct frame_rule {
  uintptr_t start;                /* of the function, as in its FDE */
  int32_t cfa_offset, cfa_after;  /* CFA = base + offset, or with RULE_DEREF *(base + offset) + after */
  int32_t saved_offset[FOLLOWED]; /* the register was saved at saved_base + saved_offset */
  uint8_t saved_base[FOLLOWED];   /* a DWARF register or BASE_* */
  uint8_t cfa_base;               /* a DWARF register */
  uint8_t flags;                  /* RULE_* */
  uint8_t pc_class;               /* PC_* of the image */
  uint8_t cfa_index, cfa_scale;   /* a register and its factor, added before RULE_DEREF; scale 0 = none */
  uint8_t further[FURTHER];       /* FURTHER_*, or n */
};

/* Where the tables of an image lie. */
struct frame_tables {
  uintptr_t low, high; /* the segment with .eh_frame_hdr and .eh_frame */
  bool plain;          /* never unmapped */
};

/* Interprets the FDE at `fde` for the instruction at `pc`. `lookup` is the address that the FDE must contain: pc, or
 * pc - 1 for a return address. False = there is no rule, or one that is not supported. Sets all fields but pc_class.
 * Context: signal. */
bool frame_program_run(const struct frame_tables *tables, uintptr_t fde, uintptr_t pc, uintptr_t lookup,
                       struct frame_rule *out);

#pragma GCC visibility pop

#endif
