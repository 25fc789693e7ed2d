/* The table of pymalloc's arenas in this process, which the watcher reads, too (shared/objects/pools.h). */
#ifndef SCALENE_TRACE_ARENAS_ARENAS_H
#define SCALENE_TRACE_ARENAS_ARENAS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Notes an arena of ARENA_BYTES that begins to live, or ends. Without memory for the table, a new one stays unknown.
 * Context: normal. */
void arenas_note(uintptr_t base, bool alive);
/* Unmaps the table; nobody may use it. Context: normal. */
void arenas_release(void);
/* True if the address lies in a living arena. Context: malloc. */
bool arenas_contain(uintptr_t address);
/* Returns the address of the table. Context: signal. */
uintptr_t arenas_table(void);
/* Returns the bytes of the blocks in the pools of all living arenas, as their headers say. If another thread uses pymalloc
 * meanwhile, the sum may be off by what it does. An arena that cannot be read counts nothing. Makes two system calls for
 * each arena, some 5 ms for a GiB, unless reads are refused. Context: signal. */
int64_t arenas_used_bytes(void);

#pragma GCC visibility pop

#endif
