/* Names the stack of an allocation or a free without reading code objects.
 *
 * The frames are read as frames.c reads them, and compared with those of the stack before, from the outermost inwards:
 * as far as frame, code and instruction are the same, so are the nodes. The code of each other frame must be a known
 * one (codes.h), with the instruction inside. So a chain of frames that is wrong for a moment (docs/design/stacks.md)
 * is accepted only if each of its frames leads to a code object, as in chain_verify, and nothing that it points to is
 * read.
 *
 * Two arrays are filled in turn, so that the frames of the stack before are there for the comparison. Nothing in
 * them depends on the thread, so any thread may use any pair that is free. */
#include "inside/stacks/recent.h"

#include "inside/core/thread_state.h"
#include "inside/stacks/chunks.h"
#include "inside/stacks/codes.h"
#include "shared/base.h"
#include "shared/saferead.h"
#include "shared/stacks/chain.h"
#include "shared/stacks/dictionary.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/scratch.h"

#define PAIRS 4
#define GC_HEADER_BYTES 16  /* in front of an object that the collector knows */
#define VERIFIED_EVERY 4096 /* stacks, of which one is read and verified anyway */

struct pair {
  _Atomic uint32_t owner; /* 0 = free */
  uint32_t count;         /* frames of the stack before */
  uint32_t stacks;
  uint32_t last; /* which array holds it */
  uint64_t generation;
  struct frame_entry entry[2][MAX_FRAMES];
};
static struct pair pairs[PAIRS];

static struct pair *take_pair(void) {
  for (uint32_t i = 0; i < PAIRS; i++) {
    struct pair *pair = &pairs[(this_thread.id + i) % PAIRS];
    uint32_t free = 0;
    if (atomic_compare_exchange_strong(&pair->owner, &free, 1)) return pair;
  }
  return NULL;
}

static void give_pair(struct pair *pair) { atomic_store_explicit(&pair->owner, 0, memory_order_release); }

void recent_postfork_child(void) {
  for (int i = 0; i < PAIRS; i++) give_pair(&pairs[i]);
}

/* True if the frame is part of a generator or coroutine whose block is alive. That is tested only after the frame
 * was found in the thread's chain. If the thread holds the GIL, no other one can free the block. If it does not, it
 * stands still in native code, and its chain, which is right then, refers to the generator. */
static bool is_in_generator(const struct python_layout *layout, uintptr_t address) {
  uintptr_t before = GC_HEADER_BYTES + (uintptr_t)layout->generator_frame;
  return codes_block_lives(address - before, before + (size_t)layout->frame_bytes);
}

/* Frames of the C stack are those with which a bytecode loop begins (3.12, 3.13). */
static bool is_mapped(const struct python_layout *layout, struct chunk *cursor, uintptr_t address) {
  return chunk_find(cursor, address) || thread_stack_holds(address, (size_t)layout->frame_bytes) ||
         is_in_generator(layout, address);
}

static const char *frame_bytes(const struct stack_target *target, struct chunk *cursor, uintptr_t address, char *copy) {
  const struct python_layout *layout = target->layout;
  if (address < 65536 || (address & 7)) return NULL;
  if (layout->frame_owner < 0 || is_mapped(layout, cursor, address)) return (const char *)address;
  return safe_read(copy, (void *)address, (size_t)layout->frame_bytes) ? copy : NULL;
}

/* Collects the frames from `address` outwards. Returns their number; 0 = none, too many, or the chain is wrong. */
static uint32_t collect(const struct stack_target *target, const char *state, uintptr_t address,
                        struct frame_entry *out) {
  struct chunk cursor = chunk_newest(target->layout, state);
  char copy[MAX_FRAME_BYTES];
  uint32_t count = 0;
  for (int seen = 0; address; seen++) {
    if (count >= MAX_FRAMES || seen >= 2 * MAX_FRAMES) return 0;
    const char *frame = frame_bytes(target, &cursor, address, copy);
    if (!frame) return 0;
    enum chain_frame kind = chain_read(target, address, frame, &out[count]);
    if (kind == CHAIN_BROKEN) return 0;
    count += kind == CHAIN_FRAME;
    address = word_at(frame, target->layout->frame_previous);
  }
  return count;
}

static bool is_same(const struct frame_entry *a, const struct frame_entry *b) {
  return a->frame == b->frame && a->code == b->code && a->instruction == b->instruction && a->owner == b->owner;
}

/* Sets the node of a frame whose caller has the node `parent`. A frame that is still being set up has that of its
 * caller. */
static bool name_frame(const struct stack_target *target, struct frame_entry *entry, uint64_t parent) {
  struct code_facts facts = {0, 0, 0};
  if (codes_known(entry->code)) facts = dictionary_code_remembered(target, entry->code);
  if (!facts.hash || entry->instruction >= facts.units) return false;
  entry->hash = facts.hash;
  bool begins = entry->owner != OWNER_GENERATOR && entry->instruction < facts.first_traceable;
  entry->node = begins ? parent : dictionary_node_hash(parent, facts.hash, entry->instruction);
  return true;
}

/* Returns the hash of the innermost node; 0 = a code object is not known. */
static uint64_t name_frames(const struct stack_target *target, struct frame_entry *fresh, uint32_t count,
                            const struct frame_entry *before, uint32_t before_count) {
  uint64_t node = 0;
  bool same = true;
  for (uint32_t k = 1; k <= count; k++) {
    struct frame_entry *entry = &fresh[count - k];
    same = same && k <= before_count && is_same(entry, &before[before_count - k]);
    if (same) {
      entry->node = before[before_count - k].node;
      entry->hash = before[before_count - k].hash;
    } else if (!name_frame(target, entry, node)) {
      return 0;
    }
    node = entry->node;
  }
  return node;
}

/* Writes the nodes that may not be in the spool, parents first. Their code objects are known, so they are there. */
static bool write_nodes(const struct stack_target *target, const struct frame_entry *fresh, uint32_t count) {
  uint64_t parent = 0;
  for (uint32_t i = count; i-- > 0;) {
    const struct frame_entry *entry = &fresh[i];
    struct record_node node = {.thread = target->thread,
                               .hash = entry->node,
                               .parent = parent,
                               .code = entry->hash,
                               .instruction = entry->instruction};
    bool begins = entry->node == parent; /* it is still being set up, and has no node of its own */
    if (!begins && !dictionary_node_known(node.hash) && !dictionary_node_write(&node)) return false;
    parent = entry->node;
  }
  return true;
}

static uint64_t read_stack(const struct stack_target *target, const char *state, uintptr_t innermost,
                           struct pair *pair) {
  if (++pair->stacks % VERIFIED_EVERY == 0) return 0;
  uint64_t generation = codes_generation();
  struct frame_entry *fresh = pair->entry[!pair->last];
  uint32_t count = collect(target, state, innermost, fresh);
  uint32_t before = pair->generation == generation ? pair->count : 0;
  uint64_t node = count ? name_frames(target, fresh, count, pair->entry[pair->last], before) : 0;
  if (!node || (!dictionary_node_known(node) && !write_nodes(target, fresh, count))) return 0;
  pair->last = !pair->last;
  pair->count = count;
  pair->generation = generation;
  return node;
}

uint64_t recent_stack(const struct stack_target *target, const char *state, uintptr_t innermost) {
  struct pair *pair = codes_followed() ? take_pair() : NULL;
  if (!pair) return 0;
  uint64_t node = read_stack(target, state, innermost, pair);
  give_pair(pair);
  return node;
}
