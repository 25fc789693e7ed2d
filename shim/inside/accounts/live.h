/* The followed blocks: sampled allocations that are still alive. Each free asks here whether its block is followed, and
 * whether it lies in a pool of pymalloc. live.c implements all of it; pyalloc.c knows which pieces are pools. */
#ifndef SCALENE_TRACE_ACCOUNTS_LIVE_H
#define SCALENE_TRACE_ACCOUNTS_LIVE_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* ---- the followed blocks ---- */

struct live_sample {
  uint64_t id;
  uint64_t usable;  /* bytes of the block */
  int64_t interval; /* mean interval of the sample in bytes; 0 = not sampled, followed because of a maximum */
  uint64_t type;    /* hash of the name of the object's type; 0 = unknown */
  uint64_t stack;   /* that allocated it */
  bool python;      /* the block may hold a Python object; others may only hold remains of one */
  bool pooled;      /* live_add_pooled has begun it */
  uint32_t place;   /* of its alloc record (spool_take_back); 0 = unknown */
};
#define LIVE_FILTER_CELLS ((size_t)1 << 18)
#define LIVE_FILTER_CELL(address) (((uintptr_t)(address) >> 6) & (LIVE_FILTER_CELLS - 1))
extern _Atomic uint8_t live_filter[LIVE_FILTER_CELLS];
/* True if a block at this address may be followed. False positives are possible. Context: signal. */
static inline bool live_maybe(const void *block) {
  return unlikely(atomic_load_explicit(&live_filter[LIVE_FILTER_CELL(block)], memory_order_relaxed) != 0);
}
/* Allocates the first level of the table, which grows until a level has `slots` slots; false = no memory is available.
 * Context: normal. */
bool live_init(size_t slots);
/* Starts to follow a block that the calling thread has just allocated; false = both of its buckets are full.
 * Context: malloc. */
bool live_add(uintptr_t address, const struct live_sample *sample);
/* The same for a block of a pool whose sample has an interval of 1, in the shadow of the heap (shadow.h); false = no memory
 * is available for that, the shadow cannot hold it, or has one at this address. Context: malloc. */
bool live_add_pooled(uintptr_t address, const struct live_sample *sample);
/* True if live_add_pooled has begun a block at this address, and nothing has ended it. Context: malloc. */
bool live_pooled(uintptr_t address);
/* Stops following a block and returns its sample; false = it is not followed. The calling thread is about to free or
 * resize the block. Context: malloc. */
bool live_take(uintptr_t address, struct live_sample *out);
/* True if that sample of the block is followed; stores the bytes of the block. Another thread may free the block at any
 * moment. Context: malloc. */
bool live_find(uintptr_t address, uint64_t id, uint64_t *usable);
/* Stores the type of a followed sample; false = it is no longer followed. Context: malloc. */
bool live_set_type(uintptr_t address, uint64_t id, uint64_t type);
/* Returns the id of the followed block of Python's allocators that begins there and has at least so many bytes; 0 =
 * there is none. No other block of this process ever has this id. Context: malloc. */
uint64_t live_python_block(uintptr_t address, size_t bytes);
/* From now on live_maybe is true for this address, until live_unwatch is called for it, or the child of a fork
 * empties the table. Context: malloc. */
void live_watch(uintptr_t address);
void live_unwatch(uintptr_t address);
/* True if more than half of the slots are taken and the table cannot grow. Context: malloc. */
bool live_is_crowded(void);
/* Calls `keep` for each followed sample, which may change its interval, and removes those that `keep` rejects. Only one
 * thread may run it at a time. Context: malloc. */
void live_thin(bool (*keep)(struct live_sample *sample));
/* Empties the table: the followed blocks are the parent's. Context: malloc. */
void live_postfork_child(void);

/* Unmaps the table; nobody may use it. Context: normal. */
void live_release(void);

/* ---- pieces of the address space, as large as the pools of pymalloc ----
 *
 * A cache of the kind of each piece, indexed modulo LIVE_PIECES. A word of it holds a kind and a tag, which
 * distinguishes the pieces that share an index. The caller owns the block that it asks about, so the piece cannot
 * become something else during the query. Code that changes a piece makes it unknown. */

#define PIECE_BYTES 16384u
#define LIVE_PIECES 65536u
/* Quiet: a pool without followed blocks. Watched: a pool that may have followed blocks. Outside: not a pool. Any other
 * value: unknown. */
enum { PIECE_QUIET = 1u << 30, PIECE_WATCHED = 2u << 30, PIECE_OUTSIDE = 3u << 30 };
extern _Atomic uint32_t live_pieces[LIVE_PIECES];
static inline _Atomic uint32_t *live_piece_at(uintptr_t address) {
  return &live_pieces[address / PIECE_BYTES % LIVE_PIECES];
}
/* Returns the tag of the piece around the address. */
static inline uint32_t live_piece_tag(uintptr_t address) {
  return (uint32_t)(address / ((uintptr_t)PIECE_BYTES * LIVE_PIECES));
}
/* Returns the kind of the piece that contains the block. Context: signal. */
static inline uint32_t live_piece(const void *block) {
  uint32_t word = atomic_load_explicit(live_piece_at((uintptr_t)block), memory_order_relaxed);
  return word ^ live_piece_tag((uintptr_t)block);
}
/* True if live_piece returned a kind; false = unknown. */
static inline bool live_piece_known(uint32_t piece) { return piece && !(piece << 2); }
/* True if the address certainly lies in a pool. Context: malloc. */
static inline bool live_in_pool(uintptr_t address) {
  uint32_t piece = live_piece((const void *)address);
  return live_piece_known(piece) && piece != PIECE_OUTSIDE;
}
/* Stores whether the piece around the block is a pool, and returns its kind. Context: malloc. */
uint32_t live_note_piece(const void *block, bool pool);
/* Makes the pieces of [start, end) unknown, because an arena begins or ends there. False = certainly no block in them is
 * followed. Context: malloc. */
bool live_forget_pieces(uintptr_t start, uintptr_t end);

#pragma GCC visibility pop

#endif
