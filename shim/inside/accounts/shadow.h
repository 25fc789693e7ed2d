/* The followed blocks of pymalloc, while every allocation is recorded: where the block of an address lies is computed,
 * not searched. live.c asks here first. */
#ifndef SCALENE_TRACE_ACCOUNTS_SHADOW_H
#define SCALENE_TRACE_ACCOUNTS_SHADOW_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* What is known of a block. */
struct shadow_block {
  _Atomic uint64_t id; /* of its sample, with its bytes and SHADOW_TYPED; 0 = not followed */
  _Atomic uint64_t stack;
};
#define SHADOW_TYPED ((uint64_t)1 << 63) /* shadow_type holds its type */
#define SHADOW_CLASS_SHIFT 57            /* 6 bits: its bytes / 16 */
#define SHADOW_ID (((uint64_t)1 << SHADOW_CLASS_SHIFT) - 1)
#define SHADOW_MOST_BYTES (63 * 16)

/* Returns the place of the block at this address; null = there is none. Context: malloc. */
struct shadow_block *shadow_of(uintptr_t address);
/* The same, and makes it. `new_piece`: nothing in its piece of 16 KiB was followed before, since shadow_forget.
 * Context: malloc. */
struct shadow_block *shadow_make(uintptr_t address, bool *new_piece);
/* Returns the place of the hash of its type. Context: malloc. */
_Atomic uint64_t *shadow_type(uintptr_t address);
/* Calls `each` for every piece in [start, end) that something was followed in, and forgets that. Context: malloc. */
void shadow_forget(uintptr_t start, uintptr_t end, void (*each)(uintptr_t piece));
/* No block is followed: they are the parent's. Context: malloc. */
void shadow_postfork_child(void);
/* Gives its memory back. Nobody uses it any more, until it is made anew. Context: normal. */
void shadow_release(void);

#pragma GCC visibility pop

#endif
