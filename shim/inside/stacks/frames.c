/* Reads the Python stack of the calling thread from inside a signal handler or an allocator.
 *
 * The interpreter may have been interrupted at any instruction. The thread state itself, its C stack and the chunks of
 * its frame stack stay mapped as long as the thread state exists, so they are read plainly. Everything else is read by
 * safe reads, and every frame must lead to a code object (chain.c). An inconsistent stack is read again, from other
 * sources (enum attempt); after that, it is counted as torn. */
#include "inside/stacks/frames.h"

#include "formats/spool/spool.h"
#include "inside/core/thread_state.h"
#include "shared/evidence/evidence.h"
#include "inside/python/labels.h"
#include "inside/python/python.h"
#include "inside/stacks/chunks.h"
#include "inside/stacks/codes.h"
#include "inside/stacks/recent.h"
#include "inside/stacks/scratch_pool.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/objects/reads.h"
#include "shared/saferead.h"
#include "shared/stacks/chain.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/scratch.h"
#include "shared/stacks/target.h"
#include "shared/words.h"

#define NO_FRAME 1        /* not an address of a frame, so the walk fails as torn */
#define MAX_C_FRAMES 1024 /* nested bytecode loops that are followed, at most */
#define STATE_BYTES 512   /* upper limit of a thread state's size: the outermost _PyCFrame lies inside */
#define C_STACK_BYTES ((uintptr_t)1 << 30)
#define EVAL_FRAME_WORDS 64 /* words of the bytecode loop's C frame that are searched */

/* The source of the innermost frame's address. 3.10, and 3.13 and later, publish it in the thread state itself, in one piece, so
 * there each attempt just reads it again. */
enum attempt { PUBLISHED, BEFORE, OF_LOOP, OF_SCANNED_LOOP, ATTEMPTS };

/* ---- pass 1: the chain of frames ---- */

/* Returns the frame's bytes: in place if they are certain to be mapped, else a safe copy. 3.10 publishes a frame only
 * when it is complete, so there frames are read in place. */
static const char *frame_bytes(struct chunk *cursor, uintptr_t address, char *copy) {
  if (address < 65536 || (address & 7)) return NULL;
  if (python_layout->frame_owner < 0 || chunk_find(cursor, address)) return (const char *)address;
  return safe_read(copy, (void *)address, (size_t)python_layout->frame_bytes) ? copy : NULL;
}

/* Collects the frames from `address` outwards. False = torn. */
static bool collect(const struct stack_target *target, uintptr_t address, struct chunk cursor, struct scratch *scratch,
                    bool *truncated) {
  scratch->frames = 0;
  *truncated = false;
  for (int seen = 0; address; seen++) {
    if (scratch->frames >= MAX_FRAMES || seen >= 2 * MAX_FRAMES) {
      *truncated = true;
      return true;
    }
    const char *frame = frame_bytes(&cursor, address, scratch->copy);
    if (!frame || !chain_add(target, scratch, address, frame)) return false;
    address = word_at(frame, python_layout->frame_previous);
  }
  return true;
}

/* ---- the innermost frame ---- */

/* On 3.11 and 3.12 the thread state points to a _PyCFrame, a local variable of the bytecode loop that holds the
 * innermost frame and a link to the previous _PyCFrame. There are two moments at which it is wrong; frame_before and
 * frame_of_loop handle one each. */
struct c_frame {
  uintptr_t frame, before;
};

static bool read_c_frame(uintptr_t address, struct c_frame *out) {
  return safe_read(out, (void *)(address + (uintptr_t)python_layout->cframe_frame), sizeof *out);
}

/* The bytecode loop publishes its _PyCFrame before it fills in the frame. At that moment the new frame has not begun,
 * so the previous _PyCFrame still holds the right stack. */
static uintptr_t frame_before(uintptr_t published) {
  struct c_frame newest, before;
  return read_c_frame(published, &newest) && read_c_frame(newest.before, &before) ? before.frame : NO_FRAME;
}

/* True if `address` is that of the outermost _PyCFrame: it lies inside the thread state and has no previous one. The
 * start of the thread state does not count, because other variables of the bytecode loop point there, too. */
static bool is_outermost(uintptr_t address, uintptr_t state) {
  struct c_frame outermost;
  return address != state && read_c_frame(address, &outermost) && !outermost.before;
}

/* True if the links from `at` lead up the C stack and end at the outermost _PyCFrame in the thread state. */
static bool leads_to_thread_state(struct c_frame at, uintptr_t address, uintptr_t state) {
  for (int i = 0; i < MAX_C_FRAMES; i++) {
    if (at.before - state < STATE_BYTES) return is_outermost(at.before, state);
    if (at.before <= address || at.before - address > C_STACK_BYTES) return false;
    address = at.before;
    if (!read_c_frame(address, &at)) return false;
  }
  return false;
}

/* A switch of greenlets replaces the C stack before it corrects the thread state, so for a moment the thread state
 * points to overwritten memory. The right _PyCFrame is then on the current C stack, in the C frame of its innermost
 * bytecode loop, where it is searched. */
static uintptr_t frame_of_loop(uintptr_t eval_frame, uintptr_t state) {
  uintptr_t words[EVAL_FRAME_WORDS];
  size_t count = safe_read_some(words, (void *)(eval_frame & ~(uintptr_t)7), sizeof words) / sizeof *words;
  for (size_t i = 0; i + 1 < count; i++) {
    uintptr_t address = (eval_frame & ~(uintptr_t)7) + i * sizeof *words - (uintptr_t)python_layout->cframe_frame;
    struct c_frame found = {words[i], words[i + 1]};
    if (found.frame >= 65536 && (found.frame & 7) == 0 && leads_to_thread_state(found, address, state))
      return found.frame;
  }
  return NO_FRAME;
}

static uintptr_t innermost_frame(const char *state, enum attempt attempt, uintptr_t eval_frame) {
  const struct python_layout *layout = python_layout;
  if (layout->tstate_frame >= 0) return word_at(state, layout->tstate_frame);
  uintptr_t published = word_at(state, layout->tstate_cframe);
  if (attempt >= OF_LOOP) return eval_frame ? frame_of_loop(eval_frame, (uintptr_t)state) : NO_FRAME;
  if (!published) return 0;
  return attempt == BEFORE ? frame_before(published) : word_at((void *)published, layout->cframe_frame);
}

/* ---- the stack ---- */

/* Without a GIL, other threads run while one collects. */
static uint32_t gc_flag(const char *state) {
  int offset = python_layout->object_header ? -1 : python_layout->interp_gc;
  uintptr_t interpreter = word_at(state, python_layout->tstate_interp);
  return offset >= 0 && interpreter && (int32_t)word_at((void *)interpreter, offset) == 1 ? TICK_GC : 0;
}

/* Reads the bytecode plainly: the innermost frame's code object is being executed, so it cannot have been freed. */
static void read_opcodes(const struct frame_entry *innermost, uint8_t opcodes[TICK_OPCODES]) {
  uintptr_t bytecode = innermost->code + (uintptr_t)python_layout->code_bytecode;
  if (python_layout->frame_owner < 0) bytecode = word_at((void *)bytecode, 0) + BYTES_DATA;
  for (int32_t k = 0, at = innermost->instruction; k < TICK_OPCODES && at >= 0; k++, at--) {
    opcodes[k] = *(const uint8_t *)(bytecode + 2 * (uintptr_t)at);
  }
}

static bool walk(const struct stack_target *target, const char *state, uintptr_t innermost, struct scratch *scratch,
                 bool *truncated) {
  return collect(target, innermost, chunk_newest(python_layout, state), scratch, truncated) &&
         chain_verify(target, scratch);
}

/* Returns the C frame of the first bytecode loop above `sp`. While a greenlet's C stack is being put back, the words
 * of its frames are there, but no rule leads to them. The search is costly, so it is made only if it is needed:
 * greenlets also free the copy of a C stack while the thread state is still that of the other greenlet. */
static uintptr_t scanned_eval_frame(uintptr_t sp, struct scratch *scratch) {
  struct native_evidence native;
  evidence_scan(0, sp, scratch, &native);
  return native.eval_frame;
}

static bool walk_with_retries(const struct stack_target *target, const char *state, uintptr_t eval_frame, uintptr_t sp,
                              struct scratch *scratch, bool *truncated) {
  for (enum attempt attempt = PUBLISHED; attempt < ATTEMPTS; attempt++) {
    bool must_scan = attempt == OF_SCANNED_LOOP && python_layout->tstate_frame < 0;
    if (must_scan) eval_frame = scanned_eval_frame(sp, scratch);
    if (walk(target, state, innermost_frame(state, attempt, eval_frame), scratch, truncated)) return true;
  }
  return false;
}

static struct stack_target own_target(const char *state) {
  return (struct stack_target){.layout = python_layout,
                               .code_type = python_symbols.code_type,
                               .version = python_version,
                               .thread = this_thread.id,
                               .label = labels_current(state)};
}

void frames_sample(void *thread_state, uintptr_t eval_frame, uintptr_t sp, struct scratch *scratch,
                   struct python_stack *out) {
  bool truncated = false;
  *out = (struct python_stack){.hash = 0, .flags = 0};
  memset(out->opcodes, 255, sizeof out->opcodes);
  if (!thread_state || !python_layout || !scratch) return;
  struct stack_target target = own_target(thread_state);
  out->flags = gc_flag(thread_state);
  if (!walk_with_retries(&target, thread_state, eval_frame, sp, scratch, &truncated)) {
    out->flags |= TICK_TORN;
    loss_add(LOSS_torn_stack);
    return;
  }
  if (truncated) loss_add(LOSS_deep_stack);
  if (!scratch->frames) return;
  out->hash = chain_intern(&target, scratch, truncated);
  read_opcodes(&scratch->entry[0], out->opcodes);
}

/* All frames of the scratch have just been verified, so their code objects are known from now on. */
static void note_verified(const struct scratch *scratch) {
  for (uint32_t i = 0; i < scratch->frames; i++) codes_verified(scratch->entry[i].code);
}

static uint64_t verified_stack(void *state) {
  struct python_stack stack = {.hash = 0};
  struct scratch *scratch = scratch_take();
  if (!scratch) return 0;
  scratch->verify_all = codes_followed();
  frames_sample(state, 0, (uintptr_t)__builtin_frame_address(0), scratch, &stack);
  if (stack.hash && scratch->verify_all) note_verified(scratch);
  scratch_give(scratch);
  return stack.hash;
}

uint64_t frames_current(void) { return frames_of(python_thread_state()); }

uint64_t frames_of(void *thread_state) {
  char *state = thread_state;
  if (!state || !python_layout) return 0;
  struct stack_target target = own_target(state);
  uint64_t stack = recent_stack(&target, state, innermost_frame(state, PUBLISHED, 0));
  return stack ? stack : verified_stack(state);
}

/* Where threading.Thread.start was last found, which is fetched together with the frame. It may have been freed. */
static struct {
  _Atomic uintptr_t code, name;
} start_function;

/* True if the code object is that of threading.Thread.start. 3.10 has no qualified names. */
static bool is_start(struct reads *reads, uintptr_t code) {
  const struct python_layout *layout = python_layout;
  const char *expected = layout->version == 0x30a ? "start" : "Thread.start";
  char text[64];
  size_t length = strlen(expected);
  uintptr_t name = code ? reads_word(reads, code + (uintptr_t)layout->code_name) : 0;
  if (!reads_get(reads, text, name, (size_t)layout->ascii_data + length)) return false;
  if (word_at(text, STR_LENGTH) != length || memcmp(text + layout->ascii_data, expected, length) != 0) return false;
  if (atomic_load(&start_function.code) != code || atomic_load(&start_function.name) != name) {
    atomic_store(&start_function.code, code);
    atomic_store(&start_function.name, name);
  }
  return true;
}

uintptr_t frames_thread_started(void) {
  const struct python_layout *layout = python_layout;
  struct reads reads;
  if (!layout || layout->object_header || safe_read_refused()) return 0;
  const char *state = python_thread_state();
  uintptr_t frame = state ? innermost_frame(state, PUBLISHED, 0) : 0;
  if (frame < 65536 || (frame & 7)) return 0;
  uintptr_t code = atomic_load(&start_function.code);
  reads_clear(&reads);
  reads_add(&reads, frame + (uintptr_t)layout->frame_code, sizeof frame);
  reads_add(&reads, frame + (uintptr_t)layout->frame_locals, sizeof frame);
  reads_add(&reads, code ? code + (uintptr_t)layout->code_name : 0, sizeof frame);
  reads_add(&reads, atomic_load(&start_function.name), 64);
  reads_fetch(&reads);
  code = reads_word(&reads, frame + (uintptr_t)layout->frame_code) & layout->reference_mask;
  if (!is_start(&reads, code)) return 0;
  return reads_word(&reads, frame + (uintptr_t)layout->frame_locals) & layout->reference_mask;
}

/* Reads only what is certain to be mapped. Of a generator's frame that is its address. */
uint64_t frames_line(void) {
  const struct python_layout *layout = python_layout;
  const char *state = layout ? python_thread_state() : NULL;
  uintptr_t frame = state ? innermost_frame(state, PUBLISHED, 0) : 0;
  if (frame < 65536 || (frame & 7)) return 0;
  struct chunk chunk = chunk_newest(layout, state);
  bool has_owner = layout->frame_owner >= 0;
  if (has_owner && !chunk_find(&chunk, frame)) return frame;
  uint64_t instruction = has_owner ? word_at((void *)frame, layout->frame_instruction)
                                   : (uint32_t)int_at((void *)frame, layout->frame_instruction);
  return word_at((void *)frame, layout->frame_code) * 0x9e3779b97f4a7c15u ^ instruction;
}
