/* What the native stack of a thread says about its work: which code it runs, and what the bytecode loop has called. */
#ifndef SCALENE_TRACE_NATIVE_EVIDENCE_H
#define SCALENE_TRACE_NATIVE_EVIDENCE_H

#include "shared/base.h"
#include "shared/stacks/scratch.h"

#pragma GCC visibility push(hidden)

struct native_evidence {
  uint64_t chain;         /* hash of the innermost native record; 0 = in the bytecode loop, or not taken */
  uintptr_t extension_pc; /* of a scan: innermost return address in an extension; 0 = none */
  uintptr_t eval_frame;   /* lowest known address of the bytecode loop's C frame; 0 = not found */
  uint32_t flags;         /* TICK_EVAL_FOUND | TICK_VECTORCALL | ... | PC_* << TICK_PC_SHIFT */
};
/* Unwinds the interrupted thread from the context of a signal handler up to the bytecode loop, and writes the functions on
 * the way to the spool. Where that does not lead to a loop or to the thread's start, it scans the stack instead.
 * Context: signal. */
void evidence_take(const void *context, struct scratch *scratch, struct native_evidence *out);
/* Unwinds the calling thread up to the bytecode loop, and writes the functions on the way to the spool. Returns the hash of
 * the innermost record that is not the shim's; 0 = unknown. Context: signal. */
uint64_t evidence_of_caller(struct scratch *scratch);
/* Scans the words of the stack from `sp` on. Every word that points after a call instruction counts, also one that an
 * earlier call left. `pc` is the interrupted instruction, 0 = none. Context: signal. */
void evidence_scan(uintptr_t pc, uintptr_t sp, struct scratch *scratch, struct native_evidence *out);

#pragma GCC visibility pop

#endif
