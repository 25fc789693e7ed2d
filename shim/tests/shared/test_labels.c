/* Tests the walk from a context to its label, on tries made by hand: each kind of node, absent variables, and memory that
 * holds something else. */
#include "shared/objects/labels.h"

#include "shared/base.h"
#include "shared/spool.h"
#include "shared/stacks/pylayout.h"
#include "tests/check.h"

/* ---- stand-ins ---- */

static struct record_type records[32];
static unsigned claims;
static bool is_full;

void *spool_claim(unsigned slots) {
  check(slots <= sizeof records / SPOOL_SLOT_BYTES);
  claims++;
  return is_full ? NULL : records;
}

void spool_publish(void *record, unsigned kind, unsigned slots) {
  check(record == records && kind == RECORD_TYPE && slots >= 2);
}

/* ---- objects ---- */

struct words {
  uintptr_t at[40];
};
static _Alignas(16) char variable[16], value[LABELS_MOST_BYTES + 64];
static struct words context, trie;
static const enum label_node *kinds; /* of the nodes, in the order of the walk */

static uintptr_t address_of(const void *object) { return (uintptr_t)object; }

static void set_value(const char *text, size_t bytes) {
  uint64_t size = LABELS_MAGIC_BYTES + bytes;
  memcpy(value + BYTES_SIZE, &size, sizeof size);
  memcpy(value + BYTES_DATA, LABELS_MAGIC, LABELS_MAGIC_BYTES);
  memcpy(value + BYTES_DATA + LABELS_MAGIC_BYTES, text, bytes);
}

static struct label_walk walk_from(uint64_t hash, const struct words *root, const enum label_node *of_nodes) {
  context.at[3] = address_of(&trie);
  trie.at[2] = address_of(root);
  kinds = of_nodes;
  struct label_walk walk = labels_begin(address_of(&context), address_of(variable), hash);
  for (int i = 0; labels_wants(&walk); i++) {
    check(i < 3000);
    check(labels_wants(&walk) <= LABELS_PIECE);
    labels_step(&walk, (const char *)walk.at, walk.state == LABEL_NODE ? *kinds++ : LABEL_NO_NODE);
  }
  return walk;
}

static struct words bitmap_node(uint32_t bitmap) { return (struct words){{1, 0, 2, bitmap}}; }

static void finds_the_value_in_a_bitmap(void) {
  struct words node = bitmap_node(1u << 3 | 1u << 9);
  node.at[6] = address_of(variable), node.at[7] = address_of(value);
  struct label_walk walk = walk_from(9, &node, (const enum label_node[]){LABEL_BITMAP});
  check(walk.state == LABEL_FOUND && walk.bytes == 3);
  check(memcmp((const char *)walk.at, "a=b", 3) == 0);
  check(walk_from(8, &node, (const enum label_node[]){LABEL_BITMAP}).state == LABEL_NONE);
  check(walk_from(3, &node, (const enum label_node[]){LABEL_BITMAP}).state == LABEL_UNREAD); /* a node at 0 */
  node.at[4] = 65536 + 64;                                                                   /* another variable */
  check(walk_from(3, &node, (const enum label_node[]){LABEL_BITMAP}).state == LABEL_NONE);
}

static void finds_the_value_below_an_array_and_a_collision(void) {
  const enum label_node of_nodes[] = {LABEL_ARRAY, LABEL_BITMAP, LABEL_COLLISION};
  uint64_t hash = 7 | 5 << 5;
  struct words array = {{1, 0}}, middle = bitmap_node(1u << 5), last = {{1, 0, 4, 0, 65536 + 64, 1, 0, 0}};
  array.at[2 + 7] = address_of(&middle);
  middle.at[5] = address_of(&last);
  last.at[6] = address_of(variable), last.at[7] = address_of(value);
  check(walk_from(hash, &array, of_nodes).state == LABEL_FOUND);
  last.at[6] = 65536 + 128;
  check(walk_from(hash, &array, of_nodes).state == LABEL_NONE);
  last.at[2] = 1 << 20;
  check(walk_from(hash, &array, of_nodes).state == LABEL_UNREAD);
  check(walk_from(8, &array, of_nodes).state == LABEL_NONE);
}

/* The hash is folded as Python folds it: -1 means an error there. */
static void folds_the_hash(void) {
  struct words node = bitmap_node(1u << 30);
  node.at[4] = address_of(variable), node.at[5] = address_of(value);
  check(walk_from(0xffffffffu, &node, (const enum label_node[]){LABEL_BITMAP}).state == LABEL_FOUND);
  check(walk_from((uint64_t)30 << 32, &node, (const enum label_node[]){LABEL_BITMAP}).state == LABEL_FOUND);
}

static void a_trie_that_leads_to_itself_ends(void) {
  struct words node = bitmap_node(~0u);
  for (int i = 5; i < 40; i += 2) node.at[i - 1] = 0, node.at[i] = address_of(&node);
  const enum label_node of_nodes[] = {LABEL_BITMAP, LABEL_BITMAP, LABEL_BITMAP, LABEL_BITMAP, LABEL_BITMAP,
                                      LABEL_BITMAP, LABEL_BITMAP, LABEL_BITMAP, LABEL_BITMAP, LABEL_BITMAP};
  check(walk_from(0, &node, of_nodes).state == LABEL_UNREAD);
}

static void other_values_are_no_labels(void) {
  struct words node = bitmap_node(1);
  const enum label_node of_nodes[] = {LABEL_BITMAP};
  node.at[4] = address_of(variable), node.at[5] = address_of(value);
  for (uint64_t size = 0; size < LABELS_MOST_BYTES + 100; size++) {
    memcpy(value + BYTES_SIZE, &size, sizeof size);
    bool is_label = size > LABELS_MAGIC_BYTES && size <= LABELS_MAGIC_BYTES + LABELS_MOST_BYTES;
    check(walk_from(0, &node, of_nodes).state == (is_label ? LABEL_FOUND : LABEL_NONE));
  }
  set_value("a=b", 3);
  value[BYTES_DATA] = 'x';
  check(walk_from(0, &node, of_nodes).state == LABEL_NONE);
  set_value("a=b", 3);
  check(walk_from(0, &node, (const enum label_node[]){LABEL_NO_NODE}).state == LABEL_UNREAD);
  check(labels_begin(0, address_of(variable), 0).state == LABEL_NONE);
  check(labels_begin(address_of(&context), 0, 0).state == LABEL_NONE);
  check(labels_begin(4097, address_of(variable), 0).state == LABEL_UNREAD);
}

static void a_text_is_written_once(void) {
  uint64_t hash = labels_hash("a=b", 3, 5);
  check(hash && claims == 1 && records[0].type == hash && records[0].thread == 5 && records[0].name_bytes == 3);
  check(memcmp(records + 1, "a=b", 3) == 0);
  check(labels_hash("a=b", 3, 6) == hash && claims == 1);
  check(labels_hash("a=c", 3, 5) != hash && labels_hash("a=b", 2, 5) != hash && claims == 3);
  is_full = true;
  check(labels_hash("b=c", 3, 5) == 0 && labels_hash("b=c", 3, 5) == 0);
  is_full = false;
  check(labels_hash("b=c", 3, 5) != 0);
}

int main(void) {
  set_value("a=b", 3);
  finds_the_value_in_a_bitmap();
  finds_the_value_below_an_array_and_a_collision();
  folds_the_hash();
  a_trie_that_leads_to_itself_ends();
  other_values_are_no_labels();
  a_text_is_written_once();
  check(labels_node_kind("hamt_bitmap_node") == LABEL_BITMAP);
  check(labels_node_kind("hamt_array_node") == LABEL_ARRAY);
  check(labels_node_kind("hamt_collision_node") == LABEL_COLLISION);
  check(labels_node_kind("dict\0\0\0\0\0\0\0\0\0\0\0\0") == LABEL_NO_NODE);
  return 0;
}
