/* Names the stack of an allocation or a free without reading code objects.
 *
 * The frames are read as frames.c reads them, from the innermost outwards, and compared with those of the stack before:
 * those further out that are all the same keep their nodes. The code of each other frame must be a known one (codes.h),
 * with the instruction inside. So a chain of frames that is wrong for a moment (docs/design/stacks.md) is accepted only
 * if each of its frames leads to a code object, as in chain_verify, and nothing that it points to is read.
 *
 * Of a stack that is deeper than MAX_FRAMES, the outermost frame that is kept is another one after each call and return,
 * and with it all nodes. All are named again then, from the same known code objects.
 *
 * The whole chain is compared each time, and only what has changed is written. Nothing in the stack before depends on the
 * thread, so any thread may use any of them that is free. */
#include "inside/stacks/recent.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inside/core/thread_state.h"
#include "inside/stacks/chunks.h"
#include "inside/stacks/codes.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/sealed/sealed.h"
#include "shared/stacks/chain.h"
#include "shared/stacks/dictionary.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/scratch.h"

#define MEMORIES 4
#define GC_HEADER_BYTES 16 /* in front of an object that the collector knows */
#define NEAR 8             /* frames that may have ended since the stack before, in any order */
#define REACH_BYTES ((uintptr_t)1 << 20)
#define STATE_ALIGNMENT 16
#define VERIFIED_EVERY 4096 /* stacks, of which one is read and verified anyway */

/* A frame, and what is known of its code object. */
struct named_frame {
  struct frame_entry entry;
  uintptr_t instruction; /* as it is in the frame */
  int32_t units, first_traceable;
};

struct memory {
  _Atomic uint32_t owner; /* 0 = free */
  uint32_t depth;         /* frames of the stack before */
  uint32_t stacks;
  bool truncated; /* the stack before had more frames, further out */
  uint64_t generation;
  struct named_frame frame[MAX_FRAMES]; /* of the stack before, the outermost first */
  struct named_frame fresh[MAX_FRAMES]; /* that differ from it, the innermost first */
};
/* Mapped when they are first needed, which is never unless every allocation is recorded. */
static _Atomic(struct memory *) memories[MEMORIES];

static struct memory *map_memory(_Atomic(struct memory *) *place) {
  struct memory *other = NULL;
  if (sealed()) return NULL;
  int saved_errno = errno;
  long memory = syscall(SYS_mmap, NULL, sizeof(struct memory), (long)(PROT_READ | PROT_WRITE),
                        (long)(MAP_PRIVATE | MAP_ANONYMOUS), -1L, 0L);
  errno = saved_errno;
  if (memory == -1) return NULL;
  if (atomic_compare_exchange_strong(place, &other, (struct memory *)memory)) return (struct memory *)memory;
  syscall(SYS_munmap, memory, sizeof(struct memory));
  return other;
}

static struct memory *take_memory(void) {
  for (uint32_t i = 0; i < MEMORIES; i++) {
    _Atomic(struct memory *) *place = &memories[(this_thread.id + i) % MEMORIES];
    struct memory *memory = atomic_load_explicit(place, memory_order_acquire);
    uint32_t free = 0;
    if (!memory && !(memory = map_memory(place))) continue;
    if (atomic_compare_exchange_strong(&memory->owner, &free, 1)) return memory;
  }
  return NULL;
}

static void give_memory(struct memory *memory) { atomic_store_explicit(&memory->owner, 0, memory_order_release); }

void recent_postfork_child(void) {
  for (int i = 0; i < MEMORIES; i++) {
    struct memory *memory = atomic_load_explicit(&memories[i], memory_order_relaxed);
    if (memory) give_memory(memory);
  }
}

/* True if the frame is part of a generator or coroutine whose block is alive. That is tested only after the frame
 * was found in the thread's chain. If the thread holds the GIL, no other one can free the block. If it does not, it
 * stands still in native code, and its chain, which is right then, refers to the generator. */
static bool is_in_generator(const struct python_layout *layout, uintptr_t address) {
  uintptr_t before = GC_HEADER_BYTES + (uintptr_t)layout->generator_frame;
  return codes_block_lives(address - before, before + (size_t)layout->frame_bytes);
}

/* From 3.15 on the outermost frame is part of the thread state, just behind the fields of which the size is published. */
static bool is_in_state(const struct python_layout *layout, const char *state, uintptr_t address) {
  return layout->version >= 0x30f && address - (uintptr_t)state - (uintptr_t)layout->tstate_bytes < STATE_ALIGNMENT;
}

/* Where few frames are. */
static APART bool is_mapped_elsewhere(const struct python_layout *layout, const char *state, struct chunk *cursor,
                                      uintptr_t address) {
  return layout->frame_owner < 0 || chunk_find(cursor, address) || is_in_state(layout, state, address) ||
         is_in_generator(layout, address);
}

/* Frames of the C stack are those with which a bytecode loop begins (3.12, 3.13). */
static inline bool is_mapped(const struct python_layout *layout, const char *state, struct chunk *cursor,
                             uintptr_t address) {
  return chunk_contains(cursor, address) || thread_stack_holds(address, (size_t)layout->frame_bytes) ||
         is_mapped_elsewhere(layout, state, cursor, address);
}

static inline const char *frame_in_place(const struct stack_target *target, const char *state, struct chunk *cursor,
                                         uintptr_t address) {
  if (address < 65536 || (address & 7)) return NULL;
  return is_mapped(target->layout, state, cursor, address) ? (const char *)address : NULL;
}

static const char *frame_bytes(const struct stack_target *target, const char *state, struct chunk *cursor,
                               uintptr_t address, char *copy) {
  const struct python_layout *layout = target->layout;
  const char *frame = frame_in_place(target, state, cursor, address);
  if (frame || address < 65536 || (address & 7)) return frame;
  return safe_read(copy, (void *)address, (size_t)layout->frame_bytes) ? copy : NULL;
}

/* Bit by bit, so that the compiler does not read two fields at once that have just been written one by one: the processor
 * would wait. */
static inline bool is_same(const struct frame_entry *a, const struct frame_entry *b) {
  return a->frame == b->frame && a->code == b->code && !((a->instruction ^ b->instruction) | (a->owner ^ b->owner));
}

/* A walk along the chain. The frames seen so far are `fresh` ones, then, if `same` is not 0, those of the stack before
 * from number `same` to number `left`, counted from 1 at the outermost. */
struct walk {
  uint32_t fresh, same, left;
  bool full;      /* there are more frames than MAX_FRAMES */
  bool truncated; /* those further out are left out */
};

/* The frames that seemed to be the same have other callers, so their nodes are other ones too. */
static bool renew_same(struct memory *memory, struct walk *walk) {
  for (uint32_t number = walk->same; number > walk->left; number--) {
    if (walk->fresh >= MAX_FRAMES) return walk->full = true, false;
    memory->fresh[walk->fresh++] = memory->frame[number - 1];
  }
  walk->same = 0;
  return true;
}

/* Leaves out frames of the stack before that have ended, as far as they are recognised: those inside the frame at that
 * address, or above it, because the frame stack grows upwards. Where that fails, frames are only named again. */
static void leave_out_ended(const struct memory *memory, struct walk *walk, uintptr_t address) {
  for (uint32_t i = 0; i < NEAR && i < walk->left; i++) {
    if (memory->frame[walk->left - 1 - i].entry.frame == address) {
      walk->left -= i;
      return;
    }
  }
  while (walk->left && memory->frame[walk->left - 1].entry.frame - address - 1 < REACH_BYTES) walk->left--;
}

/* Adds the next frame, further out. */
static bool add_frame(struct memory *memory, struct walk *walk, const struct frame_entry *entry,
                      uintptr_t instruction) {
  if (walk->same) {
    if (walk->left && is_same(entry, &memory->frame[walk->left - 1].entry)) return walk->left--, true;
    if (!renew_same(memory, walk)) return false;
  }
  leave_out_ended(memory, walk, entry->frame);
  const struct named_frame *before = walk->left ? &memory->frame[walk->left - 1] : NULL;
  if (before && is_same(entry, &before->entry)) {
    walk->same = walk->left--;
    return true;
  }
  if (walk->fresh >= MAX_FRAMES) return walk->full = true, false;
  bool same_code = before && before->entry.frame == entry->frame && before->entry.code == entry->code;
  struct named_frame *fresh = &memory->fresh[walk->fresh++];
  fresh->entry = *entry;
  fresh->instruction = instruction;
  fresh->entry.hash = same_code ? before->entry.hash : 0; /* 0 = not known yet */
  fresh->units = same_code ? before->units : 0;
  fresh->first_traceable = same_code ? before->first_traceable : 0;
  return true;
}

/* True if the bytes at `frame` are that frame of the stack before, but for the instruction. */
static inline bool is_frame(const struct python_layout *layout, const struct named_frame *before, uintptr_t address,
                            const char *frame) {
  return before->entry.frame == address &&
         before->entry.code == (word_at(frame, layout->frame_code) & layout->reference_mask) &&
         before->entry.owner == (signed char)frame[layout->frame_owner];
}

static inline bool is_unchanged(const struct python_layout *layout, const struct named_frame *before, uintptr_t address,
                                const char *frame) {
  return is_frame(layout, before, address, frame) && before->instruction == word_at(frame, layout->frame_instruction);
}

/* Passes over frames that lie in the chunk and are the same as before, which most are. Returns the next one. */
static ALWAYS_INLINE uintptr_t pass_same(const struct python_layout *layout, const struct memory *memory,
                                         uint32_t *left, const struct chunk *chunk, uintptr_t address) {
  for (; *left && chunk_contains(chunk, address); --*left) {
    if (!is_unchanged(layout, &memory->frame[*left - 1], address, (const char *)address)) break;
    address = word_at((const char *)address, layout->frame_previous);
  }
  return address;
}

/* Compares the frames from `address` outwards. False = there are none or too many, or the chain is wrong. */
static bool compare(const struct stack_target *target, const char *state, uintptr_t address, struct memory *memory,
                    struct walk *walk) {
  const struct python_layout *layout = target->layout;
  struct chunk cursor = chunk_newest(layout, state);
  struct frame_entry entry;
  char copy[MAX_FRAME_BYTES];
  for (int seen = 0; address; seen++) {
    if (walk->same && layout->frame_owner >= 0) address = pass_same(layout, memory, &walk->left, &cursor, address);
    if (!address) break;
    if (seen >= 2 * MAX_FRAMES) return false;
    const char *frame = frame_bytes(target, state, &cursor, address, copy);
    if (!frame) return false;
    enum chain_frame kind = chain_read(target, address, frame, &entry);
    uintptr_t instruction = word_at(frame, layout->frame_instruction);
    if (kind == CHAIN_BROKEN || (kind == CHAIN_FRAME && !add_frame(memory, walk, &entry, instruction))) return false;
    address = word_at(frame, layout->frame_previous);
  }
  if (walk->same && walk->left && !renew_same(memory, walk)) return false;
  walk->full = walk->fresh + walk->same > MAX_FRAMES;
  return walk->fresh + walk->same - 1 < MAX_FRAMES; /* there is at least one */
}

/* Takes the frames from `innermost` outwards, MAX_FRAMES at most, without a comparison. False = the chain is wrong. */
static bool take_all(const struct stack_target *target, const char *state, uintptr_t innermost, struct memory *memory,
                     struct walk *walk) {
  const struct python_layout *layout = target->layout;
  struct chunk cursor = chunk_newest(layout, state);
  uintptr_t address = innermost;
  char copy[MAX_FRAME_BYTES];
  *walk = (struct walk){.fresh = 0};
  for (int seen = 0; address && !walk->truncated; seen++) {
    struct named_frame *fresh = &memory->fresh[walk->fresh];
    const char *frame = seen < 2 * MAX_FRAMES ? frame_bytes(target, state, &cursor, address, copy) : NULL;
    if (!frame) return false;
    enum chain_frame kind = chain_read(target, address, frame, &fresh->entry); /* its hash is not known yet */
    if (kind == CHAIN_BROKEN) return false;
    fresh->instruction = word_at(frame, layout->frame_instruction);
    address = word_at(frame, layout->frame_previous);
    if (address == innermost) return false; /* a circle */
    walk->fresh += kind == CHAIN_FRAME;
    walk->truncated = address && walk->fresh == MAX_FRAMES;
  }
  return walk->fresh > 0;
}

/* Finds what has changed since the stack before. False = the chain is wrong. */
static bool changes(const struct stack_target *target, const char *state, uintptr_t innermost, struct memory *memory,
                    struct walk *walk) {
  *walk = (struct walk){.left = memory->depth, .full = memory->truncated && memory->depth};
  if (!walk->full && compare(target, state, innermost, memory, walk)) return true;
  return walk->full && take_all(target, state, innermost, memory, walk);
}

/* Sets the node of a frame whose caller has the node `parent`. A frame that is still being set up has that of its
 * caller. */
static bool name_frame(const struct stack_target *target, struct named_frame *frame, uint64_t parent) {
  struct frame_entry *entry = &frame->entry;
  if (!entry->hash) {
    struct code_facts facts = {0, 0, 0};
    if (codes_known(entry->code)) facts = dictionary_code_remembered(target, entry->code);
    entry->hash = facts.hash;
    frame->units = facts.units;
    frame->first_traceable = facts.first_traceable;
  }
  if (!entry->hash || entry->instruction >= frame->units) return false;
  bool begins = entry->owner != OWNER_GENERATOR && entry->instruction < frame->first_traceable;
  entry->node = begins ? parent : dictionary_node_hash(parent, entry->hash, entry->instruction);
  return true;
}

/* Names the fresh frames and puts them in the place of those that they replace. False = a code object is not known. */
static bool name_fresh(const struct stack_target *target, struct memory *memory, const struct walk *walk) {
  uint64_t node = walk->same ? memory->frame[walk->same - 1].entry.node : 0;
  for (uint32_t i = walk->fresh; i-- > 0; node = memory->fresh[i].entry.node) {
    if (!name_frame(target, &memory->fresh[i], node)) return false;
  }
  memory->depth = walk->same;
  memory->truncated = walk->truncated;
  for (uint32_t i = walk->fresh; i-- > 0;) memory->frame[memory->depth++] = memory->fresh[i];
  return true;
}

/* ---- the same frames ---- */

/* True if the `left` outermost frames of the stack before are those from `address` outwards, and all are mapped. If it was
 * truncated, there are more. */
static bool are_same(const struct stack_target *target, const char *state, struct chunk *cursor, uintptr_t address,
                     const struct memory *memory, uint32_t left) {
  const struct python_layout *layout = target->layout;
  for (int seen = 0; (address = pass_same(layout, memory, &left, cursor, address)) != 0; seen++) {
    if (memory->truncated && !left) return true;
    const char *frame = seen < 2 * MAX_FRAMES ? frame_in_place(target, state, cursor, address) : NULL;
    if (!frame) return false;
    if ((signed char)frame[layout->frame_owner] < OWNER_NO_CODE) {
      if (!left || !is_unchanged(layout, &memory->frame[left - 1], address, frame)) return false;
      left--;
    }
    address = word_at(frame, layout->frame_previous);
  }
  return left == 0 && !memory->truncated;
}

/* Most stacks are the one before, but for the instruction of the innermost frame: that has done something else. Then only
 * that is named. False = nothing was done. */
static bool move_innermost(const struct stack_target *target, const char *state, uintptr_t innermost,
                           struct memory *memory) {
  const struct python_layout *layout = target->layout;
  if (layout->frame_owner < 0 || !memory->depth) return false;
  struct chunk cursor = chunk_newest(layout, state);
  struct named_frame *top = &memory->frame[memory->depth - 1];
  const char *frame = top->entry.frame == innermost ? frame_in_place(target, state, &cursor, innermost) : NULL;
  if (!frame || !is_frame(layout, top, innermost, frame)) return false;
  uintptr_t outer = word_at(frame, layout->frame_previous), instruction = word_at(frame, layout->frame_instruction);
  if (!are_same(target, state, &cursor, outer, memory, memory->depth - 1)) return false;
  if (instruction == top->instruction) return true;
  int64_t index = chain_instruction(target, frame, top->entry.code);
  bool begins = top->entry.owner != OWNER_GENERATOR && index < top->first_traceable;
  if (!top->entry.hash || begins || index < -1 || index >= top->units) return false;
  top->instruction = instruction;
  top->entry.instruction = (int32_t)index;
  uint64_t parent = memory->depth > 1 ? memory->frame[memory->depth - 2].entry.node : 0;
  top->entry.node = dictionary_node_hash(parent, top->entry.hash, (int32_t)index);
  return true;
}

static struct record_node node_of(const struct stack_target *target, const struct memory *memory, uint32_t index) {
  const struct frame_entry *entry = &memory->frame[index].entry;
  return (struct record_node){.thread = target->thread,
                              .hash = entry->node,
                              .parent = index ? memory->frame[index - 1].entry.node : 0,
                              .code = entry->hash,
                              .instruction = entry->instruction,
                              .truncated = memory->truncated && !index};
}

/* Writes the nodes that may not be in the spool, parents first. Their code objects are known, so they are there. */
static SLOW_PATH bool write_nodes(const struct stack_target *target, const struct memory *memory) {
  for (uint32_t i = 0; i < memory->depth; i++) {
    struct record_node node = node_of(target, memory, i);
    bool begins = node.hash == node.parent; /* it is still being set up, and has no node of its own */
    if (!begins && !dictionary_node_known(node.hash) && !dictionary_node_write(&node)) return false;
  }
  return true;
}

/* The node with the label is that of the innermost frame that is not being set up any more. */
static SLOW_PATH uint64_t with_label(const struct stack_target *target, const struct memory *memory) {
  struct record_node node = node_of(target, memory, memory->depth - 1);
  for (uint32_t i = memory->depth; i-- > 0 && node.hash == node.parent;) node = node_of(target, memory, i);
  return node.hash ? dictionary_labelled(&node, target->label) : 0;
}

/* Where the stack differs in more than the innermost frame's instruction. False = it cannot be named. */
static APART bool name_changes(const struct stack_target *target, const char *state, uintptr_t innermost,
                               struct memory *memory) {
  struct walk walk;
  return changes(target, state, innermost, memory, &walk) && name_fresh(target, memory, &walk);
}

static uint64_t read_stack(const struct stack_target *target, const char *state, uintptr_t innermost,
                           struct memory *memory) {
  if (++memory->stacks % VERIFIED_EVERY == 0) return 0;
  uint64_t generation = codes_generation();
  if (memory->generation != generation) memory->depth = 0;
  memory->generation = generation;
  if (!move_innermost(target, state, innermost, memory) && !name_changes(target, state, innermost, memory)) return 0;
  if (memory->truncated) loss_add(LOSS_deep_stack);
  uint64_t node = memory->frame[memory->depth - 1].entry.node;
  if (unlikely(!dictionary_node_known(node)) && !write_nodes(target, memory)) return 0;
  return unlikely(target->label) ? with_label(target, memory) : node;
}

uint64_t recent_stack(const struct stack_target *target, const char *state, uintptr_t innermost) {
  struct memory *memory = codes_followed() ? take_memory() : NULL;
  if (!memory) return 0;
  uint64_t node = read_stack(target, state, innermost, memory);
  give_memory(memory);
  return node;
}
