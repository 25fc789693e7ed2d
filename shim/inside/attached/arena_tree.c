/* How CPython 3.10 and 3.11 know arenas: by a tree of three levels, whose root is a variable that no symbol leads to. Each leaf
 * stands for one aligned piece of ARENA_BYTES, of which an arena may cover the end, and another one the beginning. */
#include "inside/attached/attached.h"
#include "inside/memory/pyalloc.h"
#include "inside/python/python.h"
#include "shared/base.h"
#include "shared/objects/pools.h"
#include "shared/saferead.h"

/* 3.10 leaves the highest 16 bits of an address out. */
struct shape {
  int top_shift, mid_shift;
  uintptr_t nodes; /* of the root, and of each node of the second level */
  uintptr_t leaves;
};
static const struct shape shapes[] = {{38, 28, 1 << 10, 1 << 8}, {49, 34, 1 << 15, 1 << 14}};
struct leaf {
  int32_t begins;    /* offset of the arena that covers the end of the piece, -1 = all of it; 0 = none does */
  int32_t ends_with; /* offset of the end of the arena that covers its beginning; 0 = none does */
};
#define SMALLEST_PAGE 4096

static size_t top_of(const struct shape *shape, uintptr_t address) {
  return address >> shape->top_shift & (shape->nodes - 1);
}
static size_t mid_of(const struct shape *shape, uintptr_t address) {
  return address >> shape->mid_shift & (shape->nodes - 1);
}
static size_t leaf_of(const struct shape *shape, uintptr_t address) {
  return address / ARENA_BYTES & (shape->leaves - 1);
}

static bool is_offset(int32_t offset) {
  return offset >= 0 && offset < (int32_t)ARENA_BYTES && offset % SMALLEST_PAGE == 0;
}

static bool is_leaf(const struct leaf *leaf) {
  return (leaf->begins == -1 || is_offset(leaf->begins)) && is_offset(leaf->ends_with);
}

static bool contains(const struct shape *shape, uintptr_t mid, uintptr_t block) {
  uintptr_t leaves;
  struct leaf leaf;
  int32_t offset = (int32_t)(block % ARENA_BYTES);
  if (!safe_read(&leaves, (const uintptr_t *)mid + mid_of(shape, block), sizeof leaves) || !leaves || leaves % 8)
    return false;
  if (!safe_read(&leaf, (const struct leaf *)leaves + leaf_of(shape, block), sizeof leaf) || !is_leaf(&leaf))
    return false;
  return offset < leaf.ends_with || (offset >= leaf.begins && leaf.begins != 0);
}

static bool contains_all(const struct shape *shape, const uintptr_t *root, const uintptr_t *blocks, int count) {
  for (int i = 0; i < count; i++) {
    uintptr_t mid = root[top_of(shape, blocks[i])];
    if (!mid || mid % 16 || !contains(shape, mid, blocks[i])) return false;
  }
  return true;
}

/* ---- each arena of the tree ---- */

/* The header of an arena's first pool is written when the arena is made. */
static bool has_pool(uintptr_t arena) {
  uintptr_t pool = (arena + POOL_BYTES - 1) & ~(uintptr_t)(POOL_BYTES - 1);
  uint32_t number, size_class;
  return safe_read(&number, (const void *)(pool + POOL_ARENA), sizeof number) &&
         safe_read(&size_class, (const void *)(pool + POOL_SIZE_CLASS), sizeof size_class) && number < MOST_ARENAS &&
         size_class < 32;
}

struct walk {
  const struct shape *shape;
  bool notes;           /* the arenas are noted; else it is only seen whether that is such a tree */
  int32_t begun_before; /* offset of the arena that begins in the piece before, and ends in this one */
};

static bool walk_leaf(struct walk *walk, const struct leaf *leaf, uintptr_t piece) {
  if (!is_leaf(leaf) || leaf->ends_with != walk->begun_before) return false;
  walk->begun_before = leaf->begins > 0 ? leaf->begins : 0;
  uintptr_t arena = piece + (uintptr_t)walk->begun_before;
  if (!leaf->begins) return true;
  if (walk->notes) pyalloc_older_arena(arena);
  return walk->notes || has_pool(arena);
}

#define AT_ONCE 256

static bool walk_leaves(struct walk *walk, uintptr_t leaves, uintptr_t base) {
  struct leaf leaf[AT_ONCE];
  for (uintptr_t i = 0; i < walk->shape->leaves; i++) {
    if (i % AT_ONCE == 0 && !safe_read(leaf, (const struct leaf *)leaves + i, sizeof leaf)) return false;
    if (!walk_leaf(walk, &leaf[i % AT_ONCE], base + i * ARENA_BYTES)) return false;
  }
  return true;
}

static bool walk_mid(struct walk *walk, uintptr_t mid, uintptr_t base) {
  uintptr_t leaves[AT_ONCE];
  for (uintptr_t i = 0; i < walk->shape->nodes; i++) {
    if (i % AT_ONCE == 0 && !safe_read(leaves, (const uintptr_t *)mid + i, sizeof leaves)) return false;
    uintptr_t at = base + (i << walk->shape->mid_shift), there = leaves[i % AT_ONCE];
    if (there ? !walk_leaves(walk, there, at) : walk->begun_before != 0) return false;
  }
  return true;
}

static bool walk_tree(const struct shape *shape, const uintptr_t *root, bool notes) {
  struct walk walk = {.shape = shape, .notes = notes};
  for (uintptr_t i = 0; i < shape->nodes; i++) {
    if (root[i] ? !walk_mid(&walk, root[i], i << shape->top_shift) : walk.begun_before != 0) return false;
  }
  return true;
}

/* The nodes are blocks of malloc, so pointers into the interpreter's own data lead to none. Numbers and pointers of other data
 * may look like a node at one place, so all of the tree is checked. */
static bool note_tree(const struct shape *shape, const uintptr_t *blocks, int count) {
  uintptr_t start = python_symbols.data.start, end = python_symbols.data.end;
  for (uintptr_t at = start; at + shape->nodes * sizeof(uintptr_t) <= end; at += sizeof(uintptr_t)) {
    const uintptr_t *root = (const uintptr_t *)at;
    uintptr_t mid = root[top_of(shape, blocks[0])];
    if (mid < 65536 || mid % 16 || mid - start < end - start) continue;
    if (contains_all(shape, root, blocks, count) && walk_tree(shape, root, false)) return walk_tree(shape, root, true);
  }
  return false;
}

bool arena_tree_note(const uintptr_t *blocks, int count) {
  return note_tree(&shapes[0], blocks, count) || note_tree(&shapes[1], blocks, count);
}
