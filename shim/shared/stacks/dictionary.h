/* Code objects and stack nodes, each written to the spool on first sight. */
#ifndef SCALENE_TRACE_STACKS_DICTIONARY_H
#define SCALENE_TRACE_STACKS_DICTIONARY_H

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/stacks/target.h"

#pragma GCC visibility push(hidden)

struct code_facts {
  uint64_t hash;           /* 0 = not a code object */
  int32_t units;           /* length of the bytecode in 2-byte units */
  int32_t first_traceable; /* instructions before it set up the frame */
};

/* Facts about the code object at `code`, of which `object` is a fresh copy of the first code_bytes, and `name` of the
 * first NAME_BYTES of its name where code objects have no version; writes it on first sight. Context: signal. */
struct code_facts dictionary_code(const struct stack_target *target, uintptr_t code, const char *object,
                                  const char *name);
/* Where that name is. Context: signal. */
uintptr_t dictionary_name_of(const struct stack_target *target, const char *object);
/* The same from memory, without looking whether the object is still there; hash 0 = not remembered. Context: signal. */
struct code_facts dictionary_code_remembered(const struct stack_target *target, uintptr_t code);

/* Context: signal. */
uint64_t dictionary_node_hash(uint64_t parent, uint64_t code, int32_t instruction);
/* Was this node, and so its parents, written by this process? Context: signal. */
bool dictionary_node_known(uint64_t hash);
/* Writes one node. false = lost. Context: signal. */
bool dictionary_node_write(const struct record_node *node);

#pragma GCC visibility pop

#endif
