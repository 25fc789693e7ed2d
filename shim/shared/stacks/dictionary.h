/* Code objects and stack nodes. Each is written to the spool when it is first seen, so that samples need only its
 * hash. */
#ifndef SCALENE_TRACE_STACKS_DICTIONARY_H
#define SCALENE_TRACE_STACKS_DICTIONARY_H

#include <sys/uio.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/stacks/target.h"

#pragma GCC visibility push(hidden)

struct code_facts {
  uint64_t hash;           /* 0 = not a code object */
  int32_t units;           /* length of the bytecode in 2-byte units */
  int32_t first_traceable; /* index of the first instruction that is not frame set-up; -1 = unknown */
};

/* Returns facts about the code object at `code`, and writes it to the spool if it is new. `object` is a fresh copy of
 * its first code_bytes; `identity` is a copy of its IDENTITY_PIECES, used only if code objects have no version.
 * Context: signal. */
struct code_facts dictionary_code(const struct stack_target *target, uintptr_t code, const char *object,
                                  const char *identity);
/* Sets the IDENTITY_PIECES of it, IDENTITY_BYTES together: the beginning of its name and of its line table.
 * Context: signal. */
void dictionary_identity(const struct stack_target *target, const char *object, struct iovec *pieces);
/* Returns cached facts about `code` without checking that the object still exists; hash 0 = not cached.
 * Context: signal. */
struct code_facts dictionary_code_remembered(const struct stack_target *target, uintptr_t code);

/* Returns the hash of a node, never 0: `parent` is the hash of the calling frame's node (0 = none), `code` that of the
 * code object, `instruction` an index in 2-byte units. Context: signal. */
uint64_t dictionary_node_hash(uint64_t parent, uint64_t code, int32_t instruction);
/* True if this process has written the node, and therefore its parents. Context: signal. */
bool dictionary_node_known(uint64_t hash);
/* Writes one node. False = it was lost. Context: signal. */
bool dictionary_node_write(const struct record_node *node);
/* Returns the hash of the stack whose innermost node this is, with a label, and writes its node if it is new; 0 = that was
 * lost. Context: signal. */
uint64_t dictionary_labelled(const struct record_node *innermost, uint64_t label);

#pragma GCC visibility pop

#endif
