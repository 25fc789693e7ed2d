/* What every free asks: is this block followed, and is it of a pool? Written by live.c, but for which pieces are pools'
 * (pyalloc.c). */
#ifndef SCALENE_TRACE_MEMORY_LIVE_H
#define SCALENE_TRACE_MEMORY_LIVE_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* ---- live.c: the allocations that are followed ---- */

struct live_sample {
  uint64_t id;
  uint64_t usable;
  int64_t interval; /* 0 = not sampled, followed because of a maximum */
  uint64_t type;    /* hash of its type's name; 0 = not known */
  bool python;      /* may hold an object; others may hold what was left of one */
};
#define LIVE_FILTER_CELLS ((size_t)1 << 18)
#define LIVE_FILTER_CELL(address) (((uintptr_t)(address) >> 6) & (LIVE_FILTER_CELLS - 1))
extern _Atomic uint8_t live_filter[LIVE_FILTER_CELLS];
/* May this address be followed? False positives are possible. Context: signal. */
static inline bool live_maybe(const void *block) {
  return unlikely(atomic_load_explicit(&live_filter[LIVE_FILTER_CELL(block)], memory_order_relaxed) != 0);
}
/* Room for `slots` samples, a power of two, or for as many as can be had; false = none. Context: normal. */
bool live_init(size_t slots);
/* False when there is no room near the block's place. Context: malloc. */
bool live_add(uintptr_t address, const struct live_sample *sample);
/* Takes the block out. Context: malloc. */
bool live_take(uintptr_t address, struct live_sample *out);
/* Is that sample of the block followed? It may go at any moment. Context: malloc. */
bool live_find(uintptr_t address, uint64_t id, uint64_t *usable);
bool live_set_type(uintptr_t address, uint64_t id, uint64_t type);
bool live_is_crowded(void);
/* Takes out those that are not to be kept. By one thread at a time. Context: malloc. */
void live_thin(bool (*keep)(struct live_sample *sample));
void live_postfork_child(void);

/* ---- what is known of pieces of the address space, as large as pymalloc's pools ----
 *
 * A cache: the word of a piece tells its kind and which piece it is of, those that are equal modulo LIVE_PIECES. The
 * one who asks about a block has it, so that its piece stays what it is meanwhile; what changes a piece makes it
 * unknown. */

#define PIECE_BYTES 16384u
#define LIVE_PIECES 65536u
/* Quiet: a pool in which nothing is followed. Watched: a pool in which something may be. Outside: no pool's. Any other
 * value: unknown. */
enum { PIECE_QUIET = 1u << 30, PIECE_WATCHED = 2u << 30, PIECE_OUTSIDE = 3u << 30 };
extern _Atomic uint32_t live_pieces[LIVE_PIECES];
static inline _Atomic uint32_t *live_piece_at(uintptr_t address) {
  return &live_pieces[address / PIECE_BYTES % LIVE_PIECES];
}
static inline uint32_t live_piece_name(uintptr_t address) {
  return (uint32_t)(address / ((uintptr_t)PIECE_BYTES * LIVE_PIECES));
}
/* What the piece is that the block lies in. Context: signal. */
static inline uint32_t live_piece(const void *block) {
  uint32_t word = atomic_load_explicit(live_piece_at((uintptr_t)block), memory_order_relaxed);
  return word ^ live_piece_name((uintptr_t)block);
}
static inline bool live_piece_known(uint32_t piece) { return piece && !(piece << 2); }
/* Notes what the piece around the block is, a pool or not, and returns that. Context: malloc. */
uint32_t live_note_piece(const void *block, bool pool);
/* They may be something else from now on. Context: malloc. */
void live_forget_pieces(uintptr_t start, uintptr_t end);

#pragma GCC visibility pop

#endif
