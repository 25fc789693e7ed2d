/* Where pymalloc's small objects lie: in pools of one size class each, which lie in arenas of 1 MiB. The shim keeps a table
 * of the arenas in the memory of the program, and the watcher reads it. */
#ifndef SCALENE_TRACE_OBJECTS_POOLS_H
#define SCALENE_TRACE_OBJECTS_POOLS_H

#include "shared/base.h"

#define ARENA_BYTES (1u << 20)
#define POOL_BYTES 16384u
#define POOL_USED 0   /* offset of the uint32 number of its blocks in use in the header of a pool */
#define POOL_ARENA 32 /* offset of the uint32 index of its arena in the table that pymalloc keeps of them */
#define POOL_SIZE_CLASS                                                                                                \
  36 /* offset of the uint32 size class in the header of a pool: blocks have (class + 1) * 16 bytes */
#define POOL_LAST_OFFSET 44  /* of the uint32 offset of its last block */
#define POOL_HEADER_BYTES 48 /* the first block follows */

/* The table: a root of ARENA_LEAVES addresses of leaves (0 = none). A leaf has ARENA_LEAF_CELLS cells, one for each
 * ARENA_BYTES of the address space: 1 + offset of the arena that begins in it; 0 = none begins there. Arenas are as large
 * as cells and disjoint, so at most one begins in a cell. */
#define ARENA_LEAF_CELLS 16384
#define ARENA_LEAVES (1 << (ARCH_ADDRESS_BITS - 34)) /* with ARENA_LEAF_CELLS, for the whole address space */

#endif
