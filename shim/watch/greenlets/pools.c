/* Searches the pools of pymalloc for greenlets.
 *
 * A search reads the headers of all pools, and of those whose size class fits, the blocks. Until the first greenlet is
 * known, several classes fit. That takes long if the program has much memory, so it is done rarely. The pools in which
 * greenlets were found are read at each poll, and so are those that pymalloc has in its list of pools of this class with
 * free blocks: new greenlets lie in them. Only pools that are filled between two polls are in neither. So a search is made
 * soon if the list has a new pool. */
#include "watch/greenlets/pools.h"

#include <stdlib.h>

#include "shared/base.h"
#include "shared/clock.h"
#include "shared/objects/pools.h"
#include "shared/saferead.h"
#include "shared/words.h"
#include "watch/greenlets/greenlets.h"
#include "watch/reading/remote.h"

#define MOST_ARENAS 1024
#define MOST_SEARCH_NS 50000000 /* CPU time of one search */
#define MOST_ODD 40             /* searches with hubs that are not recognized */
#define MOST_LEAVES 64
#define MOST_POOLS 4096
#define AT_ONCE 256
#define SEARCH_SHARE 800 /* searches may take 1/800 of a core, */
#define SOON_SHARE 200   /* and 1/200 if there are new pools; */
#define FIRST_SHARE 10   /* until a greenlet is known, the first one 1/10, the second one 1/20 and so on */
#define MOST_LISTED 64
#define POOL_FREE 8 /* offsets in the header of a pool: its first free block, and its neighbours in the list */
#define POOL_NEXT 16
#define POOL_PREVIOUS 24
#define LEAST_CLASS 10 /* the C++ objects have 176 bytes on 3.10, 192 on 3.11 to 3.13, and then 208, */
#define MOST_CLASS 13  /* so 224 are allowed */
#define LIBRARY_BYTES ((uintptr_t)1 << 17) /* its variables: the class and the virtual tables */
#define GREENLET_BYTES 40

static uintptr_t arenas[MOST_ARENAS];
static char pool[POOL_BYTES];
static int64_t search_end_ns; /* CPU time at which the search is given up */

/* ---- the arenas ---- */

static int add_leaf(uintptr_t leaf, uintptr_t first_cell, int count) {
  static uint32_t cells[ARENA_LEAF_CELLS];
  if (!safe_read(cells, (void *)leaf, sizeof cells)) return count;
  for (uintptr_t i = 0; i < ARENA_LEAF_CELLS && count <= MOST_ARENAS; i++) {
    if (!cells[i] || cells[i] > ARENA_BYTES) continue;
    if (count < MOST_ARENAS) arenas[count] = (first_cell + i) * ARENA_BYTES + cells[i] - 1;
    count++;
  }
  return count;
}

/* Returns the number of arenas; MOST_ARENAS + 1 = there are more. */
static int read_arenas(uintptr_t table) {
  static uintptr_t root[ARENA_LEAVES];
  int count = 0, leaves = 0;
  if (!table || !safe_read(root, (void *)table, sizeof root)) return 0;
  for (uintptr_t i = 0; i < ARENA_LEAVES && leaves < MOST_LEAVES; i++) {
    if (!root[i]) continue;
    leaves++;
    count = add_leaf(root[i], i * ARENA_LEAF_CELLS, count);
  }
  return count;
}

/* ---- the pools that are known ---- */

/* Returns how many known pools lie before this address. */
static int pools_before(const struct greenlets *greenlets, uintptr_t address) {
  int low = 0, high = greenlets->pool_count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (greenlets->pools[middle] < address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static bool is_known(const struct greenlets *greenlets, uintptr_t address) {
  int at = pools_before(greenlets, address);
  return at < greenlets->pool_count && greenlets->pools[at] == address;
}

static void add_pool(struct greenlets *greenlets, uintptr_t address) {
  if (!greenlets->pools) greenlets->pools = malloc(MOST_POOLS * sizeof *greenlets->pools);
  if (!greenlets->fresh) greenlets->fresh = malloc(MOST_POOLS * sizeof *greenlets->fresh);
  if (!greenlets->pools || !greenlets->fresh || greenlets->pool_count == MOST_POOLS) {
    greenlets->polls.unread_now++;
    return;
  }
  int at = pools_before(greenlets, address);
  size_t left = (size_t)(greenlets->pool_count++ - at);
  memmove(greenlets->pools + at + 1, greenlets->pools + at, left * sizeof *greenlets->pools);
  memmove(greenlets->fresh + at + 1, greenlets->fresh + at, left * sizeof *greenlets->fresh);
  greenlets->pools[at] = address;
  greenlets->fresh[at] = true;
}

static void forget_pool(struct greenlets *greenlets, int at) {
  size_t left = (size_t)(--greenlets->pool_count - at);
  memmove(greenlets->pools + at, greenlets->pools + at + 1, left * sizeof *greenlets->pools);
  memmove(greenlets->fresh + at, greenlets->fresh + at + 1, left * sizeof *greenlets->fresh);
}

bool pools_fresh(const struct greenlets *greenlets, uintptr_t state) {
  int at = pools_before(greenlets, state & ~(uintptr_t)(POOL_BYTES - 1));
  return at < greenlets->pool_count && greenlets->pools[at] == (state & ~(uintptr_t)(POOL_BYTES - 1)) &&
         greenlets->fresh[at];
}

/* ---- the first greenlet ---- */

static bool is_in_library(const struct greenlets *greenlets, uintptr_t address) {
  return !(address & 7) && address + LIBRARY_BYTES - greenlets->base < 2 * LIBRARY_BYTES;
}

/* Returns the type of the object at `address`, if it and its C++ object lead to each other, and stores the virtual table
 * of that. */
static enum greenlet_type greenlet_at(struct greenlets *greenlets, struct kinds *kinds, uintptr_t address,
                                      uintptr_t *table) {
  char bytes[GREENLET_BYTES];
  if (address < 65536 || (address & 7) || !safe_read(bytes, (void *)address, sizeof bytes)) return TYPE_NOT_GREENLET;
  uintptr_t state = word_at(bytes, GREENLET_STATE);
  if (state < 65536 || (state & 7) || remote_word(state + STATE_GREENLET) != address) return TYPE_NOT_GREENLET;
  *table = remote_word(state);
  return greenlets_type(greenlets, kinds, word_at(bytes, OBJECT_TYPE));
}

/* Returns the offset of the parent in the C++ object of a greenlet that has begun; 0 = it is another object. Its last
 * words are its main greenlet (whose C++ object is of another class), what it runs, and its parent. */
static int find_parent(struct greenlets *greenlets, struct kinds *kinds, const char *block, int bytes) {
  uintptr_t table;
  for (int at = greenlets_frame_at() + 8; at + 24 <= bytes; at += 8) {
    if (greenlet_at(greenlets, kinds, word_at(block, at), &table) == TYPE_NOT_GREENLET) continue;
    if (table == word_at(block, 0) || !is_in_library(greenlets, table)) continue;
    if (greenlet_at(greenlets, kinds, word_at(block, at + 16), &table) != TYPE_NOT_GREENLET) return at + 16;
  }
  return 0;
}

/* True if the block is the C++ object of a greenlet that is not the main program of its thread. */
static bool recognize(struct greenlets *greenlets, struct kinds *kinds, const char *block, int bytes) {
  uintptr_t table;
  if (!is_in_library(greenlets, word_at(block, 0)) || clock_thread_cpu_ns() > search_end_ns) return false;
  enum greenlet_type type = greenlet_at(greenlets, kinds, word_at(block, STATE_GREENLET), &table);
  if (type == TYPE_NOT_GREENLET || table != word_at(block, 0)) return false;
  int parent_at = find_parent(greenlets, kinds, block, bytes);
  greenlets->odd += !parent_at && type == TYPE_HUB; /* it has not begun, or this release of greenlet is unknown */
  if (!parent_at) return false;
  greenlets->table = table;
  greenlets->parent_at = parent_at;
  greenlets->size_class = (uint32_t)(bytes / 16 - 1);
  greenlets_note_hub(greenlets, kinds, word_at(block, STATE_GREENLET));
  greenlets_note_hub(greenlets, kinds, word_at(block, parent_at));
  return true;
}

/* ---- the search ---- */

static uint32_t half_word_at(const char *bytes, int offset) {
  uint32_t value;
  memcpy(&value, bytes + offset, sizeof value);
  return value;
}

/* True if the header is one of a pool whose blocks may be greenlets. */
static bool fits(const struct greenlets *greenlets, const char *header) {
  uint32_t size_class = half_word_at(header, POOL_SIZE_CLASS), bytes = (size_class + 1) * 16;
  if (size_class < LEAST_CLASS || size_class > MOST_CLASS) return false;
  if (greenlets->table && size_class != greenlets->size_class) return false;
  return half_word_at(header, POOL_LAST_OFFSET) == POOL_BYTES - bytes && word_at(header, 0);
}

static bool is_pool(uintptr_t address) { return address && address % POOL_BYTES == 0; }

/* Finds the head of pymalloc's list of pools of this class with free blocks, from one of them. The list is circular. Its
 * head is not a pool, but has fields in the same places. */
static void find_list(struct greenlets *greenlets, uintptr_t at) {
  char header[POOL_HEADER_BYTES];
  for (int steps = 0; is_pool(at) && steps < MOST_LISTED && !greenlets->list; steps++) {
    if (!safe_read(header, (void *)at, sizeof header) || !fits(greenlets, header) || !word_at(header, POOL_FREE)) break;
    at = word_at(header, POOL_NEXT);
    if (at && !is_pool(at)) greenlets->list = at;
  }
}

static void search_pool(struct greenlets *greenlets, struct kinds *kinds, uintptr_t address) {
  if (!safe_read(pool, (void *)address, sizeof pool) || !fits(greenlets, pool)) return;
  int bytes = (int)(half_word_at(pool, POOL_SIZE_CLASS) + 1) * 16;
  for (int at = POOL_HEADER_BYTES; at + bytes <= (int)sizeof pool; at += bytes) {
    bool found =
        greenlets->table ? word_at(pool, at) == greenlets->table : recognize(greenlets, kinds, pool + at, bytes);
    if (!found) continue;
    add_pool(greenlets, address);
    return;
  }
}

static void search_arena(struct greenlets *greenlets, struct kinds *kinds, uintptr_t arena) {
  static char headers[AT_ONCE * POOL_HEADER_BYTES];
  uintptr_t from[AT_ONCE] = {0}, first = (arena + POOL_BYTES - 1) & ~(uintptr_t)(POOL_BYTES - 1);
  int count = 0;
  for (uintptr_t at = first; at + POOL_BYTES <= arena + ARENA_BYTES; at += POOL_BYTES) from[count++] = at;
  remote_read_each(headers, from, count, POOL_HEADER_BYTES);
  for (int i = 0; i < count; i++) {
    const char *header = headers + (size_t)i * POOL_HEADER_BYTES;
    if (!fits(greenlets, header)) continue;
    if (greenlets->table && !greenlets->list && word_at(header, POOL_FREE)) find_list(greenlets, from[i]);
    if (!is_known(greenlets, from[i])) search_pool(greenlets, kinds, from[i]);
  }
}

/* False = that took too long. */
static bool search_arenas(struct greenlets *greenlets, struct kinds *kinds, int count) {
  for (int i = 0; i < count && i < MOST_ARENAS; i++) {
    if (clock_thread_cpu_ns() > search_end_ns) return false;
    search_arena(greenlets, kinds, arenas[i]);
  }
  return true;
}

static void search_all(struct greenlets *greenlets, struct kinds *kinds, uintptr_t table, int64_t now_ns) {
  int64_t started_ns = clock_thread_cpu_ns();
  int count = read_arenas(table);
  bool first = !greenlets->table;
  search_end_ns = started_ns + MOST_SEARCH_NS;
  bool all = search_arenas(greenlets, kinds, count);
  if (first && greenlets->table) all = search_arenas(greenlets, kinds, count) && all; /* now the class is known */
  bool unknown =
      greenlets->odd >= MOST_ODD || (!greenlets->tested && greenlets->searches >= SEARCH_SHARE / FIRST_SHARE);
  if (!all || !count || count > MOST_ARENAS || (unknown && !greenlets->table)) greenlets->polls.unread_now++;
  int64_t cost_ns = clock_thread_cpu_ns() - started_ns;
  greenlets->polls.apart_ns = cost_ns;
  greenlets->soon_ns = now_ns + cost_ns * SOON_SHARE;
  bool rarely = greenlets->table || ++greenlets->searches >= SEARCH_SHARE / FIRST_SHARE;
  greenlets->search_ns = now_ns + cost_ns * (rarely ? SEARCH_SHARE : FIRST_SHARE * greenlets->searches);
}

/* ---- the list of pools with free blocks ---- */

enum listed { LIST_UNKNOWN, LIST_SAME, LIST_NEW };

/* Searches the pools of the list that are not known. LIST_NEW = one of them has greenlets. */
static enum listed search_list(struct greenlets *greenlets, struct kinds *kinds) {
  char header[POOL_HEADER_BYTES];
  int known = greenlets->pool_count;
  uintptr_t before = greenlets->list, at = before ? remote_word(before + POOL_NEXT) : 0;
  for (int steps = 0; at && at != greenlets->list; steps++) {
    bool listed = steps < MOST_LISTED && is_pool(at) && safe_read(header, (void *)at, sizeof header) &&
                  word_at(header, POOL_PREVIOUS) == before && fits(greenlets, header);
    if (!listed) return LIST_UNKNOWN;
    if (!is_known(greenlets, at)) search_pool(greenlets, kinds, at);
    before = at;
    at = word_at(header, POOL_NEXT);
  }
  return !at ? LIST_UNKNOWN : greenlets->pool_count > known ? LIST_NEW : LIST_SAME;
}

bool pools_search(struct greenlets *greenlets, struct kinds *kinds, uintptr_t table, int64_t now_ns) {
  if (greenlets->refused) greenlets->polls.unread_now++;
  if (greenlets->refused) return true;
  enum listed listed = greenlets->table ? search_list(greenlets, kinds) : LIST_UNKNOWN;
  /* The list was read at the last poll too, so what it has led to is not older. */
  for (int i = 0; i < greenlets->pool_count; i++) greenlets->fresh[i] = false;
  if (now_ns < (listed == LIST_NEW ? greenlets->soon_ns : greenlets->search_ns)) return listed == LIST_SAME;
  search_all(greenlets, kinds, table, now_ns);
  return true;
}

int pools_greenlets(struct greenlets *greenlets, int index, uintptr_t *out) {
  uintptr_t address = greenlets->pools[index];
  int count = 0, bytes = (int)(greenlets->size_class + 1) * 16;
  if (!safe_read(pool, (void *)address, sizeof pool) || half_word_at(pool, POOL_SIZE_CLASS) != greenlets->size_class) {
    forget_pool(greenlets, index);
    return 0;
  }
  for (int at = POOL_HEADER_BYTES; at + bytes <= (int)sizeof pool; at += bytes) {
    if (word_at(pool, at) == greenlets->table && count < POOL_BLOCKS) out[count++] = address + (uintptr_t)at;
  }
  return count;
}
