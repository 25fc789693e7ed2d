/* The Python stack of the calling thread, from inside a signal handler or an allocator.
 *
 * The interpreter may have been interrupted anywhere, so nothing is trusted: memory is copied by safe reads, every
 * frame must lead to a code object before it is followed, and a stack that does not add up is read once more, then
 * counted as torn. Frames that stay where they were since an earlier walk are not verified again (frame_memo). */
#include <string.h>

#include "dictionary.h"
#include "python.h"

#define PAGE 4096
#define ALWAYS_VERIFIED 4 /* innermost frames */
#define MEMO 4096

/* What was verified: mix of frame address, code address and instruction. */
static _Atomic uint64_t frame_memo[MEMO];

/* A part of memory read before, so that frames that lie together cost one read. */
struct window {
  uintptr_t start;
  size_t bytes;
  unsigned char *data;
};

static const unsigned char *look(struct window *window, uintptr_t address, size_t size) {
  if (address - window->start < window->bytes && size <= window->bytes - (address - window->start)) {
    return window->data + (address - window->start);
  }
  uintptr_t start = python_layout->frame_owner < 0 ? address : address & ~(uintptr_t)(PAGE - 1);
  size_t want = address + size - start;
  if (python_layout->frame_owner >= 0) want = (want + PAGE - 1) & ~(size_t)(PAGE - 1);
  window->start = start;
  window->bytes = safe_read_refused() ? 0 : safe_read_some(window->data, (void *)start, want);
  if (safe_read_refused()) return (const unsigned char *)address;
  return want && address - start + size <= window->bytes ? window->data + (address - start) : NULL;
}

struct frame {
  uintptr_t address, code, previous;
  uintptr_t instruction; /* pointer; 3.10: index */
  int owner;
};

static uintptr_t word_at(const unsigned char *bytes, int offset) {
  uintptr_t value;
  memcpy(&value, bytes + offset, sizeof value);
  return value;
}

static bool read_frame(struct window *window, uintptr_t address, struct frame *out) {
  const struct python_layout *layout = python_layout;
  const unsigned char *bytes = NULL;
  if (address >= 65536 && (address & 7) == 0) bytes = look(window, address, (size_t)layout->frame_bytes);
  if (!bytes) return false;
  out->address = address;
  out->code = word_at(bytes, layout->frame_code) & layout->code_mask;
  out->previous = word_at(bytes, layout->frame_previous);
  out->owner = layout->frame_owner < 0 ? 0 : (signed char)bytes[layout->frame_owner];
  if (layout->frame_owner < 0) {
    int32_t index;
    memcpy(&index, bytes + layout->frame_instruction, sizeof index);
    out->instruction = (uintptr_t)(intptr_t)index;
  } else {
    out->instruction = word_at(bytes, layout->frame_instruction);
  }
  return true;
}

/* Index of the frame's instruction; below first_traceable while the frame is being set up. */
static int64_t instruction_index(const struct frame *frame) {
  if (python_layout->frame_owner < 0) return (int64_t)(intptr_t)frame->instruction;
  return ((int64_t)frame->instruction - (int64_t)(frame->code + (uintptr_t)python_layout->code_bytecode)) >> 1;
}

static _Atomic uint64_t *memo_of(const struct frame *frame) { return &frame_memo[(frame->address >> 4) % MEMO]; }

static uint64_t memo_value(const struct frame *frame) {
  return dictionary_node_hash(frame->address, frame->code, (int32_t)frame->instruction);
}

static struct code_facts code_of(const struct frame *frame, unsigned depth) {
  struct code_facts facts = {0, 0, 0};
  uint64_t value = memo_value(frame);
  if (depth >= ALWAYS_VERIFIED && atomic_load_explicit(memo_of(frame), memory_order_relaxed) == value) {
    facts = dictionary_code_remembered(frame->code);
  }
  if (!facts.hash) facts = dictionary_code(frame->code);
  if (facts.hash) atomic_store_explicit(memo_of(frame), value, memory_order_relaxed);
  return facts;
}

enum verdict { KEEP, SKIP, TORN };

static enum verdict examine(const struct frame *frame, struct scratch *scratch) {
  if (frame->owner >= OWNER_NO_CODE) return SKIP;
  struct code_facts facts = code_of(frame, scratch->frames);
  if (!facts.hash) return TORN;
  int64_t index = instruction_index(frame);
  if (index < -1 || index >= facts.units) return TORN;
  if (frame->owner != OWNER_GENERATOR && index < facts.first_traceable) return SKIP;
  scratch->entry[scratch->frames++] =
      (struct frame_entry){.frame = frame->address, .code = frame->code, .hash = facts.hash, .instruction = (int32_t)index};
  return KEEP;
}

/* Collects the frames from `address` outwards. false = torn. */
static bool collect(uintptr_t address, struct scratch *scratch, bool *truncated) {
  struct window window = {0, 0, scratch->window};
  struct frame frame;
  scratch->frames = 0;
  *truncated = false;
  for (unsigned seen = 0; address; address = frame.previous, seen++) {
    if (scratch->frames >= MAX_FRAMES || seen >= 2 * MAX_FRAMES) {
      *truncated = true;
      return true;
    }
    if (!read_frame(&window, address, &frame) || examine(&frame, scratch) == TORN) return false;
  }
  return true;
}

static bool innermost_frame(const char *state, uintptr_t *out) {
  const struct python_layout *layout = python_layout;
  if (layout->tstate_frame >= 0) {
    memcpy(out, state + layout->tstate_frame, sizeof *out);
    return true;
  }
  uintptr_t cframe;
  memcpy(&cframe, state + layout->tstate_cframe, sizeof cframe);
  return safe_read(out, (void *)(cframe + (uintptr_t)layout->cframe_frame), sizeof *out);
}

static uint32_t gc_flag(const char *state) {
  int collecting = 0;
  uintptr_t interpreter;
  if (python_layout->interp_gc < 0) return 0;
  memcpy(&interpreter, state + python_layout->tstate_interp, sizeof interpreter);
  bool read = safe_read(&collecting, (void *)(interpreter + (uintptr_t)python_layout->interp_gc), sizeof collecting);
  return read && collecting == 1 ? TICK_GC : 0;
}

/* Hashes from the outermost frame inwards, writing the nodes that are new. */
static uint64_t intern(struct scratch *scratch, bool truncated) {
  uint64_t hash = 0;
  for (unsigned i = scratch->frames; i-- > 0;) {
    struct frame_entry *entry = &scratch->entry[i];
    hash = entry->node = dictionary_node_hash(hash, entry->hash, entry->instruction);
  }
  if (!hash || dictionary_node_known(hash)) return hash;
  uint64_t parent = 0;
  for (unsigned i = scratch->frames; i-- > 0;) {
    struct frame_entry *entry = &scratch->entry[i];
    struct record_node node = {.thread = this_thread.id, .hash = entry->node, .parent = parent, .code = entry->hash,
                               .instruction = entry->instruction, .truncated = truncated && parent == 0};
    if (!dictionary_node_known(node.hash) && !dictionary_node_write(&node)) return 0;
    parent = node.hash;
  }
  return hash;
}

static void read_opcodes(const struct frame_entry *innermost, uint8_t opcodes[TICK_OPCODES]) {
  unsigned char units[2 * TICK_OPCODES];
  uintptr_t bytecode = innermost->code + (uintptr_t)python_layout->code_bytecode;
  if (python_layout->version == 0x30a) {
    if (!safe_read(&bytecode, (void *)bytecode, sizeof bytecode)) return;
    bytecode += BYTES_DATA;
  }
  int32_t last = innermost->instruction;
  int32_t first = last >= TICK_OPCODES ? last - TICK_OPCODES + 1 : 0;
  if (last < 0 || !safe_read(units, (void *)(bytecode + 2 * (uintptr_t)first), (size_t)(last - first + 1) * 2)) return;
  for (int32_t k = 0; k <= last - first; k++) opcodes[k] = units[2 * (last - first - k)];
}

void frames_sample(void *thread_state, struct scratch *scratch, struct python_stack *out) {
  char state[128];
  bool truncated = false;
  *out = (struct python_stack){.hash = 0, .flags = 0};
  memset(out->opcodes, 255, sizeof out->opcodes);
  if (!thread_state || !python_layout || !scratch) return;
  if (!safe_read(state, thread_state, sizeof state)) return;
  out->flags = gc_flag(state);
  for (int attempt = 0; attempt < 2; attempt++) {
    uintptr_t frame = 0;
    if (!innermost_frame(state, &frame) || !collect(frame, scratch, &truncated)) continue;
    if (truncated) loss_add(LOSS_deep_stack);
    if (!scratch->frames) return;
    out->hash = intern(scratch, truncated);
    read_opcodes(&scratch->entry[0], out->opcodes);
    return;
  }
  out->flags |= TICK_TORN;
  loss_add(LOSS_torn_stack);
}
