/* The native stack of the calling thread, or of one that a signal has interrupted, and what it says. */
#ifndef SCALENE_TRACE_NATIVE_OWN_H
#define SCALENE_TRACE_NATIVE_OWN_H

#include "shared/base.h"
#include "shared/evidence/evidence.h"
#include "shared/evidence/unwind.h"
#include "shared/stacks/scratch.h"

#pragma GCC visibility push(hidden)

/* Unwinds from the instruction that the registers name to the bytecode loop. Without process_vm_readv it finds no
 * frame, since any address in a stack or a table may be wrong. Context: signal. */
void unwind(const struct unwind_registers *from, struct native_stack *out);
/* Unwinds the interrupted thread from the context of a signal handler up to the bytecode loop, and writes the functions on
 * the way to the spool. Where that does not lead to a loop or to the thread's start, it scans the stack instead.
 * Context: signal. */
void evidence_take(const void *context, struct scratch *scratch, struct native_evidence *out);
/* Unwinds the calling thread up to the bytecode loop, and writes the functions on the way to the spool. Returns the hash of
 * the innermost record that is not the shim's; 0 = unknown. Context: signal. */
uint64_t evidence_of_caller(struct scratch *scratch);

#pragma GCC visibility pop

#endif
