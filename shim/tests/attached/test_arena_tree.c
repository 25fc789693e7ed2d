/* arena_tree.c: random arenas in a tree that is filled as CPython 3.10 and 3.11 do it (Objects/obmalloc.c, arena_map_mark_used),
 * with other data around its root; and trees with pointers to nothing, which must be refused without a fault. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "inside/attached/attached.h"
#include "inside/memory/pyalloc.h"
#include "inside/python/python.h"
#include "shared/objects/pools.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "tests/check.h"

struct spool_header *spool;
struct python_symbols python_symbols;

/* ---- what is found ---- */

#define MOST 64
static uintptr_t noted[MOST];
static int notes;
void pyalloc_older_arena(uintptr_t base) {
  check(notes < MOST);
  noted[notes++] = base;
}

static int by_address(const void *a, const void *b) {
  uintptr_t first = *(const uintptr_t *)a, second = *(const uintptr_t *)b;
  return first < second ? -1 : first > second;
}

/* ---- the tree, by the numbers of bits in obmalloc.c ---- */

static int address_bits, interior_bits, bottom_bits;
#define ARENA_BITS 20
#define SIZE(bits) ((uintptr_t)1 << (bits))
#define INDEX(address, shift, bits) ((address) >> (shift) & (SIZE(bits) - 1))
struct coverage {
  int32_t tail_hi, tail_lo;
};

#define MOST_NODES 160
static void *nodes[MOST_NODES];
static int node_count;
static void **root;

/* malloc gives addresses that are multiples of 16. */
static void *new_node(size_t bytes) {
  check(node_count < MOST_NODES);
  void *node = calloc(1, bytes);
  check(node != NULL);
  return nodes[node_count++] = node;
}

static struct coverage *coverage_of(uintptr_t address) {
  int mid_shift = ARENA_BITS + bottom_bits, top_shift = mid_shift + interior_bits;
  void **mid = root + INDEX(address, top_shift, interior_bits);
  if (!*mid) *mid = new_node(SIZE(interior_bits) * sizeof(void *));
  void **bottom = (void **)*mid + INDEX(address, mid_shift, interior_bits);
  if (!*bottom) *bottom = new_node(SIZE(bottom_bits) * sizeof(struct coverage));
  return (struct coverage *)*bottom + INDEX(address, ARENA_BITS, bottom_bits);
}

static void mark_used(uintptr_t arena) {
  int32_t tail = (int32_t)(arena % ARENA_BYTES);
  coverage_of(arena)->tail_hi = tail ? tail : -1;
  if (tail) coverage_of(arena + ARENA_BYTES)->tail_lo = tail;
}

/* ---- arenas ---- */

#define ROOM_ARENAS 6
#define MOST_ROOMS 12
static char *rooms[MOST_ROOMS];
static int room_count;
static uintptr_t arenas[MOST];
static int arena_count;

static uint64_t random_number(uint64_t below) { return ((uint64_t)random() << 31 ^ (uint64_t)random()) % below; }

/* Some arenas one after the other, at a random place of the address space that is free. */
static void add_room(void) {
  void *near = (void *)(uintptr_t)(random_number(SIZE(47 - 12)) << 12);
  size_t bytes = (ROOM_ARENAS + 1) * (size_t)ARENA_BYTES;
  char *room = mmap(near, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(room != MAP_FAILED);
  rooms[room_count++] = room;
  uintptr_t arena = (uintptr_t)room + random_number(257) * 4096;
  if (random() % 4 == 0) arena = ((uintptr_t)room + ARENA_BYTES - 1) / ARENA_BYTES * ARENA_BYTES;
  for (int i = 0; i < ROOM_ARENAS; i++, arena += ARENA_BYTES) {
    if (random() % 3 == 0 && arena_count) continue;
    uintptr_t pool = (arena + POOL_BYTES - 1) / POOL_BYTES * POOL_BYTES;
    *(uint32_t *)(pool + POOL_ARENA) = (uint32_t)random_number(1000);
    *(uint32_t *)(pool + POOL_SIZE_CLASS) = (uint32_t)random_number(32);
    arenas[arena_count++] = arena;
    if (arena_count == MOST) return;
  }
}

/* ---- the interpreter's data, with the root in it ---- */

static uintptr_t *data;
static size_t words, root_at;

/* Numbers, and addresses in the data itself and on the heap. */
static uintptr_t other_data(void) {
  switch (random() % 5) {
  case 0: return (uintptr_t)&data[random_number(words)];
  case 1: return random_number(SIZE(20));
  case 2: return (uintptr_t)nodes[random_number((uint64_t)node_count)] + random_number(64);
  default: return 0;
  }
}

static void build(int bits) {
  address_bits = bits;
  interior_bits = (address_bits - ARENA_BITS + 2) / 3;
  bottom_bits = address_bits - ARENA_BITS - 2 * interior_bits;
  size_t before = random_number(5000), after = random_number(5000);
  words = before + SIZE(interior_bits) + after;
  root_at = before;
  data = calloc(words, sizeof *data);
  check(data != NULL);
  root = (void **)data + root_at;
  for (int i = 0, count = 1 + (int)random_number(MOST_ROOMS); i < count && arena_count < MOST; i++) add_room();
  for (int i = 0; i < arena_count; i++) mark_used(arenas[i]);
  for (size_t i = 0; i < words; i++) {
    if (i < before || i >= words - after) data[i] = other_data();
  }
  python_symbols.data = (struct address_range){.start = (uintptr_t)data, .end = (uintptr_t)(data + words)};
}

static void give_back(void) {
  for (int i = 0; i < room_count; i++) check(!munmap(rooms[i], (ROOM_ARENAS + 1) * (size_t)ARENA_BYTES));
  for (int i = 0; i < node_count; i++) free(nodes[i]);
  free(data);
  room_count = arena_count = node_count = 0;
}

#define BLOCKS 4
static bool is_found(void) {
  uintptr_t blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++)
    blocks[i] = arenas[random_number((uint64_t)arena_count)] + random_number(ARENA_BYTES / 16) * 16;
  notes = 0;
  return arena_tree_note(blocks, BLOCKS);
}

static void check_all_noted(void) {
  check(is_found() && notes == arena_count);
  qsort(arenas, (size_t)arena_count, sizeof *arenas, by_address);
  qsort(noted, (size_t)notes, sizeof *noted, by_address);
  check(memcmp(arenas, noted, (size_t)notes * sizeof *noted) == 0);
}

/* ---- tests ---- */

static void test_each_arena_is_noted_once(void) { check_all_noted(); }

/* The words before the root look like one at the places of the blocks. */
static void test_data_that_looks_like_a_root(void) {
  if (root_at < 2) return;
  size_t at = random_number(root_at - 1);
  for (size_t i = 0; i < SIZE(interior_bits) && at + i < root_at; i++) data[at + i] = (uintptr_t)root[i];
  data[at + 1 + random_number(root_at - at - 1)] = 8;
  check_all_noted();
}

static void test_blocks_of_others(void) {
  uintptr_t blocks[BLOCKS], outside = (uintptr_t)rooms[0] - 4096;
  for (int i = 0; i < BLOCKS; i++) blocks[i] = i == 2 ? outside : arenas[0];
  notes = 0;
  check(!arena_tree_note(blocks, BLOCKS) && !notes);
}

/* Puts something else into a word of a node, which is refused, and back. */
static void check_refused(uintptr_t *word, uintptr_t wrong) {
  uintptr_t right = *word;
  if (right == wrong) return;
  *word = wrong;
  check(!is_found() && !notes);
  *word = right;
}

static uintptr_t nothing; /* a page that may not be read */
static uintptr_t pointer_to_nothing(void) {
  switch (random() % 5) {
  case 0: return nothing + random_number(256) * 16;
  case 1: return random_number(65536) | 1;
  case 2: return UINTPTR_MAX - random_number(4096);
  case 3: return SIZE(63) | (uintptr_t)nodes[0];
  default: return SIZE(46) + random_number(SIZE(40)) * 16 + 3;
  }
}

static void test_pointers_to_nothing(void) {
  uintptr_t top = INDEX(arenas[0], ARENA_BITS + bottom_bits + interior_bits, interior_bits);
  uintptr_t *mid = root[top];
  for (int i = 0; i < 4; i++) {
    check_refused((uintptr_t *)root + random_number(SIZE(interior_bits)), pointer_to_nothing());
    check_refused((uintptr_t *)root + top, pointer_to_nothing());
    check_refused(mid + random_number(SIZE(interior_bits)), pointer_to_nothing());
    check_refused(mid + INDEX(arenas[0], ARENA_BITS + bottom_bits, interior_bits), pointer_to_nothing());
  }
}

static void test_leaves_that_do_not_fit(void) {
  struct coverage *some = coverage_of(arenas[random_number((uint64_t)arena_count)]), right = *some;
  const struct coverage wrong[] = {
      {right.tail_hi, right.tail_lo ? 0 : 4096}, {4097, right.tail_lo},  {-2, right.tail_lo},
      {(int32_t)ARENA_BYTES, right.tail_lo},     {right.tail_hi, -4096}, {right.tail_hi, INT32_MAX}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    *some = wrong[i];
    check(!is_found() && !notes);
    *some = right;
  }
}

/* An arena that begins in one piece must end in the next one, which may be that of another leaf. */
static void test_an_arena_without_an_end(void) {
  uintptr_t arena = arenas[random_number((uint64_t)arena_count)];
  if (arena % ARENA_BYTES == 0) return;
  struct coverage *next = coverage_of(arena + ARENA_BYTES), right = *next;
  next->tail_lo = 0;
  check(!is_found() && !notes);
  *next = right;
}

static void test_an_arena_that_is_not_there(void) {
  size_t bytes = (ROOM_ARENAS + 1) * (size_t)ARENA_BYTES;
  check(!mprotect(rooms[room_count - 1], bytes, PROT_NONE));
  check(!is_found() && !notes);
  check(!mprotect(rooms[room_count - 1], bytes, PROT_READ | PROT_WRITE));
}

int main(void) {
  safe_read_init();
  nothing = (uintptr_t)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int round = 0; round < 60; round++) {
    srandom((unsigned)round);
    build(round % 2 ? 64 : 48); /* 3.10 has 48 bits, 3.11 all of them */
    test_each_arena_is_noted_once();
    test_blocks_of_others();
    test_pointers_to_nothing();
    test_leaves_that_do_not_fit();
    test_an_arena_without_an_end();
    test_an_arena_that_is_not_there();
    test_data_that_looks_like_a_root();
    give_back();
  }
  puts("ok");
  return 0;
}
