/* The native stack of a thread: the functions from an instruction outwards, by the unwind tables of the images. */
#ifndef SCALENE_TRACE_SHARED_EVIDENCE_UNWIND_H
#define SCALENE_TRACE_SHARED_EVIDENCE_UNWIND_H

#include "shared/base.h"
#include "shared/native/frame_program.h"
#include "shared/native/frame_step.h"

#pragma GCC visibility push(hidden)

/* Of a deeper stack, the innermost and the outermost frames are kept. */
#define NATIVE_FRAMES 96
#define INNER_FRAMES 64
#define NATIVE_AFTER_GAP 1 /* frames between it and the one before are missing, or may be (found by a search) */
#define NATIVE_EXACT 2     /* the interrupted instruction of a thread or of a signal frame; else a return address */
#define NATIVE_NO_RULE 4   /* without unwind tables (JIT code, assembly), or its rule led nowhere */
struct native_frame {
  uintptr_t pc;
  uintptr_t function; /* where the function starts; 0 = unknown */
  uint8_t pc_class;   /* PC_* of its image */
  uint8_t flags;      /* NATIVE_* */
};

enum unwind_end {
  UNWIND_EVAL,      /* the last frame is the bytecode loop's */
  UNWIND_OUTERMOST, /* the last frame has no caller */
  UNWIND_FULL,      /* the stack is deeper than the limit */
  UNWIND_LOST,      /* the caller of the last frame is unknown: the stack is incomplete */
};

/* A result, with the working memory for it. It is too large for the stack of a handler. */
struct native_stack {
  int count;
  int gaps;     /* number of frames that were found by a search */
  int skipped;  /* frames that were left out before frame[INNER_FRAMES], which has NATIVE_AFTER_GAP then */
  int searched; /* words of the stack that were searched for return addresses */
  enum unwind_end end;
  uintptr_t last_sp; /* stack pointer of the last frame: the lowest known address of its C frame */
  struct native_frame frame[NATIVE_FRAMES];
  struct stack_window window;
};

/* Finds where stacks of makecontext end. Context: normal. */
void unwind_init(void);
/* Takes the registers of an interrupted thread from the context of a signal handler. Context: signal. */
void unwind_registers_of(const void *context, struct unwind_registers *out);
/* Takes the registers of the calling function. Context: signal. */
static ALWAYS_INLINE void unwind_registers_here(struct unwind_registers *out) {
  arch_registers_here(out->value);
  out->known = BIT(DWARF_PC) | BIT(DWARF_STACK) | BIT(DWARF_FRAME) | BIT(DWARF_EXTRA);
}
/* Unwinds from the instruction that the registers name to the bytecode loop; out->window must have begun. Without
 * process_vm_readv it finds no frame, since any address in a stack or a table may be wrong. Context: signal. */
void unwind_from(const struct unwind_registers *from, struct native_stack *out);
/* The same, and stores the registers of the last frame. */
void unwind_to_registers(const struct unwind_registers *from, struct native_stack *out, struct unwind_registers *last);

#pragma GCC visibility pop

#endif
