/* Unwinds the native stack of a thread that waits in another process.
 *
 * Of its registers, only the stack pointer and the instruction pointer are known. That suffices for code that keeps its
 * frame by the stack pointer. A function that uses rbp as a frame pointer is followed if one of its callees has saved rbp;
 * else the stack is searched for the next word that follows a call instruction, and the frame found by it is marked.
 *
 * The question is which library waits, so the walk ends at the interpreter's innermost function, which its own code or
 * Python code has led to, and it searches only until a library is found. Functions of libffi are left out: what is called
 * through it waits, or Python, which has called libc through it. */
#include "watch/native/waiting.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/native/frame_program.h"
#include "shared/native/frame_step.h"
#include "shared/native/frame_tables.h"
#include "shared/native/image.h"
#include "shared/native/records.h"
#include "shared/saferead.h"
#include "shared/stacks/hash.h"
#include "watch/native/images.h"

#define MAX_FRAMES 48
#define CALLERS 16         /* of the first function in a library, that are kept */
#define SEARCHED_WORDS 384 /* of the stack */
#define SEARCHED_CALLS 32  /* words that may follow a call: each is a read */
#define CACHED_RULES 1024
#define WRITTEN 4096

struct cached_rule {
  uint64_t generation, pc; /* of the images; generation 0 = the entry is free */
  bool is_return, has_rule;
  struct frame_rule rule;
};
static struct cached_rule rules[CACHED_RULES];
static uint64_t written[WRITTEN]; /* hashes of functions whose record was written last in each place */

struct frame {
  uint64_t image, address; /* as in struct record_native */
  bool after_gap;          /* it was found by a search */
};

struct walk {
  const struct remote_images *images;
  struct stack_window window;
  struct frame frame[MAX_FRAMES];
  int count, callers; /* callers: frames beyond the first one in a library */
  int steps;          /* frames, and those that were left out */
  int words, calls;   /* that were searched */
  bool left_out;      /* the last frame was */
  bool in_library, in_interpreter, cut;
  bool lost; /* a search would pass over images that are not in the list, since there are too many */
};
static struct walk walk;

/* ---- rules ---- */

static bool follows_call(uintptr_t address) {
  uint8_t code[7];
  return safe_read(code, (void *)(address - sizeof code), sizeof code) && arch_follows_call(code + sizeof code);
}

static void read_rule(const struct image *image, struct cached_rule *entry) {
  uint64_t generation = entry->generation % 65535 + 1;
  entry->has_rule = frame_tables_find(image, generation, entry->pc, entry->is_return, &entry->rule);
  if (entry->is_return && follows_call(entry->pc)) entry->rule.flags |= RULE_CALLED;
}

/* Returns the image that the frame is in; null = none. */
static const struct image *look_up(struct frame_step *step) {
  uintptr_t pc = step->registers.value[DWARF_PC];
  const struct image *image = remote_images_find(walk.images, pc - step->is_return);
  step->has_rule = false;
  step->rule = (struct frame_rule){.pc_class = PC_UNKNOWN};
  if (!image) return NULL;
  struct cached_rule *entry = &rules[hash_pair(pc, walk.images->generation) % CACHED_RULES];
  if (entry->generation != walk.images->generation || entry->pc != pc || entry->is_return != step->is_return) {
    *entry = (struct cached_rule){.generation = walk.images->generation, .pc = pc, .is_return = step->is_return};
    read_rule(image, entry);
  }
  step->rule = entry->rule;
  step->has_rule = entry->has_rule;
  return image;
}

/* ---- the walk ---- */

static void add_frame(const struct frame_step *step, const struct image *image, bool after_gap) {
  bool after_left_out = walk.left_out;
  walk.left_out = image && image->forwards;
  if (walk.left_out) return;
  struct frame *frame = &walk.frame[walk.count++];
  *frame = (struct frame){.after_gap = after_gap || after_left_out};
  if (walk.in_library) walk.callers++;
  if (!image) return;
  uintptr_t address = step->is_return ? step->registers.value[DWARF_PC] - 1 : image->bias;
  if (step->has_rule) address = step->rule.start;
  frame->image = image->id;
  frame->address = address - image->bias;
  if (image->pc_class == PC_EXTENSION) walk.in_library = true;
  if (image->pc_class == PC_INTERPRETER) walk.in_interpreter = true;
}

/* True if the stack begins with this frame. */
static bool is_outermost(const struct frame_step *step) {
  return step->has_rule && step->rule.saved_base[FOLLOW_RETURN] == BASE_UNKNOWN;
}

static bool is_plausible(const struct frame_step *step) {
  return !step->is_return || (step->rule.flags & (RULE_CALLED | RULE_SIGNAL)) || is_outermost(step);
}

/* Searches the stack for the next return address. */
static bool search(const struct frame_step *from, struct frame_step *to, const struct image **image) {
  uintptr_t place = (from->registers.value[DWARF_STACK] + 7) & ~(uintptr_t)7, word;
  for (; walk.words < SEARCHED_WORDS && walk.calls < SEARCHED_CALLS; walk.words++, place += sizeof word) {
    if (!stack_window_read(&walk.window, place, &word)) return false;
    word = arch_code_address(word);
    if (!remote_images_find(walk.images, word - 1)) continue;
    walk.calls++;
    *to = (struct frame_step){.is_return = true};
    to->registers.known = FOUND_BY_SEARCH;
    to->registers.value[DWARF_PC] = word;
    to->registers.value[DWARF_STACK] = place + sizeof word;
    *image = look_up(to);
    if (*image && (to->rule.flags & RULE_CALLED)) return true;
  }
  return false;
}

/* Finds the caller; false = the walk ends here. */
static bool advance(const struct frame_step *step, struct frame_step *caller) {
  const struct image *image = NULL;
  if (is_outermost(step)) return false;
  walk.cut = true;
  if (walk.in_interpreter || ++walk.steps == MAX_FRAMES || walk.callers == CALLERS) return false;
  bool found = frame_step_apply(&walk.window, step, caller);
  if (found && !caller->registers.value[DWARF_PC]) return walk.cut = false;
  if (found) image = look_up(caller);
  bool plausible = found && is_plausible(caller);
  walk.lost = !plausible && !walk.in_library && walk.images->cut;
  if (!plausible && (walk.in_library || walk.lost || !search(step, caller, &image))) return false;
  walk.cut = false;
  add_frame(caller, image, !plausible);
  return true;
}

static uint64_t write_chain(void) {
  uint64_t parent = 0;
  for (int i = walk.count - 1; i >= 0; i--) {
    bool gap = i == walk.count - 1 ? walk.cut : walk.frame[i + 1].after_gap;
    struct record_native node = native_node(parent, walk.frame[i].image, walk.frame[i].address, gap);
    uint64_t *place = &written[node.hash % WRITTEN];
    if (*place != node.hash && !native_write_node(&node, 0)) return 0;
    *place = parent = node.hash;
  }
  return parent;
}

uint64_t waiting_read(const struct remote_images *images, uintptr_t sp, uintptr_t pc) {
  struct frame_step steps[2] = {{.is_return = false}};
  int now = 0;
  walk.images = images;
  stack_window_begin(&walk.window, 0, 0);
  walk.count = walk.callers = walk.steps = walk.words = walk.calls = 0;
  walk.in_library = walk.in_interpreter = walk.cut = walk.lost = walk.left_out = false;
  steps[0].registers.known = BIT(DWARF_PC) | BIT(DWARF_STACK);
  steps[0].registers.value[DWARF_PC] = pc;
  steps[0].registers.value[DWARF_STACK] = sp;
  const struct image *image = look_up(&steps[0]);
  add_frame(&steps[0], image, false);
  while (advance(&steps[now], &steps[1 - now])) now = 1 - now;
  return image && !walk.lost ? write_chain() : 0;
}
