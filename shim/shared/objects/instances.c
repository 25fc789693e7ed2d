/* Reads attributes of instances of Python classes, in this process or in the one that the watcher observes.
 *
 * An instance keeps its attributes in a dict of its own, or in an array of values whose keys its type has. The objects
 * may change or be freed at any moment, so all reads are safe reads, nothing is trusted, and loops are bounded. */
#include "shared/objects/instances.h"

#include "shared/base.h"
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

/* Where the attributes of an instance are: `values` is 0 if they are in the table of the keys itself. */
struct attributes {
  uintptr_t keys, values;
};

/* ---- where the attributes are ---- */

static bool in_dict(const struct python_layout *layout, uintptr_t dict, struct attributes *out) {
  char head[DICT_BYTES];
  if (!dict || (dict & 7) || !safe_read(head, (void *)dict, sizeof head)) return false;
  *out = (struct attributes){word_at(head, DICT_KEYS), word_at(head, DICT_VALUES)};
  if (out->values && layout->version >= 0x30d) out->values += VALUES_HEAD_313;
  return true;
}

static uintptr_t read_word(uintptr_t address) {
  uintptr_t value;
  return safe_read(&value, (void *)address, sizeof value) ? value : 0;
}

/* 3.13: the values follow the fields of the instance. */
static uintptr_t inline_values(uintptr_t object, const char *type) {
  uintptr_t size = word_at(type, TYPE_BASIC_SIZE);
  unsigned char head[VALUES_HEAD_313];
  if (!(word_at(type, TYPE_FLAGS) & FLAG_INLINE_VALUES) || size > MOST_BYTES) return 0;
  if (!safe_read(head, (void *)(object + size), sizeof head) || !head[VALUES_VALID_313]) return 0;
  return object + size + VALUES_HEAD_313;
}

/* From 3.11 on: 3.11 has two pointers before the object, to values or to a dict; 3.12 one tagged pointer to either. */
static bool managed(const struct python_layout *layout, uintptr_t object, uintptr_t type_address, const char *type,
                    struct attributes *out) {
  uintptr_t dict = read_word(object - 24), values = 0;
  if (layout->version == 0x30b) {
    values = read_word(object - 32);
  } else if (layout->version == 0x30c) {
    if (dict & 1) values = dict + 1, dict = 0;
  } else if (!dict) {
    values = inline_values(object, type);
  }
  if (dict) return in_dict(layout, dict, out);
  *out = (struct attributes){read_word(type_address + (uintptr_t)layout->type_cached_keys), values};
  return out->keys && values;
}

static bool find(const struct python_layout *layout, uintptr_t object, struct attributes *out) {
  char type[TYPE_BYTES];
  uintptr_t address = object < MOST_BYTES || (object & 7) ? 0 : read_word(object + OBJECT_TYPE);
  if (!address || (address & 7) || layout->type_cached_keys < 0) return false;
  if (!safe_read(type, (void *)address, sizeof type)) return false;
  uint64_t flags = word_at(type, TYPE_FLAGS);
  if (!(flags & FLAG_READY) || !(flags & FLAG_HEAP_TYPE)) return false;
  if (layout->version >= 0x30b && (flags & FLAG_MANAGED_DICT)) return managed(layout, object, address, type, out);
  uintptr_t offset = word_at(type, TYPE_DICT_OFFSET);
  return offset > 0 && offset < MOST_BYTES && in_dict(layout, read_word(object + offset), out);
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

static bool entries_of(const struct python_layout *layout, uintptr_t at, struct entries *out) {
  char keys[KEYS_BYTES];
  if (!at || (at & 7) || !safe_read(keys, (void *)at, sizeof keys)) return false;
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

/* Keys of one piece of the table. */
struct piece {
  char entries[SAFE_READ_MANY * 24];
  char keys[SAFE_READ_MANY * KEY_BYTES];
  struct iovec work[SAFE_READ_MANY];
};

static bool read_piece(const struct entries *entries, uint32_t from, uint32_t count, struct piece *piece) {
  uintptr_t keys[SAFE_READ_MANY], any = 0;
  uint32_t stride = entries->stride;
  if (!safe_read(piece->entries, (void *)(entries->start + (size_t)from * stride), (size_t)count * stride))
    return false;
  for (uint32_t i = 0; i < count; i++) {
    keys[i] = word_at(piece->entries, (int)(i * stride + entries->key));
    if (keys[i]) any = keys[i];
  }
  for (uint32_t i = 0; i < count; i++) keys[i] = keys[i] ? keys[i] : any; /* removed: one key is read twice */
  if (!any) return false;
  if (safe_read_many(piece->keys, keys, (int)count, KEY_BYTES, piece->work)) return true;
  memset(piece->keys, 0, sizeof piece->keys); /* a key may lie at the very end of what is mapped */
  for (uint32_t i = 0; i < count; i++) safe_read_some(piece->keys + i * KEY_BYTES, (void *)keys[i], KEY_BYTES);
  return true;
}

bool instance_attributes(const struct python_layout *layout, uintptr_t object, const char *const *names, int count,
                         uintptr_t *values) {
  struct attributes attributes;
  struct entries entries;
  struct piece piece;
  for (int k = 0; k < count; k++) values[k] = 0;
  if (!find(layout, object, &attributes) || !entries_of(layout, attributes.keys, &entries)) return false;
  for (uint32_t at = 0; at < entries.count; at += SAFE_READ_MANY) {
    uint32_t some = entries.count - at < SAFE_READ_MANY ? entries.count - at : SAFE_READ_MANY;
    if (!read_piece(&entries, at, some, &piece)) continue;
    for (uint32_t i = 0; i < some; i++) {
      uintptr_t in_table = word_at(piece.entries, (int)(i * entries.stride + entries.key + 8));
      for (int k = 0; k < count; k++) {
        if (!word_at(piece.entries, (int)(i * entries.stride + entries.key))) continue;
        if (!is_name(layout, piece.keys + (size_t)i * KEY_BYTES, names[k])) continue;
        values[k] = attributes.values ? read_word(attributes.values + 8 * (uintptr_t)(at + i)) : in_table;
      }
    }
  }
  return true;
}

uint64_t instance_type_flags(uintptr_t object) {
  uintptr_t type = object < MOST_BYTES || (object & 7) ? 0 : read_word(object + OBJECT_TYPE);
  uint64_t flags = type && !(type & 7) ? read_word(type + TYPE_FLAGS) : 0;
  return flags & FLAG_READY ? flags : 0;
}
