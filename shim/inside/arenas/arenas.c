/* A radix tree over the 1 MiB cells of the address space: its root has one leaf for each 16 GiB. */
#include "inside/arenas/arenas.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "shared/base.h"
#include "shared/objects/pools.h"
#include "shared/saferead.h"
#include "shared/sealed/sealed.h"

#define SMALL_CLASSES 32 /* of 16 to 512 bytes */

static _Atomic(_Atomic uint32_t *) root[ARENA_LEAVES];

uintptr_t arenas_table(void) { return (uintptr_t)root; }

static _Atomic uint32_t *leaf_of(uintptr_t cell, bool create) {
  if (cell / ARENA_LEAF_CELLS >= ARENA_LEAVES) return NULL;
  _Atomic uint32_t *leaf = atomic_load_explicit(&root[cell / ARENA_LEAF_CELLS], memory_order_acquire);
  if (likely(leaf != NULL) || !create || sealed()) return leaf;
  size_t bytes = ARENA_LEAF_CELLS * sizeof(uint32_t);
  leaf = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (leaf == MAP_FAILED) return NULL;
  _Atomic uint32_t *other = NULL;
  if (atomic_compare_exchange_strong(&root[cell / ARENA_LEAF_CELLS], &other, leaf)) return leaf;
  munmap(leaf, bytes);
  return other;
}

void arenas_note(uintptr_t base, bool alive) {
  uintptr_t cell = base / ARENA_BYTES;
  _Atomic uint32_t *leaf = leaf_of(cell, alive);
  if (leaf) atomic_store(&leaf[cell % ARENA_LEAF_CELLS], alive ? 1 + (uint32_t)(base % ARENA_BYTES) : 0);
}

void arenas_release(void) {
  for (uintptr_t at = 0; at < ARENA_LEAVES; at++) {
    _Atomic uint32_t *leaf = atomic_exchange(&root[at], NULL);
    if (leaf) munmap(leaf, ARENA_LEAF_CELLS * sizeof(uint32_t));
  }
}

static uint32_t cell_value(uintptr_t cell) {
  if (cell / ARENA_LEAF_CELLS >= ARENA_LEAVES) return 0;
  _Atomic uint32_t *leaf = atomic_load_explicit(&root[cell / ARENA_LEAF_CELLS], memory_order_acquire);
  return leaf ? atomic_load_explicit(&leaf[cell % ARENA_LEAF_CELLS], memory_order_relaxed) : 0;
}

bool arenas_contain(uintptr_t address) {
  uintptr_t cell = address / ARENA_BYTES, offset = address % ARENA_BYTES;
  uint32_t here = cell_value(cell), before = cell_value(cell - 1);
  return (here && offset >= here - 1) || (before && offset < before - 1);
}

struct head {
  char bytes[POOL_SIZE_CLASS + sizeof(uint32_t)];
};

/* The program may have unmapped the arena without a word. A pool that was never used is zero. */
static int64_t used_in_arena(uintptr_t base) {
  enum { POOLS = ARENA_BYTES / POOL_BYTES };
  struct head heads[POOLS];
  struct iovec pieces[POOLS] = {{NULL, 0}};
  int64_t bytes = 0;
  int count = 0;
  uintptr_t pool = (base + POOL_BYTES - 1) & ~(uintptr_t)(POOL_BYTES - 1);
  for (; pool + POOL_BYTES <= base + ARENA_BYTES; pool += POOL_BYTES)
    pieces[count++] = (struct iovec){(void *)pool, sizeof *heads};
  if (!safe_read_all(heads, pieces, count)) return 0;
  for (int i = 0; i < count; i++) {
    uint32_t blocks, size_class;
    memcpy(&blocks, heads[i].bytes + POOL_USED, sizeof blocks);
    memcpy(&size_class, heads[i].bytes + POOL_SIZE_CLASS, sizeof size_class);
    if (size_class < SMALL_CLASSES && blocks <= POOL_BYTES / 16) bytes += (int64_t)blocks * (size_class + 1) * 16;
  }
  return bytes;
}

int64_t arenas_used_bytes(void) {
  int64_t bytes = 0;
  for (uintptr_t at = 0; at < ARENA_LEAVES; at++) {
    _Atomic uint32_t *leaf = atomic_load_explicit(&root[at], memory_order_acquire);
    for (uintptr_t i = 0; leaf && i < ARENA_LEAF_CELLS; i++) {
      uint32_t value = atomic_load_explicit(&leaf[i], memory_order_relaxed);
      if (value) bytes += used_in_arena((at * ARENA_LEAF_CELLS + i) * ARENA_BYTES + value - 1);
    }
  }
  return bytes;
}
