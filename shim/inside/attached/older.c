/* Memory that the process had before it was attached to: the pools of pymalloc, and what malloc has given out. */
#include <dlfcn.h>
#include <malloc.h>

#include "inside/attached/attached.h"
#include "inside/memory/pyalloc.h"
#include "inside/python/python.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/objects/pools.h"
#include "shared/saferead.h"

/* How pymalloc keeps its arenas (struct _obmalloc_mgmt and struct arena_object), the same from 3.12 on. */
struct management {
  uintptr_t arenas; /* the table */
  uint32_t room;    /* entries that it has: 16, doubled again and again */
  uint32_t padding;
  uintptr_t unused, usable;
  uintptr_t by_free_pools[ARENA_BYTES / POOL_BYTES + 1];
  uint64_t allocated; /* entries with an arena */
};
struct arena_object {
  uintptr_t address;
  uintptr_t next_pool;
  uint32_t free_pools, pools;
  uintptr_t freed_pools, next, previous;
};
_Static_assert(sizeof(struct arena_object) == 48, "as in CPython");
#define FIRST_ROOM 16

static bool is_room(uint32_t room) { return room >= FIRST_ROOM && room <= MOST_ARENAS && (room & (room - 1)) == 0; }

static bool read_arena(const struct management *table, uint32_t index, struct arena_object *out) {
  if (index >= table->room) return false;
  return safe_read(out, (const struct arena_object *)table->arenas + index, sizeof *out);
}

/* True if the table has the arena that the header of the block's pool names, and the block lies in it. */
static bool holds(const struct management *table, uintptr_t block) {
  uintptr_t pool = block & ~(uintptr_t)(POOL_BYTES - 1);
  struct arena_object arena;
  uint32_t index;
  if (!safe_read(&index, (const void *)(pool + POOL_ARENA), sizeof index) || !read_arena(table, index, &arena))
    return false;
  return arena.address && pool >= arena.address && pool - arena.address < ARENA_BYTES;
}

static uint32_t count_arenas(const struct management *table) {
  struct arena_object arena;
  uint32_t count = 0;
  for (uint32_t i = 0; i < table->room; i++) {
    if (!read_arena(table, i, &arena)) return UINT32_MAX;
    count += arena.address != 0;
  }
  return count;
}

#define PROBES 4

static bool is_it(const struct management *table, const uintptr_t *blocks) {
  if (!is_room(table->room) || table->padding || table->arenas < 65536 || table->arenas % 8) return false;
  if (!table->allocated || table->allocated > table->room) return false;
  for (int i = 0; i < PROBES; i++) {
    if (!holds(table, blocks[i])) return false;
  }
  return count_arenas(table) == table->allocated;
}

static const struct management *find_table(const uintptr_t *blocks) {
  uintptr_t at = python_symbols.data.start, end = python_symbols.data.end;
  for (; at + sizeof(struct management) <= end; at += sizeof(uintptr_t)) {
    if (is_it((const struct management *)at, blocks)) return (const struct management *)at;
  }
  return NULL;
}

static bool note_table(const uintptr_t *blocks) {
  const struct management *table = find_table(blocks);
  struct arena_object arena;
  if (!table) return false;
  for (uint32_t i = 0; i < table->room; i++) {
    if (read_arena(table, i, &arena) && arena.address) pyalloc_older_arena(arena.address);
  }
  return true;
}

/* Blocks that pymalloc has just given prove what is found. */
bool older_arenas(void) {
  void *(*allocate)(size_t) = python_symbol("PyObject_Malloc");
  void (*release)(void *) = python_symbol("PyObject_Free");
  uintptr_t blocks[PROBES];
  if (!allocate || !release) return false;
  for (int i = 0; i < PROBES; i++) blocks[i] = (uintptr_t)allocate((size_t)16 << i);
  bool is_found = python_layout->version < 0x30c ? arena_tree_note(blocks, PROBES) : note_table(blocks);
  for (int i = 0; i < PROBES; i++) release((void *)blocks[i]);
  return is_found;
}

/* libc takes the locks of its arenas, so the calling thread must not have been interrupted inside malloc. */
int64_t older_native_bytes(void) {
  struct sizes { /* struct mallinfo2, which glibc has from 2.33 on */
    size_t arena, free_chunks, small_blocks, mappings, mapped, unused, small_free, used, free, top;
  } (*sizes)(void) = (struct sizes (*)(void))dlsym(RTLD_DEFAULT, "mallinfo2");
  if (!sizes) {
    loss_add(LOSS_attached_native_unknown);
    return 0;
  }
  struct sizes now = sizes();
  return (int64_t)(now.used + now.mapped);
}
