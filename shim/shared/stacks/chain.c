/* Turns a chain of frames into a stack: checks that every frame leads to a code object, then writes the frames as nodes
 * into the spool.
 *
 * A frame's address may be garbage, so the check reads the code objects, which costs system calls. Outer frames that
 * are the same as in an earlier walk are therefore verified only once in ROTATION walks (frame_memo). */
#include "shared/stacks/chain.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/saferead.h"
#include "shared/stacks/dictionary.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/scratch.h"
#include "shared/stacks/target.h"
#include "shared/words.h"

#define ALWAYS_VERIFIED 16 /* innermost frames */
#define ROTATION 8         /* at each walk, one in ROTATION of the other frames is verified again */
#define MEMO 4096

/* The verified frames: a hash of frame address, code address and instruction each. */
static _Atomic uint64_t frame_memo[MEMO];

/* The array of copies grows by being replaced, so it may be one that was freed. */
uintptr_t chain_copied_bytecode(const struct python_layout *layout, uintptr_t code, int copy) {
  struct {
    int64_t count;
    uintptr_t first;
  } found;
  struct iovec work[2];
  uintptr_t copies = 0;
  if (copy < 0 || !safe_read(&copies, (void *)(code + (uintptr_t)layout->code_copies), sizeof copies) || !copies)
    return 0;
  const uintptr_t from[2] = {copies, copies + COPIES_ADDRESSES + (uintptr_t)copy * sizeof copies};
  return safe_read_many(&found, from, 2, sizeof copies, work) && copy < found.count ? found.first : 0;
}

bool chain_add(const struct stack_target *target, struct scratch *scratch, uintptr_t address, const char *frame) {
  enum chain_frame kind = chain_read(target, address, frame, &scratch->entry[scratch->frames]);
  scratch->frames += kind == CHAIN_FRAME;
  return kind != CHAIN_BROKEN;
}

/* ---- every frame has a code object ---- */

static _Atomic uint64_t *memo_of(const struct frame_entry *entry) { return &frame_memo[(entry->frame >> 4) % MEMO]; }

static uint64_t memo_value(const struct frame_entry *entry) {
  return dictionary_node_hash(entry->frame, entry->code, entry->instruction);
}

/* Marks a frame that is still being set up. It is removed, because its time belongs to its caller. */
#define DROPPED INT32_MIN

static bool accept_frame(struct frame_entry *entry, struct code_facts facts) {
  entry->hash = facts.hash;
  if (!facts.hash || entry->instruction >= facts.units) return false;
  if (entry->owner != OWNER_GENERATOR && entry->instruction < facts.first_traceable) entry->instruction = DROPPED;
  return true;
}

static bool remembered(const struct stack_target *target, struct frame_entry *entry) {
  if (atomic_load_explicit(memo_of(entry), memory_order_relaxed) != memo_value(entry)) return false;
  return accept_frame(entry, dictionary_code_remembered(target, entry->code));
}

static bool read_identities(const struct stack_target *target, struct scratch *scratch, int count) {
  size_t bytes = (size_t)target->layout->code_bytes;
  if (target->layout->code_version >= 0) return true;
  for (int i = 0; i < count; i++)
    dictionary_identity(target, scratch->codes + (size_t)i * bytes, scratch->work + i * IDENTITY_PIECES);
  return safe_read_all(scratch->identities, scratch->work, count * IDENTITY_PIECES);
}

static bool verify_batch(const struct stack_target *target, struct scratch *scratch, const int *index, int count) {
  uintptr_t codes[SAFE_READ_MANY] = {0};
  size_t bytes = (size_t)target->layout->code_bytes;
  for (int i = 0; i < count; i++) codes[i] = scratch->entry[index[i]].code;
  if (!safe_read_many(scratch->codes, codes, count, bytes, scratch->work) || !read_identities(target, scratch, count))
    return false;
  for (int i = 0; i < count; i++) {
    struct frame_entry *entry = &scratch->entry[index[i]];
    uint64_t value = memo_value(entry);
    const char *code = scratch->codes + (size_t)i * bytes, *identity = scratch->identities + (size_t)i * IDENTITY_BYTES;
    if (!accept_frame(entry, dictionary_code(target, entry->code, code, identity))) return false;
    atomic_store_explicit(memo_of(entry), value, memory_order_relaxed);
  }
  return true;
}

static bool verify_all(const struct stack_target *target, struct scratch *scratch) {
  int index[SAFE_READ_MANY], count = 0;
  scratch->walks++;
  for (uint32_t i = 0; i < scratch->frames; i++) {
    bool old = !scratch->verify_all && i >= ALWAYS_VERIFIED && (i + scratch->walks) % ROTATION != 0;
    if (old && remembered(target, &scratch->entry[i])) continue;
    index[count++] = (int)i;
    if (count < SAFE_READ_MANY) continue;
    if (!verify_batch(target, scratch, index, count)) return false;
    count = 0;
  }
  return count == 0 || verify_batch(target, scratch, index, count);
}

static void remove_incomplete(struct scratch *scratch) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < scratch->frames; i++) {
    if (scratch->entry[i].instruction != DROPPED) scratch->entry[count++] = scratch->entry[i];
  }
  scratch->frames = count;
}

bool chain_verify(const struct stack_target *target, struct scratch *scratch) {
  if (!verify_all(target, scratch)) return false;
  remove_incomplete(scratch);
  return true;
}

/* ---- nodes ---- */

static struct record_node node_of(const struct stack_target *target, const struct scratch *scratch, uint32_t index,
                                  bool truncated) {
  const struct frame_entry *entry = &scratch->entry[index];
  bool is_outermost = index + 1 == scratch->frames;
  return (struct record_node){.thread = target->thread,
                              .hash = entry->node,
                              .parent = is_outermost ? 0 : scratch->entry[index + 1].node,
                              .code = entry->hash,
                              .instruction = entry->instruction,
                              .truncated = truncated && is_outermost};
}

/* Hashes the nodes from the outermost frame inwards. If the innermost node is known, so are its parents; else writes
 * those that are new, parents first. */
uint64_t chain_intern(const struct stack_target *target, struct scratch *scratch, bool truncated) {
  uint64_t hash = 0;
  for (uint32_t i = scratch->frames; i-- > 0;) {
    struct frame_entry *entry = &scratch->entry[i];
    hash = entry->node = dictionary_node_hash(hash, entry->hash, entry->instruction);
  }
  if (!hash) return 0;
  for (uint32_t i = dictionary_node_known(hash) ? 0 : scratch->frames; i-- > 0;) {
    struct record_node node = node_of(target, scratch, i, truncated);
    if (!dictionary_node_known(node.hash) && !dictionary_node_write(&node)) return 0;
  }
  if (!target->label) return hash;
  struct record_node innermost = node_of(target, scratch, 0, truncated);
  return dictionary_labelled(&innermost, target->label);
}
