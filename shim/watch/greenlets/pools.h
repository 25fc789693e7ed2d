/* Where the greenlets of a process lie: their C++ objects are made by pymalloc, all of one size, so they are in pools of one
 * size class. Only the watcher's thread calls these functions. */
#ifndef SCALENE_TRACE_WATCH_GREENLETS_POOLS_H
#define SCALENE_TRACE_WATCH_GREENLETS_POOLS_H

#include "shared/base.h"
#include "shared/objects/pools.h"
#include "watch/greenlets/greenlets.h"
#include "watch/reading/remote.h"

#pragma GCC visibility push(hidden)

#define POOL_BLOCKS 128 /* greenlets in one pool, at most */

/* Searches for pools with greenlets: all pools if that is due, else those in which new greenlets are likely. `arenas`:
 * address of the table of the arenas, 0 = unknown. Counts in polls.unread_now if not all memory can be searched. False =
 * there may be some that it has not found. */
bool pools_search(struct greenlets *greenlets, struct kinds *kinds, uintptr_t arenas, int64_t now_ns);
/* Stores the greenlets in the pool with this index, which has POOL_BLOCKS at most, and returns their number. Forgets the
 * pool if it has another size class now: the pools after it then have other indexes. */
int pools_greenlets(struct greenlets *greenlets, int index, uintptr_t *out);
/* True if the last search was the first that has found the pool in which the greenlet lies. */
bool pools_fresh(const struct greenlets *greenlets, uintptr_t state);

#pragma GCC visibility pop

#endif
