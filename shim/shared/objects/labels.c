/* The steps from a context to the label in it, by the layouts of CPython's contexts and tries (3.10 to 3.15). */
#include "shared/objects/labels.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/spool.h"
#include "shared/stacks/hash.h"
#include "shared/stacks/pylayout.h"
#include "shared/words.h"

#define CONTEXT_VARIABLES 24
#define TRIE_ROOT 16
#define NODE_BITMAP 24 /* of a bitmap node: uint32 */
#define NODE_PAIRS 32  /* of bitmap and collision nodes */
#define NODE_CHILDREN 16
#define PAIR_BYTES 16
#define LEVEL_BITS 5
#define HASH_BITS 35    /* that seven levels use; a collision may lie below them */
#define MOST_PAIRS 1024 /* of a collision */
#define KNOWN 4096

static uint32_t trie_hash(uint64_t hash) {
  uint32_t folded = (uint32_t)hash ^ (uint32_t)(hash >> 32);
  return folded == UINT32_MAX ? UINT32_MAX - 1 : folded;
}

static void go(struct label_walk *walk, enum label_state state, uintptr_t at) {
  bool is_address = at >= 65536 && !(at & 7) && at < ARCH_HIGHEST_ADDRESS - LABELS_PIECE;
  walk->state = is_address ? state : LABEL_UNREAD;
  walk->at = at;
}

struct label_walk labels_begin(uintptr_t context, uintptr_t variable, uint64_t hash) {
  struct label_walk walk = {.variable = variable, .hash = trie_hash(hash), .state = LABEL_NONE};
  if (context && variable) go(&walk, LABEL_CONTEXT, context + CONTEXT_VARIABLES);
  return walk;
}

enum label_node labels_node_kind(const char *name) {
  if (memcmp(name, "hamt_bitmap_node", LABELS_NAME) == 0) return LABEL_BITMAP;
  if (memcmp(name, "hamt_array_node", LABELS_NAME) == 0) return LABEL_ARRAY;
  return memcmp(name, "hamt_collision_node", LABELS_NAME) == 0 ? LABEL_COLLISION : LABEL_NO_NODE;
}

static void enter_node(struct label_walk *walk, const char *piece, enum label_node kind) {
  uintptr_t pairs = walk->at + NODE_PAIRS;
  uint32_t place = walk->shift < 32 ? walk->hash >> walk->shift & 31 : 0;
  walk->pairs = 0;
  if (kind == LABEL_ARRAY) {
    go(walk, LABEL_CHILD, walk->at + NODE_CHILDREN + 8 * place);
  } else if (kind == LABEL_BITMAP) {
    uint32_t bitmap = (uint32_t)int_at(piece, NODE_BITMAP), bit = 1u << place;
    uint32_t before = (uint32_t)__builtin_popcount(bitmap & (bit - 1));
    go(walk, LABEL_PAIR, pairs + PAIR_BYTES * before);
    if (!(bitmap & bit)) walk->state = LABEL_NONE;
  } else if (kind == LABEL_COLLISION) {
    uint64_t count = word_at(piece, VAR_SIZE) / 2;
    walk->pairs = count <= MOST_PAIRS ? (uint32_t)count : 0;
    go(walk, walk->pairs ? LABEL_PAIR : LABEL_UNREAD, pairs);
  } else {
    walk->state = LABEL_UNREAD;
  }
}

static void enter_child(struct label_walk *walk, uintptr_t node) {
  walk->shift += LEVEL_BITS;
  go(walk, LABEL_NODE, node);
  if (walk->shift > HASH_BITS) walk->state = LABEL_UNREAD;
}

static void enter_pair(struct label_walk *walk, const char *piece) {
  uintptr_t key = word_at(piece, 0), value = word_at(piece, 8);
  if (key == walk->variable) {
    go(walk, LABEL_VALUE, value);
  } else if (walk->pairs > 1) {
    walk->pairs--;
    walk->at += PAIR_BYTES;
  } else if (key || walk->pairs) {
    walk->state = LABEL_NONE;
  } else {
    enter_child(walk, value);
  }
}

/* The value without a label is empty, or something else that is shorter than the magic. */
static void enter_value(struct label_walk *walk, const char *piece) {
  uint64_t size = word_at(piece, BYTES_SIZE) - LABELS_MAGIC_BYTES;
  walk->state = LABEL_NONE;
  if (size - 1 >= LABELS_MOST_BYTES) return;
  if (memcmp(piece + BYTES_DATA, LABELS_MAGIC, LABELS_MAGIC_BYTES) != 0) return;
  walk->bytes = (uint32_t)size;
  go(walk, LABEL_FOUND, walk->at + BYTES_DATA + LABELS_MAGIC_BYTES);
}

void labels_step(struct label_walk *walk, const char *piece, enum label_node kind) {
  switch (walk->state) {
  case LABEL_CONTEXT: go(walk, LABEL_TRIE, word_at(piece, 0) + TRIE_ROOT); break;
  case LABEL_TRIE: go(walk, LABEL_NODE, word_at(piece, 0)); break;
  case LABEL_NODE: enter_node(walk, piece, kind); break;
  case LABEL_PAIR: enter_pair(walk, piece); break;
  case LABEL_CHILD:
    enter_child(walk, word_at(piece, 0));
    if (!word_at(piece, 0)) walk->state = LABEL_NONE;
    break;
  case LABEL_VALUE: enter_value(walk, piece); break;
  default: break;
  }
}

/* ---- texts ---- */

static _Atomic uint64_t known[KNOWN]; /* hashes of texts that are in the spool */

static uint64_t hash_of(const char *text, uint32_t bytes) {
  uint64_t hash = hash_pair(bytes, 0x6c6162656c); /* not that of a name with the same text */
  for (uint32_t at = 0; at < bytes; at += 8) {
    uint64_t word = 0;
    if (bytes - at >= sizeof word) {
      memcpy(&word, text + at, sizeof word);
    } else {
      memcpy(&word, text + at, bytes - at);
    }
    hash = hash_pair(hash, word);
  }
  return hash_not_zero(hash_mixed(hash));
}

static bool write_text(uint64_t hash, const char *text, uint32_t bytes, uint32_t thread) {
  unsigned slots = 1 + (bytes + SPOOL_SLOT_BYTES - 1) / SPOOL_SLOT_BYTES;
  struct record_type *record = spool_claim(slots);
  if (!record) return false;
  record->thread = thread;
  record->type = hash;
  record->name_bytes = bytes;
  record->pad = 0;
  memcpy(record + 1, text, bytes);
  spool_publish(record, RECORD_TYPE, slots);
  return true;
}

uint64_t labels_hash(const char *text, uint32_t bytes, uint32_t thread) {
  uint64_t hash = hash_of(text, bytes);
  _Atomic uint64_t *place = &known[hash % KNOWN];
  if (atomic_load_explicit(place, memory_order_relaxed) == hash) return hash;
  if (!write_text(hash, text, bytes, thread)) return 0;
  atomic_store_explicit(place, hash, memory_order_relaxed);
  return hash;
}
