/* Unwinds the native stack of an interrupted thread.
 *
 * The tables say for each instruction where the caller's registers are. They are right at every instruction of compiled
 * code, but some code has none (generated at run time), and hand-written assembly may have wrong ones. So each return
 * address must follow a call instruction. If a frame has no rule, or its rule does not lead to such an address, the next
 * word of the stack that does is taken instead, and the frame found that way is marked.
 *
 * A frame pointer may be any number. So only the thread's own stack is read in place, and others by safe reads, a window
 * at a time. */
#include "inside/native/unwind.h"

#include <ucontext.h>

#include "formats/spool/spool.h"
#include "inside/core/thread_state.h"
#include "inside/native/frame_program.h"
#include "inside/native/frame_rules.h"
#include "inside/native/images.h"
#include "inside/python/python.h"
#include "shared/base.h"
#include "shared/saferead.h"
#include "shared/valgrind.h"

#define BIT(number) (UINT32_C(1) << (number))
#define HIGHEST_ADDRESS 0x7ffffffff000u
#define SEARCHED_WORDS 384      /* of the stack, for one gap */
#define ALL_SEARCHED_WORDS 1024 /* for all gaps of one unwinding */
#define DEEPEST 1024            /* frames of one unwinding */

void unwind_registers_of(const void *context, struct unwind_registers *out) {
  static const uint8_t place[DWARF_REGISTERS] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                                 REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                                 REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  const ucontext_t *user = context;
  for (int i = 0; i < DWARF_REGISTERS; i++) out->value[i] = (uintptr_t)user->uc_mcontext.gregs[place[i]];
  out->known = BIT(DWARF_REGISTERS) - 1;
}

static bool is_known(const struct unwind_registers *registers, unsigned number) {
  return registers->known & BIT(number);
}

/* ---- the stack ---- */

/* The thread's own stack is read in place, up to its end. Another one, such as that of a coroutine, may end anywhere, and
 * valgrind would report words that nothing was written to. */
static SLOW_PATH bool fill(struct native_stack *stack, uintptr_t address) {
  stack->window_start = address;
  if (thread_stack_holds(address, sizeof(uint64_t)) && !under_valgrind()) {
    stack->window = (const uint64_t *)address;
    stack->window_words = (this_stack.high - address) / sizeof(uint64_t);
    return true;
  }
  stack->window = stack->copy;
  stack->window_words = safe_read_some(stack->copy, (void *)address, sizeof stack->copy) / sizeof *stack->copy;
  return stack->window_words > 0;
}

/* Reads a word. Windows begin at the word that is needed, since the next ones lie at higher addresses. The address
 * sanitizer does not want what lies between the variables of other functions to be read. */
__attribute__((no_sanitize_address)) static bool read_word(struct native_stack *stack, uintptr_t address,
                                                           uintptr_t *out) {
  uintptr_t index = (address - stack->window_start) / sizeof(uint64_t);
  if ((address & 7) || address >= HIGHEST_ADDRESS) return false;
  if (address < stack->window_start || index >= stack->window_words) {
    if (!fill(stack, address)) return false;
    index = 0;
  }
  *out = (uintptr_t)stack->window[index];
  return true;
}

/* ---- one step ---- */

/* A frame on the way: its registers, and the rule of its instruction. */
struct step {
  struct unwind_registers registers;
  struct frame_rule rule;
  enum rule_result found;
  bool is_return; /* the instruction is a return address */
};

static void look_up(struct step *step) {
  step->found = frame_rules_find(step->registers.value[DWARF_RIP], step->is_return, &step->rule);
}

static bool cfa_of(struct native_stack *stack, const struct step *step, uintptr_t *cfa) {
  const struct frame_rule *rule = &step->rule;
  if (!is_known(&step->registers, rule->cfa_base)) return false;
  *cfa = step->registers.value[rule->cfa_base] + (uintptr_t)(intptr_t)rule->cfa_offset;
  if (rule->cfa_scale && !is_known(&step->registers, rule->cfa_index)) return false;
  if (rule->cfa_scale) *cfa += step->registers.value[rule->cfa_index] * rule->cfa_scale;
  if (!(rule->flags & RULE_DEREF)) return true;
  if (!read_word(stack, *cfa, cfa)) return false;
  *cfa += (uintptr_t)(intptr_t)rule->cfa_after;
  return true;
}

/* Where the rule says that a register was saved; 0 = nowhere. */
static uintptr_t place_of(const struct step *step, enum followed which, uintptr_t cfa) {
  uint8_t base = step->rule.saved_base[which];
  uintptr_t offset = (uintptr_t)(intptr_t)step->rule.saved_offset[which];
  if (base == BASE_CFA) return cfa + offset;
  if (base >= DWARF_REGISTERS || !is_known(&step->registers, base)) return 0;
  return step->registers.value[base] + offset;
}

/* Restores rbx or rbp, or forgets it. */
static void restore(struct native_stack *stack, const struct step *from, enum followed which, unsigned number,
                    uintptr_t cfa, struct unwind_registers *to) {
  uintptr_t place = place_of(from, which, cfa);
  bool known = is_known(&from->registers, number);
  to->value[number] = from->registers.value[number];
  if (from->rule.saved_base[which] != BASE_SAME) known = place && read_word(stack, place, &to->value[number]);
  if (known) to->known |= BIT(number);
}

/* Finds the caller's registers by the rule. A stack grows with each call, except where a signal changed it. */
static bool apply(struct native_stack *stack, const struct step *from, struct step *to) {
  uintptr_t cfa, address;
  if (from->found != RULE_FOUND || !cfa_of(stack, from, &cfa)) return false;
  bool signal = from->rule.flags & RULE_SIGNAL;
  if (!signal && (cfa <= from->registers.value[DWARF_RSP] || (cfa & 7))) return false;
  uintptr_t place = place_of(from, FOLLOW_RETURN, cfa);
  if (!place || !read_word(stack, place, &address) || address >= HIGHEST_ADDRESS) return false;
  to->registers.known = BIT(DWARF_RIP) | BIT(DWARF_RSP);
  to->registers.value[DWARF_RIP] = address;
  to->registers.value[DWARF_RSP] = cfa;
  to->is_return = !signal;
  restore(stack, from, FOLLOW_RBX, DWARF_RBX, cfa, &to->registers);
  restore(stack, from, FOLLOW_RBP, DWARF_RBP, cfa, &to->registers);
  return true;
}

/* The return address of a function that makecontext starts. glibc's tables do not say that it has no caller. */
static uintptr_t context_end;

void unwind_init(void) {
  static uint64_t stack[128];
  ucontext_t context = {.uc_stack = {.ss_sp = stack, .ss_size = sizeof stack}};
  makecontext(&context, (void (*)(void))unwind_init, 0);
  uintptr_t place = (uintptr_t)context.uc_mcontext.gregs[REG_RSP];
  if (place >= (uintptr_t)stack && place < (uintptr_t)stack + sizeof stack) context_end = *(uintptr_t *)place;
}

static bool starts_stack(const struct step *step) {
  uintptr_t address = step->registers.value[DWARF_RIP];
  return !address || address == context_end;
}

/* True if the address that a rule led to can be right: it follows a call, or is where the kernel or libc began this
 * stack (a signal frame, a function without a caller, or 0). */
static bool plausible(const struct step *step) {
  if (!step->is_return || (step->rule.flags & (RULE_CALLED | RULE_SIGNAL))) return true;
  return starts_stack(step) || (step->found == RULE_FOUND && step->rule.saved_base[FOLLOW_RETURN] == BASE_UNKNOWN);
}

/* What the search knows of rbp in the caller: if rbp points above the return address, the frame without a rule did not
 * change it; if it points right below, that frame has saved it there. */
static void guess_rbp(struct native_stack *stack, const struct step *from, uintptr_t place, struct step *to) {
  uintptr_t rbp = from->registers.value[DWARF_RBP];
  if (!is_known(&from->registers, DWARF_RBP) || (rbp & 7)) return;
  bool saved = rbp + sizeof(uint64_t) == place;
  to->registers.value[DWARF_RBP] = rbp;
  if (rbp > place || (saved && read_word(stack, rbp, &to->registers.value[DWARF_RBP])))
    to->registers.known |= BIT(DWARF_RBP);
}

/* Searches the stack for the next return address into an image. */
static bool search(struct native_stack *stack, const struct step *from, struct step *to) {
  uintptr_t place = (from->registers.value[DWARF_RSP] + 7) & ~(uintptr_t)7;
  to->is_return = true;
  for (int i = 0; i < SEARCHED_WORDS && stack->searched < ALL_SEARCHED_WORDS; i++, place += sizeof(uint64_t)) {
    uintptr_t *word = &to->registers.value[DWARF_RIP];
    stack->searched++;
    if (!read_word(stack, place, word)) return false;
    struct image image;
    if (!images_find(*word - 1, &image) || !images_follows_call(*word, &image)) continue;
    look_up(to);
    to->registers.value[DWARF_RSP] = place + sizeof(uint64_t);
    to->registers.known = BIT(DWARF_RIP) | BIT(DWARF_RSP);
    guess_rbp(stack, from, place, to);
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

static void add_frame(struct native_stack *stack, const struct step *step, uint8_t flags) {
  struct native_frame *frame = next_frame(stack);
  frame->pc = step->registers.value[DWARF_RIP];
  frame->function = step->rule.start;
  frame->pc_class = step->rule.pc_class;
  frame->flags = (uint8_t)(flags | (step->is_return ? 0 : NATIVE_EXACT));
  if (step->found != RULE_FOUND) frame->flags |= NATIVE_NO_RULE;
  if (flags & NATIVE_AFTER_GAP) stack->gaps++;
  stack->last_sp = step->registers.value[DWARF_RSP];
}

static bool in_eval(const struct step *step) {
  return python_in_loop(step->registers.value[DWARF_RIP] - step->is_return);
}

/* Finds the caller. False = the stack ends here; `end` says why. */
static bool advance(struct native_stack *stack, const struct step *step, struct step *caller) {
  bool has_rule = step->found == RULE_FOUND;
  if (in_eval(step)) return stack->end = UNWIND_EVAL, false;
  if (has_rule && step->rule.saved_base[FOLLOW_RETURN] == BASE_UNKNOWN) return stack->end = UNWIND_OUTERMOST, false;
  if (stack->count + stack->skipped == DEEPEST) return stack->end = UNWIND_FULL, false;
  uint8_t flags = 0;
  bool applied = apply(stack, step, caller);
  if (applied) look_up(caller);
  if (!applied || !plausible(caller)) {
    stack->frame[stack->count - 1].flags |= NATIVE_NO_RULE;
    flags = NATIVE_AFTER_GAP;
    if (!search(stack, step, caller)) return stack->end = UNWIND_LOST, false;
  } else if (starts_stack(caller)) {
    return stack->end = UNWIND_OUTERMOST, false;
  }
  add_frame(stack, caller, flags);
  return true;
}

void unwind(const struct unwind_registers *from, struct native_stack *out) {
  struct step steps[2];
  int now = 0;
  out->count = out->gaps = out->skipped = out->searched = 0;
  out->window_words = 0;
  out->window_start = 0;
  out->end = UNWIND_LOST;
  if (safe_read_refused()) return;
  for (int i = 0; i < DWARF_REGISTERS; i++) steps[0].registers.value[i] = from->value[i];
  steps[0].registers.known = from->known;
  steps[0].is_return = false;
  look_up(&steps[0]);
  add_frame(out, &steps[0], 0);
  while (advance(out, &steps[now], &steps[1 - now])) now = 1 - now;
}
