/* Reads attributes of instances of Python classes, in this process or in the one that the watcher observes.
 *
 * An instance keeps its attributes in a dict of its own, or in an array of values whose keys its type has. The objects
 * may change or be freed at any moment, so all reads are safe reads, nothing is trusted, and loops are bounded.
 *
 * Instances of a class mostly share its keys. So the type and the keys that were read for the last instance are fetched
 * together with the next one. If it has others, those are read piece by piece. */
#include "shared/objects/instances.h"

#include "shared/base.h"
#include "shared/objects/reads.h"
#include "shared/saferead.h"
#include "shared/stacks/pylayout.h"
#include "shared/words.h"

#define TYPE_BASIC_SIZE 32
#define TYPE_FLAGS 168
#define TYPE_DICT_OFFSET 288
#define TYPE_BYTES (TYPE_DICT_OFFSET + 8)
#define FLAG_INLINE_VALUES (1ul << 2) /* 3.13 */
#define FLAG_MANAGED_DICT (1ul << 4)  /* 3.11 on */
#define FLAG_HEAP_TYPE (1ul << 9)
#define FLAG_READY (1ul << 12)
#define MOST_BYTES 65536 /* of an instance */
#define DICT_KEYS 32
#define DICT_VALUES 40
#define DICT_BYTES (DICT_VALUES + 8)
#define KEYS_BYTES 48
#define VALUES_HEAD_313 8 /* bytes before the values, of which the last says whether they are valid */
#define VALUES_VALID_313 3
#define MOST_ENTRIES 1024
#define KEY_BYTES (48 + INSTANCE_NAME)
#define BEFORE_OBJECT 32 /* bytes before an instance that are fetched, and from there on */
#define OBJECT_BYTES 64
#define LEARNT_KEYS 24

/* ---- what the instances of a type have in common ---- */

/* Several threads may write these words at once. A mixture is as harmless as a type that has been freed: the words only
 * say what is fetched. */
static struct {
  _Atomic uintptr_t type, keys, entries, entries_bytes, key[LEARNT_KEYS];
} learnt;

static uintptr_t load(_Atomic uintptr_t *word) { return atomic_load_explicit(word, memory_order_relaxed); }
static void store(_Atomic uintptr_t *word, uintptr_t value) {
  if (load(word) != value) atomic_store_explicit(word, value, memory_order_relaxed);
}

static void fetch(const struct python_layout *layout, uintptr_t object, struct reads *reads) {
  reads_clear(reads);
  reads_add(reads, object - BEFORE_OBJECT, OBJECT_BYTES);
  uintptr_t type = load(&learnt.type), bytes = load(&learnt.entries_bytes);
  if (type) {
    reads_add(reads, type, TYPE_BYTES);
    reads_add(reads, type + (uintptr_t)layout->type_cached_keys, 8);
    reads_add(reads, load(&learnt.keys), KEYS_BYTES);
    reads_add(reads, load(&learnt.entries), bytes);
    for (int i = 0; i < LEARNT_KEYS; i++) reads_add(reads, load(&learnt.key[i]), KEY_BYTES);
  }
  reads_fetch(reads);
}

/* Where the attributes of an instance are: `values` is 0 if they are in the table of the keys itself. */
struct attributes {
  uintptr_t type, keys, values;
};

/* ---- where the attributes are ---- */

static void note(struct instance_path *path, uintptr_t address, uintptr_t word) {
  if (path->count == INSTANCE_WORDS) return;
  path->at[path->count] = address;
  path->word[path->count++] = word;
}

/* Reads a word and adds it to the path. */
static uintptr_t follow(struct reads *reads, struct instance_path *path, uintptr_t address) {
  uintptr_t word = reads_word(reads, address);
  note(path, address, word);
  return word;
}

static bool in_dict(const struct python_layout *layout, uintptr_t dict, struct attributes *out,
                    struct instance_path *path) {
  char head[DICT_BYTES];
  if (!dict || (dict & 7) || !safe_read(head, (void *)dict, sizeof head)) return false;
  out->keys = word_at(head, DICT_KEYS);
  out->values = word_at(head, DICT_VALUES);
  note(path, dict + DICT_KEYS, out->keys);
  note(path, dict + DICT_VALUES, out->values);
  if (out->values && layout->version >= 0x30d) out->values += VALUES_HEAD_313;
  return true;
}

/* 3.13: the values follow the fields of the instance. */
static uintptr_t inline_values(struct reads *reads, uintptr_t object, const char *type, struct instance_path *path) {
  uintptr_t size = word_at(type, TYPE_BASIC_SIZE);
  if (!(word_at(type, TYPE_FLAGS) & FLAG_INLINE_VALUES) || size > MOST_BYTES) return 0;
  uintptr_t head = follow(reads, path, object + size);
  return head >> 8 * VALUES_VALID_313 & 255 ? object + size + VALUES_HEAD_313 : 0;
}

/* From 3.11 on: 3.11 has two pointers before the object, to values or to a dict; 3.12 one tagged pointer to either. */
static bool managed(const struct python_layout *layout, struct reads *reads, uintptr_t object, const char *type,
                    struct attributes *out, struct instance_path *path) {
  uintptr_t dict = follow(reads, path, object - 24), values = 0;
  if (layout->version == 0x30b) {
    values = follow(reads, path, object - 32);
  } else if (layout->version == 0x30c) {
    if (dict & 1) values = dict + 1, dict = 0;
  } else if (!dict) {
    values = inline_values(reads, object, type, path);
  }
  if (dict) return in_dict(layout, dict, out, path);
  out->keys = reads_word(reads, out->type + (uintptr_t)layout->type_cached_keys);
  out->values = values;
  return out->keys && values;
}

static bool find(const struct python_layout *layout, struct reads *reads, uintptr_t object, struct attributes *out,
                 struct instance_path *path) {
  char type[TYPE_BYTES];
  uintptr_t address = follow(reads, path, object + OBJECT_TYPE);
  if (!address || (address & 7) || layout->type_cached_keys < 0) return false;
  if (!reads_get(reads, type, address, sizeof type)) return false;
  out->type = address;
  uint64_t flags = word_at(type, TYPE_FLAGS);
  if (!(flags & FLAG_READY) || !(flags & FLAG_HEAP_TYPE)) return false;
  if (layout->version >= 0x30b && (flags & FLAG_MANAGED_DICT)) return managed(layout, reads, object, type, out, path);
  uintptr_t offset = word_at(type, TYPE_DICT_OFFSET);
  return offset > 0 && offset < MOST_BYTES && in_dict(layout, follow(reads, path, object + offset), out, path);
}

/* ---- the names ---- */

/* The table of the keys: entries of `stride` bytes, the value after the key. */
struct entries {
  uintptr_t start;
  uint32_t count, stride, key;
};

static uintptr_t index_bytes_310(uintptr_t size) {
  return size <= 0xff ? size : size <= 0xffff ? 2 * size : size <= 0xffffffff ? 4 * size : 8 * size;
}

static bool entries_of(const struct python_layout *layout, struct reads *reads, uintptr_t at, struct entries *out) {
  char keys[KEYS_BYTES];
  if (!at || (at & 7) || !reads_get(reads, keys, at, sizeof keys)) return false;
  bool is_310 = layout->version == 0x30a, general = is_310 || keys[10] == 0;
  uintptr_t indices = is_310 ? 40 + index_bytes_310(word_at(keys, 8)) : 32 + ((uintptr_t)1 << (keys[9] & 31));
  uintptr_t count = word_at(keys, is_310 ? 32 : 24);
  *out = (struct entries){at + indices, (uint32_t)count, general ? 24 : 16, general ? 8 : 0};
  return count <= MOST_ENTRIES;
}

static bool is_name(const struct python_layout *layout, const char *key, const char *name) {
  size_t length = strlen(name);
  return (key[STR_STATE] & 64) && word_at(key, STR_LENGTH) == length && length <= INSTANCE_NAME &&
         memcmp(key + layout->ascii_data, name, length) == 0;
}

/* Entries of one piece of the table, and their keys. */
struct piece {
  char entries[SAFE_READ_MANY * 24];
  uintptr_t at[SAFE_READ_MANY]; /* 0 = removed */
  const char *key[SAFE_READ_MANY];
  char keys[SAFE_READ_MANY * KEY_BYTES];
  struct iovec work[SAFE_READ_MANY];
};

/* Reads the keys that have not been fetched. */
static void read_keys(struct reads *reads, struct piece *piece, uint32_t count) {
  uint32_t absent[SAFE_READ_MANY], missing = 0;
  for (uint32_t i = 0; i < count; i++) {
    piece->key[i] = piece->at[i] ? reads_fetched(reads, piece->at[i], KEY_BYTES) : NULL;
    if (!piece->at[i] || piece->key[i]) continue;
    piece->work[missing] = (struct iovec){(void *)piece->at[i], KEY_BYTES};
    absent[missing++] = i;
  }
  if (!missing) return;
  reads->missed = true;
  bool whole = safe_read_all(piece->keys, piece->work, (int)missing);
  for (uint32_t k = 0; k < missing; k++) {
    char *key = piece->keys + (size_t)k * KEY_BYTES;
    piece->key[absent[k]] = key;
    if (whole) continue;
    memset(key, 0, KEY_BYTES); /* a key may lie at the very end of what is mapped */
    safe_read_some(key, piece->work[k].iov_base, KEY_BYTES);
  }
}

static bool read_piece(struct reads *reads, const struct entries *entries, uint32_t from, uint32_t count,
                       struct piece *piece) {
  uint32_t stride = entries->stride;
  if (!reads_get(reads, piece->entries, entries->start + (size_t)from * stride, (size_t)count * stride)) return false;
  for (uint32_t i = 0; i < count; i++) piece->at[i] = word_at(piece->entries, (int)(i * stride + entries->key));
  read_keys(reads, piece, count);
  return true;
}

static void learn(const struct attributes *of, const struct entries *entries, const struct piece *piece,
                  uint32_t count) {
  store(&learnt.type, of->type);
  store(&learnt.keys, of->keys);
  store(&learnt.entries, entries->start);
  store(&learnt.entries_bytes, (uintptr_t)count * entries->stride);
  for (uint32_t i = 0; i < LEARNT_KEYS; i++) store(&learnt.key[i], i < count ? piece->at[i] : 0);
}

/* ---- the values ---- */

/* Finds the names in one piece of the table, and stores the addresses of the slots that hold their values. */
static void find_slots(const struct python_layout *layout, const struct attributes *of, const struct entries *entries,
                       uint32_t from, uint32_t count, const struct piece *piece, const char *const *names, int wanted,
                       uintptr_t *slots, struct instance_path *path) {
  for (uint32_t i = 0; i < count; i++) {
    for (int k = 0; piece->at[i] && k < wanted; k++) {
      if (!is_name(layout, piece->key[i], names[k])) continue;
      uintptr_t key = entries->start + (uintptr_t)(from + i) * entries->stride + entries->key;
      slots[k] = of->values ? of->values + 8 * (uintptr_t)(from + i) : key + 8;
      if (!of->values) note(path, key, piece->at[i]);
    }
  }
}

static void read_values(struct reads *reads, const uintptr_t *slots, int count, uintptr_t *values,
                        struct instance_path *path) {
  reads_clear(reads);
  for (int k = 0; k < count; k++) reads_add(reads, slots[k], sizeof *values);
  reads_fetch(reads);
  for (int k = 0; k < count; k++) values[k] = slots[k] ? follow(reads, path, slots[k]) : 0;
}

bool instance_attributes(const struct python_layout *layout, uintptr_t object, const char *const *names, int count,
                         uintptr_t *values, struct instance_path *path, struct reads *reads) {
  struct attributes attributes;
  struct entries entries;
  struct piece piece;
  uintptr_t slots[INSTANCE_VALUES] = {0};
  path->count = 0;
  if (object < MOST_BYTES || (object & 7) || count > INSTANCE_VALUES) return false;
  fetch(layout, object, reads);
  if (!find(layout, reads, object, &attributes, path)) return false;
  if (!entries_of(layout, reads, attributes.keys, &entries)) return false;
  for (uint32_t at = 0; at < entries.count; at += SAFE_READ_MANY) {
    uint32_t some = entries.count - at < SAFE_READ_MANY ? entries.count - at : SAFE_READ_MANY;
    if (!read_piece(reads, &entries, at, some, &piece)) continue;
    find_slots(layout, &attributes, &entries, at, some, &piece, names, count, slots, path);
    if (at == 0 && reads->missed && attributes.values) learn(&attributes, &entries, &piece, some);
  }
  read_values(reads, slots, count, values, path);
  return true;
}

void instance_path_add(const struct instance_path *path, struct reads *reads) {
  for (uint32_t i = 0; i < path->count; i++) reads_add(reads, path->at[i], sizeof path->word[i]);
}

bool instance_path_same(const struct instance_path *path, struct reads *reads) {
  for (uint32_t i = 0; i < path->count; i++)
    if (reads_word(reads, path->at[i]) != path->word[i]) return false;
  return path->count > 0;
}

/* ---- types ---- */

void instance_type_add(uintptr_t type, struct reads *reads) { reads_add(reads, type ? type + TYPE_FLAGS : 0, 8); }

uint64_t instance_type_flags(struct reads *reads, uintptr_t object, uintptr_t *type) {
  *type = object < MOST_BYTES || (object & 7) ? 0 : reads_word(reads, object + OBJECT_TYPE);
  uint64_t flags = *type && !(*type & 7) ? reads_word(reads, *type + TYPE_FLAGS) : 0;
  return flags & FLAG_READY ? flags : 0;
}
