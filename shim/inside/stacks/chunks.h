/* The chunks of a thread's frame stack (CPython 3.11 and later). They are linked to the thread state and stay mapped as
 * long as it exists, so frames inside are read plainly. */
#ifndef SCALENE_TRACE_STACKS_CHUNKS_H
#define SCALENE_TRACE_STACKS_CHUNKS_H

#include "shared/base.h"
#include "shared/stacks/pylayout.h"
#include "shared/words.h"

#define MAX_CHUNKS 16

struct chunk {
  uintptr_t start, bytes;
};

static inline struct chunk chunk_at(uintptr_t address) {
  return address ? (struct chunk){address, word_at((void *)address, 8)} : (struct chunk){0, 0};
}

/* Returns the newest chunk of the thread; none if its frames are objects. Context: signal. */
static inline struct chunk chunk_newest(const struct python_layout *layout, const char *state) {
  return chunk_at(layout->tstate_chunk >= 0 ? word_at(state, layout->tstate_chunk) : 0);
}

static inline bool chunk_contains(const struct chunk *chunk, uintptr_t address) {
  return address - chunk->start + 128 <= chunk->bytes && address >= chunk->start;
}

/* Moves the cursor outwards to the chunk that holds the frame. False = no chunk does: it is a generator's frame.
 * Context: signal. */
static inline bool chunk_find(struct chunk *cursor, uintptr_t address) {
  struct chunk chunk = *cursor;
  for (int i = 0; chunk.start && i < MAX_CHUNKS; i++) {
    if (chunk_contains(&chunk, address)) {
      *cursor = chunk;
      return true;
    }
    chunk = chunk_at(word_at((void *)chunk.start, 0));
  }
  return false;
}

#endif
