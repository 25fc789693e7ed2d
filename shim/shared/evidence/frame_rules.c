/* Caches the rules of addresses.
 *
 * No table is compiled ahead: for a large library, it would take tens of megabytes of the program's address space, and
 * most of it would never be used. */
#include "shared/evidence/frame_rules.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/evidence/access.h"
#include "shared/native/frame_program.h"
#include "shared/native/frame_tables.h"

/* The number of the images' current state in 16 bits, never 0. */
static uint64_t short_generation(void) { return image_access.generation() % 65535 + 1; }

/* Distributes keys over the slots of a cache; `count` is a power of two. */
static size_t slot_of(uint64_t key, size_t count) { return (key * 0x9e3779b97f4a7c15u >> 32) % count; }

bool frame_rules_read(const struct image *image, uintptr_t pc, bool is_return, struct frame_rule *out) {
  bool found = frame_tables_find(image, short_generation(), pc, is_return, out);
  if (is_return && image_access.follows_call(pc, image)) out->flags |= RULE_CALLED;
  return found;
}

/* ---- the cache ----
 *
 * An entry is written without a lock, so two threads may mix up its words. Then the check is wrong, and the entry is
 * ignored. The key of an address in a library that may be unmapped contains the number of the images' current state. */

#define CACHED_RULES 4096
#define RULE_WORDS (sizeof(struct frame_rule) / sizeof(uint64_t))
#define FOUND_BIT 0x80 /* in flags: there is a rule */

struct rule_entry {
  _Atomic uint64_t key, check, word[RULE_WORDS];
};
static struct rule_entry cache[CACHED_RULES];

union rule_words {
  struct frame_rule rule;
  uint64_t word[RULE_WORDS];
};

static uint64_t key_of(uintptr_t pc, bool is_return, uint64_t generation) {
  return generation << (ARCH_ADDRESS_BITS + 1) | (uint64_t)pc << 1 | is_return;
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

static SLOW_PATH bool read_and_store(uintptr_t pc, bool is_return, uint64_t generation, struct frame_rule *out) {
  union rule_words words = {.word = {0}};
  struct image image;
  if (!image_access.find(pc - is_return, &image)) {
    *out = (struct frame_rule){.pc_class = PC_UNKNOWN};
    if (is_return && image_access.follows_call_elsewhere(pc)) out->flags = RULE_CALLED;
    return false;
  }
  bool found = frame_rules_read(&image, pc, is_return, &words.rule);
  *out = words.rule;
  if (found) words.rule.flags |= FOUND_BIT;
  store(pc, is_return, image.stays ? 0 : generation, &words);
  return found;
}

bool frame_rules_find(uintptr_t pc, bool is_return, struct frame_rule *out) {
  uint64_t generation = short_generation();
  union rule_words words;
  if (!load(pc, is_return, generation, &words)) return read_and_store(pc, is_return, generation, out);
  *out = words.rule;
  out->flags &= (uint8_t)~FOUND_BIT;
  return words.rule.flags & FOUND_BIT;
}
