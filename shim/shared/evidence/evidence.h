/* What the native stack of a thread says about its work: which code it runs, and what the bytecode loop has called. */
#ifndef SCALENE_TRACE_SHARED_EVIDENCE_EVIDENCE_H
#define SCALENE_TRACE_SHARED_EVIDENCE_EVIDENCE_H

#include "shared/base.h"
#include "shared/evidence/unwind.h"
#include "shared/stacks/scratch.h"

#pragma GCC visibility push(hidden)

struct native_evidence {
  uint64_t chain;         /* hash of the innermost native record; 0 = in the bytecode loop, or not taken */
  uintptr_t extension_pc; /* of a scan: innermost return address in an extension; 0 = none */
  uintptr_t eval_frame;   /* lowest known address of the bytecode loop's C frame; 0 = not found */
  uint32_t flags;         /* TICK_EVAL_FOUND | TICK_VECTORCALL | ... | PC_* << TICK_PC_SHIFT */
};
/* Derives the evidence from the stack that unwind_from has found with these registers, and writes its functions to the spool
 * as `thread`'s. Where it does not lead to a loop or to the thread's start, it scans the stack instead; `stack` may lie in
 * the scratch. Context: signal. */
void evidence_of(const struct unwind_registers *registers, const struct native_stack *stack, uint32_t thread,
                 struct scratch *scratch, struct native_evidence *out);
/* Scans the words of the stack from `sp` on. Every word that points after a call instruction counts, also one that an
 * earlier call left. `pc` is the interrupted instruction, 0 = none. Context: signal. */
void evidence_scan(uintptr_t pc, uintptr_t sp, struct scratch *scratch, struct native_evidence *out);

#pragma GCC visibility pop

#endif
