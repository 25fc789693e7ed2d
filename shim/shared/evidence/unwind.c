/* Unwinds the native stack of an interrupted thread.
 *
 * The tables say for each instruction where the caller's registers are. They are right at every instruction of compiled
 * code, but some code has none (generated at run time), and hand-written assembly may have wrong ones. So each return
 * address must follow a call instruction. If a frame has no rule, or its rule does not lead to such an address, the next
 * word of the stack that does is taken instead, and the frame found that way is marked.
 *
 * A frame pointer may be any number. So only the thread's own stack is read in place, and others by safe reads, a window
 * at a time. */
#include "shared/evidence/unwind.h"

#include <ucontext.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/evidence/access.h"
#include "shared/evidence/frame_rules.h"
#include "shared/interpreter/symbols.h"
#include "shared/native/frame_program.h"
#include "shared/native/frame_step.h"
#include "shared/saferead.h"

#define SEARCHED_WORDS 384      /* of the stack, for one gap */
#define ALL_SEARCHED_WORDS 1024 /* for all gaps of one unwinding */
#define DEEPEST 1024            /* frames of one unwinding */

void unwind_registers_of(const void *context, struct unwind_registers *out) {
  arch_registers_of(context, out->value);
  out->known = BIT(DWARF_REGISTERS) - 1;
}

static bool is_known(const struct unwind_registers *registers, unsigned number) {
  return registers->known & BIT(number);
}

/* ---- one step ---- */

/* The rule of the function to which handlers of signals return, if it is without a table. */
static SLOW_PATH bool find_signal_frame(uintptr_t pc, struct frame_rule *rule) {
  uint32_t code[2];
  if (!safe_read(code, (void *)pc, sizeof code) || !arch_returns_from_signal(code)) return false;
  *rule = (struct frame_rule){.start = pc, .pc_class = PC_SUPPORT, .flags = RULE_DEREF | RULE_SIGNAL};
  rule->cfa_base = DWARF_STACK;
  rule->cfa_offset = ARCH_SIGNAL_STACK;
  for (int i = 0; i < FOLLOWED; i++) rule->saved_base[i] = DWARF_STACK;
  rule->saved_offset[FOLLOW_RETURN] = ARCH_SIGNAL_PC;
  rule->saved_offset[FOLLOW_FRAME] = ARCH_SIGNAL_FRAME;
  rule->saved_offset[FOLLOW_EXTRA] = ARCH_SIGNAL_EXTRA;
  memset(rule->further, FURTHER_UNKNOWN, sizeof rule->further);
  return true;
}

static void look_up(struct frame_step *step) {
  uintptr_t pc = step->registers.value[DWARF_PC];
  step->has_rule = frame_rules_find(pc, step->is_return, &step->rule);
  if (ARCH_SIGNAL_FRAMES_BY_CODE && !step->has_rule) step->has_rule = find_signal_frame(pc, &step->rule);
}

/* The return address of a function that makecontext starts. glibc's tables do not say that it has no caller; musl has no
 * such function. */
static uintptr_t context_end;

void unwind_init(void) {
#ifdef __GLIBC__
  static uint64_t stack[128];
  ucontext_t context = {.uc_stack = {.ss_sp = stack, .ss_size = sizeof stack}};
  makecontext(&context, (void (*)(void))unwind_init, 0);
  context_end = arch_context_end(&context, stack, sizeof stack);
#endif
}

static bool starts_stack(const struct frame_step *step) {
  uintptr_t address = step->registers.value[DWARF_PC];
  return !address || address == context_end;
}

/* True if the address that a rule led to can be right: it follows a call, or is where the kernel or libc began this
 * stack (a signal frame, a function without a caller, or 0). */
static bool plausible(const struct frame_step *step) {
  if (!step->is_return || (step->rule.flags & (RULE_CALLED | RULE_SIGNAL))) return true;
  return starts_stack(step) || (step->has_rule && step->rule.saved_base[FOLLOW_RETURN] == BASE_UNKNOWN);
}

/* What the search knows of the frame pointer in the caller: if it points above the return address, the frame without a rule
 * did not change it; if it points right below, that frame has saved it there. */
static void guess_frame(struct native_stack *stack, const struct frame_step *from, uintptr_t place,
                        struct frame_step *to) {
  uintptr_t frame = from->registers.value[DWARF_FRAME];
  if (!is_known(&from->registers, DWARF_FRAME) || (frame & 7)) return;
  bool saved = frame + sizeof(uint64_t) == place;
  to->registers.value[DWARF_FRAME] = frame;
  if (frame > place || (saved && stack_window_read(&stack->window, frame, &to->registers.value[DWARF_FRAME])))
    to->registers.known |= BIT(DWARF_FRAME);
}

/* Searches the stack for the next return address into an image. From here on the stack is copied: the stack of a coroutine
 * that lies on the thread's own may end here, at a page that cannot be read. */
static bool search(struct native_stack *stack, const struct frame_step *from, struct frame_step *to) {
  if (stack->window.high) stack_window_begin(&stack->window, 0, 0);
  uintptr_t place = (from->registers.value[DWARF_STACK] + 7) & ~(uintptr_t)7;
  to->is_return = true;
  for (int i = 0; i < SEARCHED_WORDS && stack->searched < ALL_SEARCHED_WORDS; i++, place += sizeof(uint64_t)) {
    uintptr_t *word = &to->registers.value[DWARF_PC];
    stack->searched++;
    if (!stack_window_read(&stack->window, place, word)) return false;
    *word = arch_code_address(*word);
    struct image image;
    if (!image_access.find(*word - 1, &image) || !image_access.follows_call(*word, &image)) continue;
    look_up(to);
    to->registers.value[DWARF_STACK] = place + sizeof(uint64_t);
    to->registers.known = FOUND_BY_SEARCH;
    guess_frame(stack, from, place, to);
    return true;
  }
  return false;
}

/* ---- the whole stack ---- */

/* Returns the place of the next frame. If there is none, the innermost one of the outer frames is left out. */
static struct native_frame *next_frame(struct native_stack *stack) {
  struct native_frame *frame = stack->frame;
  if (stack->count < NATIVE_FRAMES) return &frame[stack->count++];
  stack->skipped++;
  for (int i = INNER_FRAMES; i < NATIVE_FRAMES - 1; i++) frame[i] = frame[i + 1];
  frame[INNER_FRAMES].flags |= NATIVE_AFTER_GAP;
  return &frame[NATIVE_FRAMES - 1];
}

static void add_frame(struct native_stack *stack, const struct frame_step *step, uint8_t flags) {
  struct native_frame *frame = next_frame(stack);
  frame->pc = step->registers.value[DWARF_PC];
  frame->function = step->rule.start;
  frame->pc_class = step->rule.pc_class;
  frame->flags = (uint8_t)(flags | (step->is_return ? 0 : NATIVE_EXACT));
  if (!step->has_rule) frame->flags |= NATIVE_NO_RULE;
  if (flags & NATIVE_AFTER_GAP) stack->gaps++;
  stack->last_sp = step->registers.value[DWARF_STACK];
}

static bool in_eval(const struct frame_step *step) {
  return python_in_loop(step->registers.value[DWARF_PC] - step->is_return);
}

/* Finds the caller. False = the stack ends here; `end` says why. */
static bool advance(struct native_stack *stack, const struct frame_step *step, struct frame_step *caller,
                    bool further) {
  bool has_rule = step->has_rule;
  if (in_eval(step)) return stack->end = UNWIND_EVAL, false;
  if (has_rule && step->rule.saved_base[FOLLOW_RETURN] == BASE_UNKNOWN) return stack->end = UNWIND_OUTERMOST, false;
  if (stack->count + stack->skipped == DEEPEST) return stack->end = UNWIND_FULL, false;
  uint8_t flags = 0;
  bool applied = frame_step_apply(&stack->window, step, caller);
  if (applied) look_up(caller);
  if (!applied || !plausible(caller)) {
    stack->frame[stack->count - 1].flags |= NATIVE_NO_RULE;
    flags = NATIVE_AFTER_GAP;
    if (!search(stack, step, caller)) return stack->end = UNWIND_LOST, false;
  } else if (starts_stack(caller)) {
    return stack->end = UNWIND_OUTERMOST, false;
  }
  if (further && !flags) frame_step_restore_further(&stack->window, step, &caller->registers);
  add_frame(stack, caller, flags);
  return true;
}

void unwind_from(const struct unwind_registers *from, struct native_stack *out) {
  unwind_to_registers(from, out, NULL);
}

void unwind_to_registers(const struct unwind_registers *from, struct native_stack *out, struct unwind_registers *last) {
  struct frame_step steps[2];
  int now = 0;
  out->count = out->gaps = out->skipped = out->searched = 0;
  out->end = UNWIND_LOST;
  if (last) last->known = 0;
  if (safe_read_refused()) return;
  for (int i = 0; i < DWARF_REGISTERS; i++) steps[0].registers.value[i] = from->value[i];
  steps[0].registers.known = from->known;
  steps[0].is_return = false;
  look_up(&steps[0]);
  add_frame(out, &steps[0], 0);
  while (advance(out, &steps[now], &steps[1 - now], last)) now = 1 - now;
  if (last) *last = steps[now].registers;
}
