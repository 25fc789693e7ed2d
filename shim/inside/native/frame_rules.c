/* Finds the FDE of an address by the sorted table in .eh_frame_hdr, and caches the rules.
 *
 * No table is compiled ahead: for a large library, it would take tens of megabytes of the program's address space, and
 * most of it would never be used. */
#include "inside/native/frame_rules.h"

#include "formats/spool/spool.h"
#include "inside/native/cursor.h"
#include "inside/native/frame_program.h"
#include "inside/native/images.h"
#include "shared/base.h"
#include "shared/saferead.h"

/* The number of the images' current state in 16 bits, never 0. */
static uint64_t short_generation(void) { return images_generation() % 65535 + 1; }

/* Distributes keys over the slots of a cache; `count` is a power of two. */
static size_t slot_of(uint64_t key, size_t count) { return (key * 0x9e3779b97f4a7c15u >> 32) % count; }

/* ---- the sorted table ---- */

#define HEADER_BYTES 12
#define PIECE 32 /* entries that are read at once from a library that may be unmapped */

/* An entry: the start of a function and its FDE, both relative to .eh_frame_hdr. */
struct hdr_entry {
  int32_t start, fde;
};

struct hdr {
  uintptr_t at;
  uint32_t count;
  bool plain;
  uint64_t generation; /* of the images */
};

static bool copy_bytes(const struct hdr *hdr, void *to, uintptr_t from, size_t size) {
  if (!hdr->plain) return safe_read(to, (void *)from, size);
  memcpy(to, (const void *)from, size);
  return true;
}

/* The header and the first steps of a search are the same for many addresses. Of libraries that may be unmapped, the
 * words that they read are cached, so that a search takes one system call instead of ten. `mixed` = key ^ word shows
 * when two threads have mixed up an entry. */
#define CACHED_WORDS 2048
struct cached_word {
  _Atomic uint64_t mixed, word;
};
static struct cached_word words[CACHED_WORDS];

static bool read_word(const struct hdr *hdr, uintptr_t at, uint32_t *out) {
  if (hdr->plain) return copy_bytes(hdr, out, at, sizeof *out);
  struct cached_word *entry = &words[slot_of(at, CACHED_WORDS)];
  uint64_t key = hdr->generation << 48 | at, word = atomic_load_explicit(&entry->word, memory_order_relaxed);
  if ((atomic_load_explicit(&entry->mixed, memory_order_relaxed) ^ word) == key) return *out = (uint32_t)word, true;
  if (!copy_bytes(hdr, out, at, sizeof *out)) return false;
  atomic_store_explicit(&entry->word, *out, memory_order_relaxed);
  atomic_store_explicit(&entry->mixed, key ^ *out, memory_order_relaxed);
  return true;
}

/* Only the form that all linkers write is supported: version 1, a count of 4 bytes, entries relative to the header. The
 * second byte says how .eh_frame's address is encoded, which is not needed but must have 4 bytes. */
static bool read_header(const struct image *image, struct hdr *out) {
  uint32_t encodings;
  *out = (struct hdr){image->tables, 0, image->stays, short_generation()};
  if (!image->tables || image->tables < image->tables_low || image->tables >= image->tables_high) return false;
  size_t room = image->tables_high - image->tables;
  if (room < HEADER_BYTES || !read_word(out, image->tables, &encodings)) return false;
  if ((encodings & 0xffff07ff) != 0x3b030301 || !read_word(out, image->tables + 8, &out->count)) return false;
  return out->count <= (room - HEADER_BYTES) / sizeof(struct hdr_entry);
}

static uintptr_t address_of_entry(const struct hdr *hdr, uint32_t index) {
  return hdr->at + HEADER_BYTES + (uintptr_t)index * sizeof(struct hdr_entry);
}

/* Narrows [low, high) to at most `most` entries, of which the last one that begins at or before `offset` is one. */
static bool narrow(const struct hdr *hdr, int64_t offset, uint32_t most, uint32_t *low, uint32_t *high) {
  while (*high - *low > most) {
    uint32_t middle = *low + (*high - *low) / 2;
    uint32_t start;
    if (!read_word(hdr, address_of_entry(hdr, middle), &start)) return false;
    if ((int32_t)start <= offset) {
      *low = middle;
    } else {
      *high = middle;
    }
  }
  return *low < *high;
}

/* Reads the remaining entries in one piece. */
static bool pick(const struct hdr *hdr, int64_t offset, uint32_t low, uint32_t high, struct hdr_entry *out) {
  struct hdr_entry entry[PIECE];
  size_t size = (high - low) * sizeof *entry;
  if (!safe_read(entry, (const void *)address_of_entry(hdr, low), size)) return false;
  uint32_t at = 0;
  for (uint32_t i = 1; i < high - low; i++) {
    if (entry[i].start <= offset) at = i;
  }
  *out = entry[at];
  return true;
}

/* Returns the FDE of the last function that begins at or before `lookup`; 0 = there is none. */
static uintptr_t find_fde(const struct image *image, uintptr_t lookup) {
  struct hdr hdr;
  struct hdr_entry found;
  if (!read_header(image, &hdr)) return 0;
  int64_t offset = (int64_t)(lookup - hdr.at);
  uint32_t low = 0, high = hdr.count;
  if (!narrow(&hdr, offset, hdr.plain ? 1 : PIECE, &low, &high)) return 0;
  if (hdr.plain) {
    memcpy(&found, (const void *)address_of_entry(&hdr, low), sizeof found);
  } else if (!pick(&hdr, offset, low, high, &found)) {
    return 0;
  }
  return found.start <= offset ? hdr.at + (uintptr_t)(intptr_t)found.fde : 0;
}

enum rule_result frame_rules_read(const struct image *image, uintptr_t pc, bool is_return, struct frame_rule *out) {
  uintptr_t lookup = pc - is_return;
  struct frame_tables tables = {image->tables_low, image->tables_high, image->stays};
  uintptr_t fde = find_fde(image, lookup);
  bool found = fde && frame_program_run(&tables, fde, pc, lookup, out);
  if (!found) *out = (struct frame_rule){.start = 0};
  out->pc_class = (uint8_t)image->pc_class;
  if (is_return && images_follows_call(pc, image)) out->flags |= RULE_CALLED;
  return found ? RULE_FOUND : RULE_MISSING;
}

/* ---- the cache ----
 *
 * An entry is written without a lock, so two threads may mix up its words. Then the check is wrong, and the entry is
 * ignored. The key of an address in a library that may be unmapped contains the number of the images' current state. */

#define CACHED_RULES 4096
#define RULE_WORDS (sizeof(struct frame_rule) / sizeof(uint64_t))
#define FOUND_BIT 0x80 /* in flags: RULE_FOUND, else RULE_MISSING */

struct rule_entry {
  _Atomic uint64_t key, check, word[RULE_WORDS];
};
static struct rule_entry cache[CACHED_RULES];

union rule_words {
  struct frame_rule rule;
  uint64_t word[RULE_WORDS];
};

static uint64_t key_of(uintptr_t pc, bool is_return, uint64_t generation) {
  return generation << 48 | (uint64_t)pc << 1 | is_return;
}

static struct rule_entry *entry_of(uintptr_t pc, bool is_return) {
  return &cache[slot_of(pc * 2 + is_return, CACHED_RULES)];
}

static uint64_t check_of(uint64_t key, const uint64_t *word) {
  uint64_t check = key * 0x9e3779b97f4a7c15u;
  for (size_t i = 0; i < RULE_WORDS; i++) check = (check ^ word[i]) * 0xbf58476d1ce4e5b9u + (check >> 32);
  return check | 1;
}

static bool load(uintptr_t pc, bool is_return, uint64_t generation, union rule_words *out) {
  struct rule_entry *entry = entry_of(pc, is_return);
  uint64_t key = atomic_load_explicit(&entry->key, memory_order_relaxed);
  if (key != key_of(pc, is_return, 0) && key != key_of(pc, is_return, generation)) return false;
  for (size_t i = 0; i < RULE_WORDS; i++) out->word[i] = atomic_load_explicit(&entry->word[i], memory_order_relaxed);
  return atomic_load_explicit(&entry->check, memory_order_relaxed) == check_of(key, out->word);
}

static void store(uintptr_t pc, bool is_return, uint64_t generation, const union rule_words *rule) {
  struct rule_entry *entry = entry_of(pc, is_return);
  uint64_t key = key_of(pc, is_return, generation);
  atomic_store_explicit(&entry->key, key, memory_order_relaxed);
  for (size_t i = 0; i < RULE_WORDS; i++) atomic_store_explicit(&entry->word[i], rule->word[i], memory_order_relaxed);
  atomic_store_explicit(&entry->check, check_of(key, rule->word), memory_order_relaxed);
}

static SLOW_PATH enum rule_result read_and_store(uintptr_t pc, bool is_return, uint64_t generation,
                                                 struct frame_rule *out) {
  union rule_words words = {.word = {0}};
  struct image image;
  if (!images_find(pc - is_return, &image)) {
    *out = (struct frame_rule){.pc_class = PC_UNKNOWN};
    if (is_return && images_follows_call_elsewhere(pc)) out->flags = RULE_CALLED;
    return RULE_OUTSIDE;
  }
  enum rule_result result = frame_rules_read(&image, pc, is_return, &words.rule);
  *out = words.rule;
  if (result == RULE_FOUND) words.rule.flags |= FOUND_BIT;
  store(pc, is_return, image.stays ? 0 : generation, &words);
  return result;
}

enum rule_result frame_rules_find(uintptr_t pc, bool is_return, struct frame_rule *out) {
  uint64_t generation = short_generation();
  union rule_words words;
  if (!load(pc, is_return, generation, &words)) return read_and_store(pc, is_return, generation, out);
  *out = words.rule;
  out->flags &= (uint8_t)~FOUND_BIT;
  return words.rule.flags & FOUND_BIT ? RULE_FOUND : RULE_MISSING;
}
