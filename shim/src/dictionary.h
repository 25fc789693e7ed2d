/* Code objects and stack nodes: what dictionary.c tells frames.c. */
#ifndef SCALENE_TRACE_DICTIONARY_H
#define SCALENE_TRACE_DICTIONARY_H

#include "shim.h"

#pragma GCC visibility push(hidden)

struct code_facts {
  uint64_t hash;           /* 0 = not a code object */
  int32_t units;           /* length of the bytecode in 2-byte units */
  int32_t first_traceable; /* instructions before it set up the frame */
};

/* Whose addresses are meant: 0 in the program; the watcher reads many processes, and sets it for each. */
extern uint64_t dictionary_salt;

/* Facts about the code object at `code`, of which `object` is a fresh copy of the first code_bytes, and `name` of the
 * first NAME_BYTES of its name where code objects have no version; writes it on first sight. Context: signal. */
struct code_facts dictionary_code(uintptr_t code, const char *object, const char *name);
/* Where that name is. */
uintptr_t dictionary_name_of(const char *object);
/* The same from memory, without looking whether the object is still there; hash 0 = not remembered. */
struct code_facts dictionary_code_remembered(uintptr_t code);

uint64_t dictionary_node_hash(uint64_t parent, uint64_t code, int32_t instruction);
/* Was this node, and so its parents, written by this process? */
bool dictionary_node_known(uint64_t hash);
/* Writes one node. false = lost. */
bool dictionary_node_write(const struct record_node *node);

#pragma GCC visibility pop

#endif
