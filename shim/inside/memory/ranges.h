/* The table of the ranges that mappings.c follows, and its lock. */
#ifndef SCALENE_TRACE_MEMORY_RANGES_H
#define SCALENE_TRACE_MEMORY_RANGES_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* A mapped range. Invariant: start < end <= start of the next range. Both are multiples of a page. */
struct range {
  uintptr_t start, end;
  uint64_t id; /* of its sample; 0 = none */
  int64_t interval;
  uint64_t block_bytes; /* bytes of the mapping when it was sampled */
  struct kind {
    bool memory;    /* false = a reservation, or in a group */
    bool shared;    /* MAP_SHARED: the kernel counts its pages with those of files */
    uint16_t group; /* of residency.c; 0 = none */
  } kind;
};

/* Other files read the table, under the lock. */
#define MAX_RANGES 8192
extern struct range ranges[MAX_RANGES];
extern _Atomic size_t range_count;

/* The holder blocks all signals, and is in a section of the seal. False = the lock was not taken. Context: malloc. */
bool ranges_lock(void);
/* The same, without waiting for another thread. Context: signal. */
bool ranges_lock_at_once(void);
void ranges_unlock(void);
/* True if the calling thread has the lock. Context: signal. */
bool ranges_are_locked_here(void);

/* All functions from here on are called with the lock, except those that say otherwise. */

/* Returns the index of the first range that ends after `start`. Context: signal. */
size_t ranges_first_after(uintptr_t start);
/* Returns the group that has the whole of [start, end), 0 = none. Context: signal. */
uint16_t ranges_group_around(uintptr_t start, uintptr_t end);
/* False = some ranges in [start, end) are memory, or in a group, and others are not. Context: signal. */
bool ranges_are_of_a_kind(uintptr_t start, uintptr_t end);
/* Adds a range. `before`: bytes of memory that it had as another mapping. Context: malloc. */
void ranges_enter(uintptr_t start, uintptr_t end, size_t size, struct kind kind, uint16_t source, size_t before);
/* Takes [start, end) out of the table. Returns the number of parts; stores the last one in `last`. Context: malloc. */
int ranges_cut(uintptr_t start, uintptr_t end, uint32_t flags, struct range *last);
/* Returns the bytes of memory that ranges_cut has taken out with FREE_RESIZED since the last call of this function.
 * Context: malloc. */
size_t ranges_resized_bytes(void);
/* Returns the bytes of the ranges that are memory, or of the others. Needs no lock. Context: signal. */
int64_t ranges_bytes(bool memory);
/* Bytes of shared mappings among what counts as memory. Without the lock. Context: signal. */
int64_t ranges_shared_bytes(void);
/* Rounds up to a multiple of a page, and tells whether the bytes are a range that a mapping can have. They need no lock.
 * Context: signal. */
uintptr_t ranges_round_up(size_t bytes);
bool ranges_are_possible(uintptr_t start, size_t bytes);
/* Forgets samples, which are the parent's. False = another thread of the parent was changing the table, so it was emptied.
 * Needs no lock. Context: malloc. */
bool ranges_postfork_child(void);

#pragma GCC visibility pop

#endif
