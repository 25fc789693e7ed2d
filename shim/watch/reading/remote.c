/* Reads Python objects of another process: types, values of dicts.
 *
 * The other process may change its memory at any moment, so nothing is trusted: objects are recognized by their type,
 * types by their name, and loops are bounded. */
#include "watch/reading/remote.h"

#include <sys/uio.h>

#include "shared/base.h"
#include "shared/saferead.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/target.h"
#include "shared/words.h"

#define TYPE_BYTES 264
#define TYPE_NAME_AT 24
#define TYPE_BASIC_SIZE 32
#define TYPE_FLAGS_AT 168
#define TYPE_BASE 256
#define HEAP_TYPE ((uintptr_t)1 << 9)
#define MAX_BASES 8
#define DICT_BYTES 40
#define DICT_KEYS 32
#define KEYS_BYTES 48
#define MAX_ENTRIES 65536
#define KEY_BYTES 80 /* bytes read of a str that is a key: no key that is searched has more than 32 characters */
#define MAX_INTERPRETERS 64

struct stack_target target;

uintptr_t remote_word(uintptr_t address) {
  uintptr_t value;
  return safe_read(&value, (void *)address, sizeof value) ? value : 0;
}

/* ---- many objects at once ---- */

static void read_pieces(char *to, const uintptr_t *from, int count, size_t size) {
  struct iovec local[SAFE_READ_PIECES], remote[SAFE_READ_PIECES];
  int pieces = 0;
  memset(to, 0, (size_t)count * size);
  for (int i = 0; i < count; i++) {
    if (from[i] < 65536 || from[i] >= ARCH_HIGHEST_ADDRESS - size || (from[i] & 7)) continue;
    local[pieces] = (struct iovec){to + (size_t)i * size, size};
    remote[pieces++] = (struct iovec){(void *)from[i], size};
  }
  for (int at = 0; at < pieces; at++) {
    at += safe_read_pieces(local + at, remote + at, pieces - at, size);
    if (at < pieces) memset(local[at].iov_base, 0, size);
  }
}

void remote_read_each(char *to, const uintptr_t *from, int count, size_t size) {
  for (int at = 0; at < count; at += SAFE_READ_PIECES)
    read_pieces(to + (size_t)at * size, from + at, count - at < SAFE_READ_PIECES ? count - at : SAFE_READ_PIECES, size);
}

/* ---- types ---- */

/* The types are recognized by name. Except for those that CPython allocates on the heap, classes of the program (heap
 * types) with the same name do not count. */
static const struct {
  const char *name;
  enum kind kind;
  bool may_be_heap;
} names[] = {
    {"dict", KIND_DICT, false},
    {"set", KIND_SET, false},
    {"str", KIND_STR, false},
    {"int", KIND_INT, false},
    {"weakref.ReferenceType", KIND_REFERENCE, false},
    {"_asyncio.Task", KIND_TASK, true},
    {"_RunningLoopHolder", KIND_HOLDER, true},
    {"coroutine", KIND_COROUTINE, false},
    {"generator", KIND_GENERATOR, false},
    {"async_generator", KIND_ASYNC_GENERATOR, false},
    {"async_generator_asend", KIND_WRAPPER, false},
    {"async_generator_athrow", KIND_WRAPPER, false},
    {"coroutine_wrapper", KIND_WRAPPER, false},
    {"anext_awaitable", KIND_WRAPPER, false},
    {"frame", KIND_FRAME, false},
    {"greenlet.greenlet", KIND_GREENLET, false},
    {"hamt_bitmap_node", KIND_TRIE_BITMAP, false},
    {"hamt_array_node", KIND_TRIE_ARRAY, false},
    {"hamt_collision_node", KIND_TRIE_COLLISION, false},
};

static enum kind kind_by_name(const char *type) {
  char name[32] = {0};
  if (!safe_read_some(name, (void *)word_at(type, TYPE_NAME_AT), sizeof name - 1)) return KIND_OTHER;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    bool heap = word_at(type, TYPE_FLAGS_AT) & HEAP_TYPE;
    if (strcmp(name, names[i].name) == 0 && (names[i].may_be_heap || !heap)) return names[i].kind;
  }
  return KIND_OTHER;
}

/* Returns the kind of the type, or of the first of its bases that has one. */
static enum kind read_kind(uintptr_t type) {
  char bytes[TYPE_BYTES];
  enum kind kind = KIND_OTHER;
  for (int i = 0; type && kind == KIND_OTHER && i < MAX_BASES; i++) {
    if (!safe_read(bytes, (void *)type, sizeof bytes)) break;
    kind = kind_by_name(bytes);
    type = word_at(bytes, TYPE_BASE);
  }
  return kind;
}

enum kind remote_kind(struct kinds *kinds, uintptr_t type) {
  for (uint32_t i = 0; i < KINDS && i < kinds->count; i++) {
    if (kinds->known[i].type == type) return kinds->known[i].kind;
  }
  if (!type) return KIND_OTHER;
  uint32_t place = kinds->count++ % KINDS;
  kinds->known[place].type = type;
  return kinds->known[place].kind = read_kind(type);
}

static bool is_kind(struct kinds *kinds, const char *object, enum kind kind) {
  return remote_kind(kinds, word_at(object, OBJECT_TYPE)) == kind;
}

uintptr_t remote_base(uintptr_t type) { return remote_word(type + TYPE_BASE); }

size_t remote_instance_bytes(uintptr_t type) {
  size_t bytes = remote_word(type + TYPE_BASIC_SIZE);
  return bytes < 4096 ? bytes : 0;
}

/* ---- dicts ---- */

struct entries {
  uintptr_t start;
  uint32_t count, stride, key; /* the value follows the key */
};

static uintptr_t index_bytes_310(const char *keys) {
  uintptr_t size = word_at(keys, 8);
  return size <= 0xff ? size : size <= 0xffff ? 2 * size : size <= 0xffffffff ? 4 * size : 8 * size;
}

static bool find_entries(struct kinds *kinds, uintptr_t dict, struct entries *out) {
  char head[DICT_BYTES], keys[KEYS_BYTES];
  if (!safe_read(head, (void *)dict, sizeof head) || !is_kind(kinds, head, KIND_DICT)) return false;
  uintptr_t at = word_at(head, DICT_KEYS);
  if (!safe_read(keys, (void *)at, sizeof keys)) return false;
  bool is_310 = target.layout->version == 0x30a, general = is_310 || keys[10] == 0;
  uintptr_t bytes = is_310 ? 40 + index_bytes_310(keys) : 32 + ((uintptr_t)1 << (keys[9] & 31));
  uintptr_t count = word_at(keys, is_310 ? 32 : 24);
  *out = (struct entries){at + bytes, (uint32_t)count, general ? 24 : 16, general ? 8 : 0};
  return count <= MAX_ENTRIES;
}

static bool is_name(const char *object, const char *name) {
  size_t length = strlen(name), at = (size_t)target.layout->ascii_data;
  bool is_ascii = object[STR_STATE] & 64;
  return is_ascii && word_at(object, STR_LENGTH) == length && at + length <= KEY_BYTES &&
         memcmp(object + at, name, length) == 0;
}

uintptr_t remote_find(struct kinds *kinds, uintptr_t dict, const char *name) {
  enum { AT_ONCE = 64 };
  struct entries entries;
  char block[AT_ONCE * 24], keys[AT_ONCE * KEY_BYTES];
  uintptr_t key[AT_ONCE];
  if (!find_entries(kinds, dict, &entries)) return 0;
  for (uint32_t at = 0; at < entries.count; at += AT_ONCE) {
    uint32_t count = entries.count - at < AT_ONCE ? entries.count - at : AT_ONCE, stride = entries.stride;
    if (!safe_read(block, (void *)(entries.start + (size_t)at * stride), (size_t)count * stride)) return 0;
    for (uint32_t i = 0; i < count; i++) key[i] = word_at(block, (int)(i * stride + entries.key));
    remote_read_each(keys, key, (int)count, KEY_BYTES);
    for (uint32_t i = 0; i < count; i++) {
      if (is_name(keys + (size_t)i * KEY_BYTES, name)) return word_at(block, (int)(i * stride + entries.key + 8));
    }
  }
  return 0;
}

/* An entry begins with the hash of its key, which is the number itself. */
uintptr_t remote_find_number(struct kinds *kinds, uintptr_t dict, uint64_t number) {
  enum { AT_ONCE = 128, STRIDE = 24 };
  struct entries entries;
  char block[AT_ONCE * STRIDE];
  if (!find_entries(kinds, dict, &entries) || entries.stride != STRIDE) return 0;
  for (uint32_t at = 0; at < entries.count; at += AT_ONCE) {
    uint32_t count = entries.count - at < AT_ONCE ? entries.count - at : AT_ONCE;
    if (!safe_read(block, (void *)(entries.start + (size_t)at * STRIDE), (size_t)count * STRIDE)) return 0;
    for (uint32_t i = 0; i < count; i++) {
      uintptr_t value = word_at(block, (int)(i * STRIDE + 16));
      if (word_at(block, (int)(i * STRIDE)) == number && value) return value;
    }
  }
  return 0;
}

/* ---- the main interpreter ---- */

/* New interpreters are added at the front of the list, so the main interpreter is the last one. */
uintptr_t remote_main_interpreter(uintptr_t runtime) {
  const struct python_layout *layout = target.layout;
  uintptr_t at = remote_word(runtime + (uintptr_t)layout->runtime_interpreters);
  for (int i = 0; at && i < MAX_INTERPRETERS; i++) {
    uintptr_t next = remote_word(at + (uintptr_t)layout->interp_next);
    if (!next) return at;
    at = next;
  }
  return 0;
}
