/* The name of a Thread object, built as each version of CPython lays it out; then with words of it overwritten at random,
 * which must never cause a fault. */
#include <sys/mman.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/objects/thread_name.h"
#include "shared/random.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/stacks/pylayout.h"
#include "tests/check.h"
#include "tests/shared/published.h"

#define WORLD_BYTES 16384
#define IDENT 0x7f12345678c0u
#define READY (1ul << 12)
#define HEAP (1ul << 9)
#define ROUNDS 60000

/* ---- stand-ins ---- */

struct spool_header *spool;
static char records[2048];
static size_t record_end;
static int published;

void *spool_claim(unsigned slots) {
  void *record = records + record_end;
  record_end += slots * SPOOL_SLOT_BYTES;
  check(record_end <= sizeof records);
  return record;
}

void spool_publish(void *record, unsigned kind, unsigned slots) {
  *(uint32_t *)record = kind | slots << 16;
  published++;
}

/* ---- objects ---- */

enum shape { SHARED_VALUES, SPLIT_DICT, OWN_DICT, SHAPES };
static char *world;
static const struct python_layout *layout;

/* Offsets of the objects in the world. */
enum {
  TYPE = 64,
  STR_TYPE = 1088,
  INT_TYPE = 1408,
  KEYS = 1728,
  DICT = 3008,
  THREAD = 3200,
  NAMES = 4096,
  VALUES = 8192
};

static uintptr_t at(size_t offset) { return (uintptr_t)world + offset; }
static void put(size_t offset, uintptr_t value) { memcpy(world + offset, &value, sizeof value); }

static void put_text(size_t offset, const char *text, size_t characters, uint32_t kind, bool ascii) {
  size_t data = (size_t)(ascii ? layout->ascii_data : layout->compact_data);
  put(offset, 1);
  put(offset + 8, at(STR_TYPE));
  put(offset + STR_LENGTH, characters);
  put(offset + STR_STATE, kind << 2 | 32 | (ascii ? 64 : 0));
  memcpy(world + offset + data, text, characters * kind);
}

static void put_int(size_t offset, uint64_t value) {
  uint32_t digits[3] = {value & 0x3fffffff, value >> 30 & 0x3fffffff, (uint32_t)(value >> 60)};
  put(offset + 8, at(INT_TYPE));
  put(offset + 16, layout->version >= 0x30c ? 2 << 3 : 2);
  memcpy(world + offset + 24, digits, sizeof digits);
}

/* The table of three keys. `values`: offsets of the values in the table; null = they are elsewhere. `general`: entries
 * have a hash. */
static void put_keys(const size_t values[3], bool general) {
  static const char *const names[] = {"_name", "_ident", "_daemonic"};
  bool is_310 = layout->version == 0x30a;
  size_t table = KEYS + (is_310 ? 40 : 32) + 8;
  size_t stride = general || is_310 ? 24 : 16;
  put(KEYS + 8, is_310 ? 8 : (general ? 0ul : 1ul) << 16 | 3 << 8 | 3);
  put(KEYS + (is_310 ? 32 : 24), 3);
  for (size_t i = 0; i < 3; i++) {
    put_text(NAMES + 128 * i, names[i], strlen(names[i]), 1, true);
    put(table + i * stride + stride - 16, at(NAMES + 128 * i));
    put(table + i * stride + stride - 8, values ? at(values[i]) : 0);
  }
}

static void put_type(size_t offset, uint64_t flags) { put(offset + 168, READY | flags); }

static size_t values_at(void) { return layout->version >= 0x30d ? THREAD + 48 + 8 : THREAD + 64; }

/* A Thread with the name at VALUES and the ident at VALUES + 1024. */
static void build(uint32_t version, enum shape shape) {
  static struct python_layout room;
  char runtime[RUNTIME_BYTES];
  const size_t values[3] = {VALUES, VALUES + 1024, VALUES + 1088};
  if (version == PUBLISHED_VERSION_315) {
    published_fill_315(runtime);
  } else {
    published_fill(runtime);
  }
  layout = pylayout_for(version, runtime, &room);
  check(layout);
  memset(world, 0, WORLD_BYTES);
  bool is_managed = layout->version > 0x30a, is_313 = layout->version >= 0x30d;
  put_type(STR_TYPE, 1ul << 28);
  put_type(INT_TYPE, 1ul << 24);
  put_type(TYPE, HEAP | (is_managed ? 1ul << 4 : 0) | (is_313 ? 1ul << 2 : 0));
  put(TYPE + 32, 48);
  put(TYPE + 288, is_managed ? (uintptr_t)-1 : 16);
  put(TYPE + (size_t)layout->type_cached_keys, at(KEYS));
  put(THREAD + 8, at(TYPE));
  put_int(VALUES + 1024, IDENT);
  put_keys(shape == OWN_DICT ? values : NULL, shape == OWN_DICT && layout->version != 0x30c);
  size_t array = values_at();
  if (is_313) world[THREAD + 48 + 3] = 1;
  for (size_t i = 0; i < 3 && shape != OWN_DICT; i++) put(array + 8 * i, at(values[i]));
  if (shape == SHARED_VALUES && layout->version == 0x30b) put(THREAD - 32, at(array));
  if (shape == SHARED_VALUES && layout->version == 0x30c) put(THREAD - 24, at(array) - 1);
  if (shape == SHARED_VALUES) return;
  put(layout->version == 0x30a ? THREAD + 16 : THREAD - 24, at(DICT));
  put(DICT + 32, at(KEYS));
  if (shape == SPLIT_DICT) put(DICT + 40, is_313 ? at(array) - 8 : at(array));
}

/* Reads of memory. The linker directs all calls to these functions. */
static int reads_made;

bool __real_safe_read(void *to, const void *from, size_t size);
bool __wrap_safe_read(void *to, const void *from, size_t size) {
  reads_made++;
  return __real_safe_read(to, from, size);
}

bool __real_safe_read_all(void *to, const struct iovec *from, int count);
bool __wrap_safe_read_all(void *to, const struct iovec *from, int count) {
  reads_made++;
  return __real_safe_read_all(to, from, count);
}

static bool update(uint64_t ident, bool may_begin, uint64_t *known) {
  record_end = reads_made = 0;
  return thread_name_update(layout, 7, at(THREAD), ident, may_begin, known, NULL, NULL, NULL);
}

/* ---- tests ---- */

static const uint32_t versions[] = {0x030a0df0, 0x030b07f0,        0x030c01f0,
                                    0x030d00f0, PUBLISHED_VERSION, PUBLISHED_VERSION_315};
#define VERSIONS (sizeof versions / sizeof *versions)

static bool exists(uint32_t version, enum shape shape) { return version >> 16 != 0x30a || shape != SHARED_VALUES; }

static void expect(const char *text, size_t bytes) {
  const struct record_type *type = (const void *)records;
  check(type->name_bytes == bytes && memcmp(type + 1, text, bytes) == 0);
  const struct record_thread_name *name = (const void *)(records + (type->head >> 16) * SPOOL_SLOT_BYTES);
  check(name->thread == 7 && name->name == type->type && name->t_ns > 0);
}

static void test_names(void) {
  static const char wide[] = "\x42\x01\x00\xd8";
  uint64_t known = 0;
  put_text(VALUES, "fetcher", 7, 1, true);
  check(update(IDENT, false, &known) && known);
  expect("fetcher", 7);
  check(!update(IDENT, false, &known)); /* nothing is new */
  put_text(VALUES, wide, 2, 2, false);
  check(update(IDENT, false, &known));
  expect("\xc5\x82?", 3);
  memset(world + VALUES, 'x', 1000);
  put_text(VALUES, "", 0, 1, true);
  put(VALUES + STR_LENGTH, 900);
  check(update(IDENT, false, &known));
  check(((struct record_type *)records)->name_bytes == 200);
}

/* The last key lies at the end of what is mapped. */
static void test_end(void) {
  uint64_t known = 0;
  size_t last = WORLD_BYTES - (size_t)layout->ascii_data - 8;
  bool in_table = layout->version == 0x30a || (world[KEYS + 10] == 0);
  put_text(VALUES, "fetcher", 7, 1, true);
  memmove(world + last, world + NAMES, WORLD_BYTES - last);
  put(KEYS + (layout->version == 0x30a ? 48 : 40) + (in_table ? 8 : 0), at(last));
  check(update(IDENT, false, &known));
}

static void test_others(void) {
  uint64_t known = 0;
  put_text(VALUES, "fetcher", 7, 1, true);
  check(!update(IDENT + 1, false, &known));
  check(!update(IDENT + 1, true, &known));
  put(VALUES + 1032, at(STR_TYPE)); /* not an int: None, before the thread has begun */
  check(!update(IDENT, false, &known));
  check(update(IDENT, true, &known));
  put(VALUES + 8, at(INT_TYPE));
  known = 0;
  check(!update(IDENT, true, &known) && !known);
}

static bool update_seen(uint64_t *known, struct thread_name_seen *seen) {
  record_end = reads_made = 0;
  return thread_name_update(layout, 7, at(THREAD), IDENT, true, known, seen, NULL, NULL);
}

/* What was learnt of the last object leads to the next one of its type, and a name that stays is found at once. */
static void test_few_reads(enum shape shape) {
  struct thread_name_seen seen = {0};
  uint64_t known = 0;
  put_text(VALUES, "fetcher", 7, 1, true);
  update(IDENT, false, &known);
  known = 0;
  check(update_seen(&known, &seen));
  if (shape != OWN_DICT) check(reads_made <= 4);
  check(!update_seen(&known, &seen) && reads_made == 1);
  put_int(VALUES + 1024, IDENT + 1); /* the end of the thread may follow that of its object */
  check(!update_seen(&known, &seen) && reads_made == 1);
  put_int(VALUES + 1024, IDENT);
  put_text(VALUES, "another", 7, 1, true); /* another str at the same address */
  check(update_seen(&known, &seen));
  expect("another", 7);
}

/* The name is another str. */
static void test_renamed(size_t slot) {
  struct thread_name_seen seen = {0};
  uint64_t known = 0;
  put_text(VALUES, "fetcher", 7, 1, true);
  check(update_seen(&known, &seen));
  put_text(VALUES + 2048, "renamed", 7, 1, true);
  put(slot, at(VALUES + 2048));
  check(update_seen(&known, &seen));
  expect("renamed", 7);
}

static bool yes(const void *whose) { return whose != NULL; }

/* Its thread has ended, and the next one has got its ident and its memory. */
static void test_ended(void) {
  uint64_t known = 0;
  record_end = 0;
  put_text(VALUES, "another", 7, 1, true);
  check(!thread_name_update(layout, 7, at(THREAD), IDENT, false, &known, NULL, yes, world) && !known && !record_end);
}

/* The type is freed, and another one, whose instances have their attributes in another order, takes its place. */
static void test_type_replaced(size_t slots) {
  uint64_t known = 0;
  uintptr_t keys[3];
  bool is_310 = layout->version == 0x30a, general = is_310 || world[KEYS + 10] == 0;
  size_t table = KEYS + (is_310 ? 40 : 32) + 8 + (general ? 8 : 0), stride = general ? 24 : 16;
  put_text(VALUES, "fetcher", 7, 1, true);
  check(update(IDENT, false, &known));
  for (size_t i = 0; i < 3; i++) memcpy(&keys[i], world + table + i * stride, 8);
  put(table, keys[2]), put(table + 2 * stride, keys[0]);
  put(slots, at(VALUES + 1088)), put(slots + 16, at(VALUES));
  put_text(VALUES, "another", 7, 1, true);
  check(update(IDENT, false, &known));
  expect("another", 7);
  put(KEYS + (is_310 ? 32 : 24), 2); /* there is no _name any more */
  put_text(VALUES, "renamed", 7, 1, true);
  check(!update(IDENT, false, &known));
}

static void test_hostile(uint32_t version, enum shape shape, uint64_t *random) {
  int before = published;
  uint64_t last = 0;
  struct thread_name_seen seen = {0};
  for (int round = 0; round < ROUNDS / (int)(VERSIONS * SHAPES); round++) {
    uint64_t known = 0;
    if (round % 64 == 0) build(version, shape), put_text(VALUES, "fetcher", 7, 1, true);
    size_t offset = random_next(random) % (WORLD_BYTES / 8) * 8;
    static const uint32_t starts[] = {TYPE, KEYS, DICT, THREAD - 64, NAMES, VALUES, VALUES + 1024};
    if (round % 4) offset = starts[random_next(random) % 7] + random_next(random) % 24 * 8;
    uint64_t kind = random_next(random) >> 8;
    put(offset, kind % 4 == 0   ? random_next(random)
                : kind % 4 == 1 ? at(random_next(random) % WORLD_BYTES)
                : kind % 4 == 2 ? (random_next(random) >> 8) % 2000
                                : at(WORLD_BYTES) - (random_next(random) >> 8) % 600);
    update(IDENT, random_next(random) & 256, &known);
    update_seen(&last, &seen);
  }
  check(published > before); /* some were still read */
}

int main(void) {
  uint64_t random = random_seed(1);
  safe_read_init();
  size_t page_bytes = arch_page_bytes(), whole = (WORLD_BYTES + page_bytes - 1) / page_bytes * page_bytes;
  char *start = mmap(NULL, whole + page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(start != MAP_FAILED && !munmap(start + whole, page_bytes));
  world = start + whole - WORLD_BYTES; /* nothing is readable beyond it */
  for (size_t i = 0; i < VERSIONS; i++) {
    for (enum shape shape = 0; shape < SHAPES; shape++) {
      if (!exists(versions[i], shape)) continue;
      build(versions[i], shape);
      test_names();
      build(versions[i], shape);
      test_others();
      build(versions[i], shape);
      test_end();
      build(versions[i], shape);
      test_few_reads(shape);
      test_ended();
      if (shape != OWN_DICT) {
        build(versions[i], shape);
        test_renamed(values_at());
        build(versions[i], shape);
        test_type_replaced(values_at());
      }
      test_hostile(versions[i], shape, &random);
    }
  }
  return 0;
}
