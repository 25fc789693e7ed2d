/* Writes code objects and stack nodes to the spool, each when it is first seen, and caches which ones were written.
 *
 * Ids are 64-bit hashes of the contents, so they mean the same in every process, and a record that is written twice
 * (after a cache collision, or by a forked child) does no harm. Code objects are freed and their addresses are reused,
 * so a cache entry counts only if a fingerprint of pointers and numbers inside the object is unchanged. */
#include "shared/stacks/dictionary.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/stacks/hash.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/scratch.h"
#include "shared/stacks/target.h"
#include "shared/words.h"

#define CODE_CACHE 8192
#define NODE_CACHE 32768
#define MAX_TEXT_BYTES 16384
#define MAX_TABLE_BYTES (1 << 20)
#define PART_BYTES ((SPOOL_CHUNK_SLOTS / 4 - 1) * SPOOL_SLOT_BYTES)

#define WAYS 4

/* An entry is written without a lock, so two threads may mix up its fields. Then check != check_of(target, the other
 * fields), and the entry is ignored. */
struct code_entry {
  uintptr_t code;
  uint64_t fingerprint;
  uint64_t hash;
  int32_t units;
  int32_t first_traceable;
  uint64_t check;
};
static struct code_entry code_cache[CODE_CACHE];
static _Atomic uint64_t node_cache[NODE_CACHE];

/* ---- the parts of a code object ---- */

struct piece {
  uintptr_t data;
  uint32_t bytes;
  uint8_t kind; /* of text: bytes per character */
};
struct code_parts {
  struct piece file, name, line_table, bytecode;
  int32_t first_line;
  uint32_t flags;
};

static bool read_text(const struct stack_target *target, uintptr_t object, uint32_t max, struct piece *out) {
  char header[STR_STATE + 4];
  uint64_t length;
  uint32_t state;
  if (!safe_read(header, (void *)(object + (uintptr_t)target->layout->object_header), sizeof header)) return false;
  memcpy(&length, header + STR_LENGTH, sizeof length);
  memcpy(&state, header + STR_STATE, sizeof state);
  /* state: interned (2 bits; 8 with a shift of 6), kind (3 bits), compact (1 bit), ascii (1 bit). */
  state >>= target->layout->str_shift;
  uint32_t kind = state >> 2 & 7, compact = state >> 5 & 1, ascii = state >> 6 & 1;
  if (!compact || (kind != 1 && kind != 2 && kind != 4)) return false;
  if (length > max) length = max;
  out->data = object + (uintptr_t)(ascii ? target->layout->ascii_data : target->layout->compact_data);
  out->bytes = (uint32_t)length * kind;
  out->kind = (uint8_t)kind;
  return true;
}

static bool read_bytes_object(const struct stack_target *target, uintptr_t object, struct piece *out) {
  int64_t size;
  object += (uintptr_t)target->layout->object_header;
  if (!safe_read(&size, (void *)(object + BYTES_SIZE), sizeof size) || size < 0 || size > MAX_TABLE_BYTES) return false;
  *out = (struct piece){object + BYTES_DATA, (uint32_t)size, 0};
  return true;
}

static bool read_bytecode(const struct stack_target *target, uintptr_t code, const char *object, struct piece *out) {
  const struct python_layout *layout = target->layout;
  if (layout->version == 0x30a) return read_bytes_object(target, word_at(object, layout->code_bytecode), out);
  int64_t units = (int64_t)word_at(object, VAR_SIZE + layout->object_header);
  if (units <= 0 || units > MAX_TABLE_BYTES / 2) return false;
  *out = (struct piece){code + (uintptr_t)layout->code_bytecode, (uint32_t)units * 2, 0};
  return true;
}

static bool read_parts(const struct stack_target *target, uintptr_t code, const char *object, struct code_parts *out) {
  const struct python_layout *layout = target->layout;
  out->first_line = int_at(object, layout->code_first_line);
  out->flags = (uint32_t)int_at(object, layout->code_flags);
  return read_text(target, word_at(object, layout->code_file), MAX_TEXT_BYTES / 4, &out->file) &&
         read_text(target, word_at(object, layout->code_name), MAX_TEXT_BYTES / 4, &out->name) &&
         read_bytes_object(target, word_at(object, layout->code_line_table), &out->line_table) &&
         read_bytecode(target, code, object, &out->bytecode);
}

/* ---- hashing and writing ---- */

static bool hash_piece(uint64_t *hash, struct piece piece) {
  unsigned char block[64]; /* small, because signal handlers have little stack; each code object is hashed only once */
  *hash = hash_pair(*hash, piece.bytes);
  for (uint32_t at = 0; at < piece.bytes; at += sizeof block) {
    uint32_t size = piece.bytes - at < sizeof block ? piece.bytes - at : (uint32_t)sizeof block;
    memset(block, 0, sizeof block);
    if (!safe_read(block, (void *)(piece.data + at), size)) return false;
    for (uint32_t i = 0; i < size; i += 8) {
      uint64_t word;
      memcpy(&word, block + i, sizeof word);
      *hash = hash_pair(*hash, word);
    }
  }
  return true;
}

static uint64_t hash_parts(const struct stack_target *target, const struct code_parts *parts) {
  uint64_t hash = hash_pair((uint64_t)target->version, (uint64_t)(uint32_t)parts->first_line);
  hash = hash_pair(hash, parts->bytecode.bytes);
  if (!hash_piece(&hash, parts->file) || !hash_piece(&hash, parts->name) || !hash_piece(&hash, parts->line_table)) {
    return 0;
  }
  return hash_not_zero(hash);
}

/* Copies `size` bytes from offset `offset` of the concatenated pieces. False = they could not be read. */
static bool copy_pieces(char *to, const struct piece *piece, int count, uint32_t offset, uint32_t size) {
  for (int i = 0; i < count && size; i++) {
    if (offset >= piece[i].bytes) {
      offset -= piece[i].bytes;
      continue;
    }
    uint32_t take = piece[i].bytes - offset < size ? piece[i].bytes - offset : size;
    if (!safe_read(to, (void *)(piece[i].data + offset), take)) return false;
    to += take;
    size -= take;
    offset = 0;
  }
  return size == 0;
}

static bool write_part(const struct stack_target *target, uint64_t hash, const struct code_parts *parts,
                       const struct piece piece[4], uint32_t total, uint32_t offset) {
  uint32_t size = total - offset < PART_BYTES ? total - offset : PART_BYTES;
  unsigned slots = 1 + (size + SPOOL_SLOT_BYTES - 1) / SPOOL_SLOT_BYTES;
  struct record_code *record = spool_claim(slots);
  if (!record) return false;
  record->thread = target->thread;
  record->code = hash;
  record->python_version = target->version;
  record->first_line = parts->first_line;
  record->total_bytes = total;
  record->part_offset = offset;
  record->part_bytes = size;
  record->file_bytes = piece[0].bytes;
  record->name_bytes = piece[1].bytes;
  record->line_table_bytes = piece[2].bytes;
  record->bytecode_bytes = piece[3].bytes;
  record->code_flags = parts->flags;
  record->file_kind = parts->file.kind;
  record->name_kind = parts->name.kind;
  /* The object's memory may disappear while it is copied, for example if the observed process calls exec. The claimed
   * slots are then published as padding, because an unpublished record would keep its chunk from being finished. */
  bool whole = copy_pieces((char *)(record + 1), piece, 4, offset, size);
  spool_publish(record, whole ? RECORD_CODE : SPOOL_PAD, slots);
  return whole;
}

static bool write_code(const struct stack_target *target, uint64_t hash, const struct code_parts *parts) {
  struct piece piece[4] = {parts->file, parts->name, parts->line_table, parts->bytecode};
  if (piece[3].bytes > 64 * 1024) {
    piece[3].bytes = 0;
    loss_add(LOSS_code_too_large);
  }
  uint32_t total = piece[0].bytes + piece[1].bytes + piece[2].bytes + piece[3].bytes;
  for (uint32_t offset = 0; offset < total || offset == 0; offset += PART_BYTES) {
    if (!write_part(target, hash, parts, piece, total, offset)) return false;
  }
  return true;
}

/* ---- the cache ---- */

static struct code_entry *ways_of(const struct stack_target *target, uintptr_t code) {
  return &code_cache[hash_pair(code >> 4, target->salt) % (CODE_CACHE / WAYS) * WAYS];
}

static uint64_t check_of(const struct stack_target *target, const struct code_entry *entry) {
  uint64_t lengths = (uint64_t)(uint32_t)entry->units << 32 | (uint32_t)entry->first_traceable;
  return hash_pair(hash_pair(entry->code ^ target->salt, entry->fingerprint), hash_pair(entry->hash, lengths));
}

/* Returns the cached facts about the code object; hash 0 = not cached. If `fingerprint` is not null, it must match. */
static struct code_facts find_entry(const struct stack_target *target, uintptr_t code, const uint64_t *fingerprint) {
  struct code_entry *way = ways_of(target, code);
  for (int i = 0; i < WAYS; i++) {
    struct code_entry copy = *(volatile struct code_entry *)&way[i];
    if (copy.code != code || (fingerprint && copy.fingerprint != *fingerprint) || copy.check != check_of(target, &copy))
      continue;
    return (struct code_facts){copy.hash, copy.units, copy.first_traceable};
  }
  return (struct code_facts){0, 0, 0};
}

/* Stores the entry in the first way that is empty or holds this address, else in the next way in turn. */
static void store_entry(const struct stack_target *target, uintptr_t code, uint64_t fingerprint,
                        struct code_facts facts) {
  static _Atomic uint32_t turn;
  struct code_entry *way = ways_of(target, code), *at = &way[atomic_fetch_add(&turn, 1) % WAYS];
  for (int i = 0; i < WAYS; i++) {
    if (way[i].code == code || !way[i].code) {
      at = &way[i];
      break;
    }
  }
  struct code_entry entry = {code, fingerprint, facts.hash, facts.units, facts.first_traceable, 0};
  entry.check = check_of(target, &entry);
  *(volatile struct code_entry *)at = entry;
}

/* A line table of a few bytes lies in a block that is 48 bytes long, or 40 with another one behind it. */
#define NAME_BYTES 32
#define TABLE_BYTES 48
_Static_assert(NAME_BYTES + TABLE_BYTES == IDENTITY_BYTES, "the pieces of dictionary_identity");

void dictionary_identity(const struct stack_target *target, const char *object, struct iovec *pieces) {
  pieces[0] = (struct iovec){(void *)word_at(object, target->layout->code_name), NAME_BYTES};
  pieces[1] = (struct iovec){(void *)word_at(object, target->layout->code_line_table), TABLE_BYTES};
}

/* The compiler looks for equal tables, so each has a hash; those from a .pyc have none, and of them, the size and the beginning
 * count. What is behind the end of a short one belongs to others, and changes. */
static uint64_t table_identity(const char *table) {
  uint64_t size = word_at(table, BYTES_SIZE), start[2] = {0, 0};
  memcpy(start, table + BYTES_DATA, size < sizeof start ? size : sizeof start);
  return hash_pair(hash_pair(size, word_at(table, BYTES_HASH)), hash_pair(start[0], start[1]));
}

/* Identifies the code object beyond its pointers: names and line tables are freed and their addresses are reused as well.
 * Returns the version of the code object if it has one, else a hash of what its name and its line table begin with. */
static uint64_t identity_of(const struct stack_target *target, const char *object, const char *identity) {
  if (target->layout->code_version >= 0) return (uint32_t)int_at(object, target->layout->code_version);
  uint64_t name = hash_pair(word_at(identity, STR_LENGTH), word_at(identity, STR_HASH));
  return hash_pair(name, table_identity(identity + NAME_BYTES));
}

static uint64_t fingerprint_of(const struct stack_target *target, const char *object, const char *identity) {
  const struct python_layout *layout = target->layout;
  uint64_t fingerprint = hash_pair(word_at(object, layout->code_file), word_at(object, layout->code_name));
  fingerprint = hash_pair(fingerprint, word_at(object, layout->code_line_table));
  fingerprint = hash_pair(fingerprint, (uint64_t)(uint32_t)int_at(object, layout->code_first_line));
  fingerprint = hash_pair(fingerprint, identity_of(target, object, identity));
  return hash_pair(fingerprint, layout->version == 0x30a ? word_at(object, layout->code_bytecode)
                                                         : word_at(object, VAR_SIZE + layout->object_header));
}

static SLOW_PATH struct code_facts write_new_code(const struct stack_target *target, uintptr_t code, const char *object,
                                                  uint64_t fingerprint) {
  struct code_parts parts;
  struct code_facts facts = {0, 0, -1};
  if (!read_parts(target, code, object, &parts)) return facts;
  facts.units = (int32_t)(parts.bytecode.bytes / 2);
  if (target->layout->code_first_traceable >= 0)
    facts.first_traceable = int_at(object, target->layout->code_first_traceable);
  uint64_t hash = hash_parts(target, &parts);
  if (!hash || !write_code(target, hash, &parts)) return facts;
  facts.hash = hash;
  store_entry(target, code, fingerprint, facts);
  return facts;
}

struct code_facts dictionary_code(const struct stack_target *target, uintptr_t code, const char *object,
                                  const char *identity) {
  if (word_at(object, OBJECT_TYPE + target->layout->object_header) != target->code_type)
    return (struct code_facts){0, 0, 0};
  uint64_t fingerprint = fingerprint_of(target, object, identity);
  struct code_facts facts = find_entry(target, code, &fingerprint);
  return facts.hash ? facts : write_new_code(target, code, object, fingerprint);
}

struct code_facts dictionary_code_remembered(const struct stack_target *target, uintptr_t code) {
  return find_entry(target, code, NULL);
}

uint64_t dictionary_node_hash(uint64_t parent, uint64_t code, int32_t instruction) {
  return hash_not_zero(hash_pair(hash_pair(parent, code), (uint64_t)(uint32_t)instruction + 1));
}

bool dictionary_node_known(uint64_t hash) {
  return atomic_load_explicit(&node_cache[hash % NODE_CACHE], memory_order_relaxed) == hash;
}

bool dictionary_node_write(const struct record_node *node) {
  struct record_node *record = spool_claim(1);
  if (!record) return false;
  memcpy((char *)record + sizeof record->head, (const char *)node + sizeof node->head,
         sizeof *node - sizeof node->head);
  spool_publish(record, RECORD_NODE, 1);
  atomic_store_explicit(&node_cache[node->hash % NODE_CACHE], node->hash, memory_order_relaxed);
  return true;
}

uint64_t dictionary_labelled(const struct record_node *innermost, uint64_t label) {
  struct record_node node = *innermost;
  node.hash = hash_not_zero(hash_pair(innermost->hash, label));
  node.label = label;
  return dictionary_node_known(node.hash) || dictionary_node_write(&node) ? node.hash : 0;
}
