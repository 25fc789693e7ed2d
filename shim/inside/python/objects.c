/* Types of the Python objects in sampled blocks, and counts of garbage collections.
 *
 * They are read from memory without a call of Python's API and without taking references, because the code runs inside
 * allocators and signal handlers. Anything that does not look like an object with a valid type is ignored.
 *
 * A block begins with the object itself, or with the headers of the collector and of a managed dictionary. */
#include "inside/python/objects.h"

#include "formats/spool/spool.h"
#include "inside/core/thread_state.h"
#include "inside/python/python.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/stacks/hash.h"
#include "shared/stacks/pylayout.h"
#include "shared/words.h"

#define NAME_MAX_BYTES 200
#define GC_HEADER_BYTES 16
#define TYPE_NAME 24
#define TYPE_BASIC_SIZE 32
#define TYPE_FLAGS 168
#define TYPE_BYTES (TYPE_FLAGS + 8)
#define FLAG_HEAP_TYPE (1ul << 9)
#define FLAG_READY (1ul << 12)
#define FLAG_GC (1ul << 14)
#define FLAG_STR_SUBCLASS (1ul << 28)
#define FLAG_TYPE_SUBCLASS (1ul << 31)
#define MOST_HEADER_BYTES 32 /* in front of an object: the collector's, and that of its attributes */
#define START_BYTES (MOST_HEADER_BYTES + 16)
#define MOST_REFERENCES 0xffffffffu /* of immortal objects; a greater value is not a reference count but a pointer */
#define WRITTEN 1024

/* ---- types ---- */

static _Atomic uint64_t written[WRITTEN]; /* hashes of names that are in the spool */

static uint64_t hash_of(const char *name, size_t length) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)name[i]) * 0x100000001b3u;
  return hash ? hash : 1;
}

static bool write_name(uint64_t hash, const char *name, size_t length) {
  unsigned slots = 1 + (unsigned)((length + SPOOL_SLOT_BYTES - 1) / SPOOL_SLOT_BYTES);
  struct record_type *record = spool_claim(slots);
  if (!record) return false;
  record->thread = this_thread.id;
  record->type = hash;
  record->name_bytes = (uint32_t)length;
  record->pad = 0;
  memcpy(record + 1, name, length);
  spool_publish(record, RECORD_TYPE, slots);
  return true;
}

/* Returns the length of a truncated UTF-8 text without a partial character at its end. */
static size_t without_partial_character(const char *name, size_t length) {
  while (length > 0 && ((unsigned char)name[length - 1] & 0xc0) == 0x80) length--;
  return length > 0 && (unsigned char)name[length - 1] >= 0xc0 ? length - 1 : length;
}

/* Returns the hash of the name at `address`, and writes the name if it is new; 0 = there is no valid name. The name is
 * read each time, because classes are freed and the addresses of the class and of its name are reused. */
static uint64_t hash_of_name_at(uintptr_t address) {
  char name[NAME_MAX_BYTES];
  size_t length = 0, got = safe_read_some(name, (const void *)address, sizeof name);
  while (length < got && name[length]) {
    if ((unsigned char)name[length++] < ' ') return 0;
  }
  if (length == sizeof name) length = without_partial_character(name, length);
  if (!length) return 0;
  uint64_t hash = hash_of(name, length);
  _Atomic uint64_t *known = &written[hash % WRITTEN];
  if (atomic_load_explicit(known, memory_order_relaxed) == hash) return hash;
  if (!write_name(hash, name, length)) return 0;
  atomic_store_explicit(known, hash, memory_order_relaxed);
  return hash;
}

/* True if `metatype`, the ob_type of a supposed type, is PyType_Type, or a subclass of it whose own type is
 * PyType_Type. */
static bool is_metatype(uintptr_t metatype) {
  char facts[TYPE_BYTES];
  if (metatype == python_symbols.type_type) return true;
  return safe_read(facts, (void *)metatype, sizeof facts) && (word_at(facts, TYPE_FLAGS) & FLAG_TYPE_SUBCLASS) &&
         word_at(facts, OBJECT_TYPE) == python_symbols.type_type;
}

/* The names of types whose memory is certain to be mapped, so that they are read plainly. An entry is valid for an
 * identity: a hash of the type's address, that of its name, and the ids of the blocks of both: the name of a class is in
 * a str, and one that is renamed twice may find its second name where the first one was. One thread may write an entry
 * while another one reads it; then the two words do not fit each other, and the entry is ignored. */
#define NAMED_TYPES 1024
static struct {
  _Atomic uint64_t hash;  /* of the name */
  _Atomic uint64_t check; /* hash ^ identity */
} named_types[NAMED_TYPES];
/* Types are aligned and take a few hundred bytes. */
static size_t place_of_type(uintptr_t type) { return (type >> 4 ^ type >> 14) % NAMED_TYPES; }
static uint64_t (*_Atomic living_block)(uintptr_t address, size_t bytes);

static uint32_t (*_Atomic libraries_closed)(void);
static bool (*_Atomic lies_in_pool)(uintptr_t address);

void objects_follow(uint64_t (*living)(uintptr_t address, size_t bytes), uint32_t (*closed)(void),
                    bool (*pooled)(uintptr_t address)) {
  atomic_store(&libraries_closed, closed);
  atomic_store(&lies_in_pool, pooled);
  atomic_store(&living_block, living);
}

/* Types in the data of libraries, which were read safely once. They have their names for as long as no library is closed,
 * so they are not read again. The words of an entry fit each other as those of named_types do. */
static struct {
  _Atomic uint64_t hash, least, check; /* least: bytes of an object */
} library_types[NAMED_TYPES];

/* Returns the identity of a type in a library, 0 = it is not known whether libraries are closed. */
static uint64_t identity_in_library(uintptr_t type, bool has_gc_header) {
  uint32_t (*closed)(void) = atomic_load_explicit(&libraries_closed, memory_order_relaxed);
  uint32_t count = closed ? closed() : UINT32_MAX;
  return count == UINT32_MAX ? 0 : hash_not_zero(hash_pair(type, (uint64_t)count << 1 | has_gc_header));
}

static uint64_t known_in_library(uintptr_t type, uint64_t identity, size_t room) {
  size_t at = place_of_type(type);
  uint64_t hash = atomic_load_explicit(&library_types[at].hash, memory_order_relaxed);
  uint64_t least = atomic_load_explicit(&library_types[at].least, memory_order_relaxed);
  uint64_t check = atomic_load_explicit(&library_types[at].check, memory_order_relaxed);
  return identity && hash && check == hash_pair(hash_pair(hash, least), identity) && least <= room ? hash : 0;
}

static void know_in_library(uintptr_t type, uint64_t identity, uint64_t hash, const char *facts) {
  size_t at = place_of_type(type);
  uint64_t flags = word_at(facts, TYPE_FLAGS), least = word_at(facts, TYPE_BASIC_SIZE);
  if (!identity || !hash || (flags & (FLAG_HEAP_TYPE | FLAG_STR_SUBCLASS))) return;
  atomic_store_explicit(&library_types[at].hash, hash, memory_order_relaxed);
  atomic_store_explicit(&library_types[at].least, least, memory_order_relaxed);
  atomic_store_explicit(&library_types[at].check, hash_pair(hash_pair(hash, least), identity), memory_order_relaxed);
}

/* True if the type lies in the data of an interpreter that was there at load, so that it is never unloaded. */
static bool is_static(uintptr_t type) {
  const struct address_range *data = &python_symbols.data;
  return type >= data->start && type < data->end && data->end - type >= TYPE_BYTES;
}

/* Returns the id of the block that holds a class, behind the header of the collector; 0 = none is known. If the
 * thread is inside one of Python's allocators, it holds the GIL, so with one interpreter no other thread can free
 * the class. */
static uint64_t id_of_class(uintptr_t type, const char *state) {
  uint64_t (*living)(uintptr_t, size_t) = atomic_load_explicit(&living_block, memory_order_relaxed);
  uint64_t id = living ? living(type - GC_HEADER_BYTES, GC_HEADER_BYTES + TYPE_BYTES) : 0;
  return id && python_is_alone(state) ? id : 0;
}

/* Returns the id of the block that holds the name of a class: a str, or the text of one; 0 = none is known, as of names
 * that are older than the recording. */
static uint64_t id_of_name(uintptr_t name) {
  uint64_t (*living)(uintptr_t, size_t) = atomic_load_explicit(&living_block, memory_order_relaxed);
  uint64_t id = living ? living(name - (uintptr_t)python_layout->ascii_data, 1) : 0;
  return id || !living ? id : living(name, 1);
}

/* True if an object of the type, whose first bytes these are, may begin `room` bytes before the end of its block. Buffers
 * hold remains of blocks before, which look like an object of a larger type now and then. A compact str is smaller than its
 * type says. */
static bool may_be_object(const char *facts, bool has_gc_header, size_t room) {
  uint64_t flags = word_at(facts, TYPE_FLAGS);
  return (flags & FLAG_READY) && ((flags & FLAG_GC) != 0) == has_gc_header &&
         ((flags & FLAG_STR_SUBCLASS) || word_at(facts, TYPE_BASIC_SIZE) <= room);
}

/* Reads the type plainly. `id`: that of its block, 0 = it is static. */
static uint64_t hash_of_mapped_type(uintptr_t type, uint64_t id, bool has_gc_header, size_t room) {
  const char *facts = (const char *)type;
  uintptr_t name = word_at(facts, TYPE_NAME);
  uint64_t identity = hash_pair(hash_pair(type, name), id);
  if (id) identity = hash_pair(identity, id_of_name(name));
  if (!may_be_object(facts, has_gc_header, room)) return 0;
  size_t at = place_of_type(type);
  uint64_t hash = atomic_load_explicit(&named_types[at].hash, memory_order_relaxed);
  if (hash && (atomic_load_explicit(&named_types[at].check, memory_order_relaxed) ^ hash) == identity) return hash;
  hash = is_metatype(word_at(facts, OBJECT_TYPE)) ? hash_of_name_at(name) : 0;
  atomic_store_explicit(&named_types[at].hash, hash, memory_order_relaxed);
  atomic_store_explicit(&named_types[at].check, hash ^ identity, memory_order_relaxed);
  return hash;
}

/* `held`: the thread is inside one of Python's allocators. */
static uint64_t hash_of_type(uintptr_t type, bool has_gc_header, size_t room, bool held, const char *state) {
  char facts[TYPE_BYTES];
  if (type < 65536 || (type & 7)) return 0;
  if (is_static(type)) return hash_of_mapped_type(type, 0, has_gc_header, room);
  uint64_t id = held ? id_of_class(type, state) : 0;
  if (id) return hash_of_mapped_type(type, id, has_gc_header, room);
  bool (*pooled)(uintptr_t) = atomic_load_explicit(&lies_in_pool, memory_order_relaxed);
  if (pooled && pooled(type)) return 0; /* classes are larger than the blocks of pools: the block is not an object */
  uint64_t identity = identity_in_library(type, has_gc_header), known = known_in_library(type, identity, room);
  if (known) return known;
  if (!safe_read(facts, (void *)type, sizeof facts)) return 0;
  if (!may_be_object(facts, has_gc_header, room)) return 0;
  uint64_t hash = is_metatype(word_at(facts, OBJECT_TYPE)) ? hash_of_name_at(word_at(facts, TYPE_NAME)) : 0;
  know_in_library(type, identity, hash, facts);
  return hash;
}

/* True while every allocation is recorded and nothing but the calling thread can free a block. */
static bool stays(const char *state) {
  return atomic_load_explicit(&living_block, memory_order_relaxed) && python_is_alone(state);
}

/* Returns where the first bytes of the block can be read: in place if it stays, else in the copy; null = not at all. */
static const char *start_of(uintptr_t block, size_t bytes, enum block_hold hold, const char *state,
                            char copy[START_BYTES]) {
  if (likely(hold == BLOCK_OWNED || (hold == BLOCK_STAYS && stays(state)))) return (const char *)block;
  size_t size = bytes < START_BYTES ? bytes & ~(size_t)15 : START_BYTES;
  return safe_read(copy, (void *)block, size) ? copy : NULL;
}

uint64_t objects_type(uintptr_t block, size_t bytes, enum block_hold hold, const void *thread_state) {
  char copy[START_BYTES];
  if (!python_layout || python_layout->object_header || !python_symbols.type_type || bytes < 16) return 0;
  if (safe_read_refused()) { /* an apparent pointer may be invalid, and a plain read of it would crash */
    loss_add(LOSS_types_unread);
    return 0;
  }
  const char *start = start_of(block, bytes, hold, thread_state, copy);
  for (size_t header = 0; start && header <= MOST_HEADER_BYTES && header + 16 <= bytes; header += 16) {
    if (word_at(start, (int)header) > MOST_REFERENCES) continue;
    uintptr_t type = word_at(start, (int)header + OBJECT_TYPE);
    uint64_t hash = hash_of_type(type, header > 0, bytes - header, hold != BLOCK_MAY_GO, thread_state);
    if (hash) return hash;
  }
  return 0;
}

/* ---- collections ---- */

#define LEAST_PAUSE_NS 100000000

/* {collections, collected, uncollectable} for each of three generations. Up to 3.14 an interpreter holds these very words
 * (struct gc_generation_stats, Include/internal/pycore_gc.h); from 3.15 on they are in rings. */
struct gc_counts {
  uint64_t generation[3][3];
};

static _Atomic uint64_t seen; /* number of collections in the last record, of all generations */
static _Atomic uint64_t seen_full;
static _Atomic int64_t seen_ns;
/* Only the collections of this interpreter are recorded; each sub-interpreter has counts of its own. */
static _Atomic uintptr_t first_interpreter;

/* Where the ring of each generation lies, and its number of items. */
static const struct {
  int at, items;
} rings[] = {{0, 11}, {712, 3}, {912, 3}};

/* Takes the newest item of each ring: the one with the most collections, since one that is being written is a copy of an
 * older one. The rings are freed while the interpreter is finalizing, so they are read safely, unless the thread has the
 * GIL before that. */
static bool read_rings(uintptr_t at, bool held, struct gc_counts *out) {
  char copy[GC_RINGS_BYTES];
  bool mapped = at && held && !python_finalizing();
  if (!at || (!mapped && !safe_read(copy, (const void *)at, sizeof copy))) return false;
  const char *bytes = mapped ? (const char *)at : copy;
  for (int i = 0; i < 3; i++) {
    uint64_t *newest = out->generation[i];
    memset(newest, 0, sizeof out->generation[i]);
    for (int item = 0; item < rings[i].items; item++) {
      const char *counts = bytes + rings[i].at + item * GC_RING_ITEM + GC_RING_COUNTS;
      if (word_at(counts, 0) > newest[0]) memcpy(newest, counts, sizeof out->generation[i]);
    }
  }
  return true;
}

/* Returns where the first interpreter has its counts; null = it is another one, or they are unknown. */
static const char *counts_of(const char *state) {
  if (!state || !python_layout || python_layout->gc_counts == GC_COUNTS_UNKNOWN) return NULL;
  uintptr_t interpreter = word_at(state, python_layout->tstate_interp);
  uintptr_t first = atomic_load_explicit(&first_interpreter, memory_order_relaxed);
  if (!interpreter) return NULL;
  if (first != interpreter && (first || !atomic_compare_exchange_strong(&first_interpreter, &first, interpreter)))
    return NULL;
  return (const char *)interpreter + python_layout->interp_gc + python_layout->gc_counts;
}

static bool read_counts(const char *counts, bool held, struct gc_counts *out) {
  if (!counts) return false;
  if (python_layout->version >= 0x30f) return read_rings(word_at(counts, 0), held, out);
  memcpy(out, counts, sizeof *out);
  return true;
}

/* True if there was no collection since the last record of them: most calls read no more than these three counts. */
static bool no_more_than(uint64_t before, const char *counts) {
  if (!counts || python_layout->version >= 0x30f) return false;
  const int step = (int)sizeof(uint64_t[3]);
  return word_at(counts, 0) + word_at(counts, step) + word_at(counts, 2 * step) == before;
}

static uint64_t sum_of(const struct gc_counts *counts, int which) {
  return counts->generation[0][which] + counts->generation[1][which] + counts->generation[2][which];
}

static void write_collections(const struct gc_counts *counts) {
  struct record_gc *record = spool_claim(1);
  if (!record) return;
  record->thread = this_thread.id;
  record->t_ns = clock_now_ns();
  for (int i = 0; i < 3; i++) record->collections[i] = counts->generation[i][0];
  record->collected = sum_of(counts, 1);
  record->uncollectable = sum_of(counts, 2);
  record->reserved = 0;
  spool_publish(record, RECORD_GC, 1);
}

uint32_t objects_collections(const void *thread_state, bool held) {
  struct gc_counts counts;
  const char *at = counts_of(thread_state);
  uint64_t before = atomic_load(&seen);
  if (no_more_than(before, at) || !read_counts(at, held, &counts))
    return (uint32_t)before; /* or not of the first one */
  uint64_t now = sum_of(&counts, 0), full = counts.generation[2][0];
  if (now == before) return (uint32_t)now;
  int64_t t_ns = clock_now_ns(), last_ns = atomic_load(&seen_ns);
  bool due = full != atomic_load(&seen_full) || t_ns - last_ns >= LEAST_PAUSE_NS;
  if (due && atomic_compare_exchange_strong(&seen, &before, now)) {
    atomic_store(&seen_ns, t_ns);
    atomic_store(&seen_full, full);
    write_collections(&counts);
  }
  return (uint32_t)now;
}

void objects_forget_interpreter(void) { atomic_store(&first_interpreter, 0); }
