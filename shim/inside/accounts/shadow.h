/* The followed blocks of pymalloc, while every allocation is recorded: where the block of an address lies is computed,
 * not searched. live.c asks here first. */
#ifndef SCALENE_TRACE_ACCOUNTS_SHADOW_H
#define SCALENE_TRACE_ACCOUNTS_SHADOW_H

#include "inside/accounts/live.h"
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

/* The shadow of 1 MiB of the heap. Two levels of tables lead to it. */
#define SHADOW_CELL_BYTES ((uintptr_t)1 << 20)
#define SHADOW_GRAIN 16
#define SHADOW_CELL_BLOCKS (SHADOW_CELL_BYTES / SHADOW_GRAIN)
#define SHADOW_CELL_PIECES (SHADOW_CELL_BYTES / PIECE_BYTES)
#define SHADOW_LEAF_CELLS ((uintptr_t)65536)
#define SHADOW_LEAVES                                                                                                  \
  ((uintptr_t)1 << (ARCH_ADDRESS_BITS - 36)) /* with SHADOW_LEAF_CELLS, for the whole address space */
struct shadow_cell {
  struct shadow_block block[SHADOW_CELL_BLOCKS];
  _Atomic uint64_t type[SHADOW_CELL_BLOCKS]; /* hash of its name */
  _Atomic uint8_t piece[SHADOW_CELL_PIECES]; /* 1 = something in it was followed */
};
/* Addresses of leaves, which hold those of cells. */
extern _Atomic uintptr_t shadow_root[SHADOW_LEAVES];
static inline struct shadow_cell *shadow_cell_of(uintptr_t address) {
  uintptr_t number = address / SHADOW_CELL_BYTES;
  if (unlikely(number / SHADOW_LEAF_CELLS >= SHADOW_LEAVES)) return NULL;
  const _Atomic uintptr_t *leaf =
      (void *)atomic_load_explicit(&shadow_root[number / SHADOW_LEAF_CELLS], memory_order_acquire);
  return leaf ? (void *)atomic_load_explicit(&leaf[number % SHADOW_LEAF_CELLS], memory_order_acquire) : NULL;
}
/* Makes the cell of that number; null = no memory is available. Context: malloc. */
struct shadow_cell *shadow_make_cell(uintptr_t number);

/* Returns the place of the block at this address; null = there is none. Context: malloc. */
static inline struct shadow_block *shadow_of(uintptr_t address) {
  struct shadow_cell *cell = shadow_cell_of(address);
  return cell && address % SHADOW_GRAIN == 0 ? &cell->block[address % SHADOW_CELL_BYTES / SHADOW_GRAIN] : NULL;
}
/* The same, and makes it. `new_piece`: nothing in its piece of 16 KiB was followed before, since shadow_forget.
 * Context: malloc. */
static inline struct shadow_block *shadow_make(uintptr_t address, bool *new_piece) {
  struct shadow_cell *cell = shadow_cell_of(address);
  if (unlikely(!cell)) cell = shadow_make_cell(address / SHADOW_CELL_BYTES);
  if (!cell || address % SHADOW_GRAIN) return NULL;
  _Atomic uint8_t *piece = &cell->piece[address % SHADOW_CELL_BYTES / PIECE_BYTES];
  *new_piece = unlikely(!atomic_load_explicit(piece, memory_order_relaxed)) && !atomic_exchange(piece, 1);
  return &cell->block[address % SHADOW_CELL_BYTES / SHADOW_GRAIN];
}
/* Returns the place of the hash of its type. Context: malloc. */
static inline _Atomic uint64_t *shadow_type(uintptr_t address) {
  struct shadow_cell *cell = shadow_cell_of(address);
  return cell ? &cell->type[address % SHADOW_CELL_BYTES / SHADOW_GRAIN] : NULL;
}
/* Calls `each` for every piece in [start, end) that something was followed in, and forgets that. Context: malloc. */
void shadow_forget(uintptr_t start, uintptr_t end, void (*each)(uintptr_t piece));
/* No block is followed: they are the parent's. Context: malloc. */
void shadow_postfork_child(void);
/* Gives its memory back. Nobody uses it any more, until it is made anew. Context: normal. */
void shadow_release(void);

#pragma GCC visibility pop

#endif
