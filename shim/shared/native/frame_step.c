/* One step of unwinding: from the registers of a function to those of its caller. */
#include "shared/native/frame_step.h"

#include "shared/base.h"
#include "shared/native/frame_program.h"
#include "shared/saferead.h"

/* ---- the stack ---- */

static SLOW_PATH bool fill(struct stack_window *stack, uintptr_t address) {
  stack->start = address;
  if (address >= stack->low && address < stack->high && stack->high - address >= sizeof(uint64_t)) {
    stack->word = (const uint64_t *)address;
    stack->words = (stack->high - address) / sizeof(uint64_t);
    return true;
  }
  stack->word = stack->copy;
  stack->words = safe_read_some(stack->copy, (const void *)address, sizeof stack->copy) / sizeof *stack->copy;
  return stack->words > 0;
}

/* The address sanitizer does not want what lies between the variables of other functions to be read. */
bool stack_window_read(struct stack_window *, uintptr_t, uintptr_t *) __attribute__((no_sanitize_address));

/* Windows begin at the word that is needed, since the next ones lie at higher addresses. */
bool stack_window_read(struct stack_window *stack, uintptr_t address, uintptr_t *out) {
  uintptr_t index = (address - stack->start) / sizeof(uint64_t);
  if ((address & 7) || address >= ARCH_HIGHEST_ADDRESS) return false;
  if (address < stack->start || index >= stack->words) {
    if (!fill(stack, address)) return false;
    index = 0;
  }
  *out = (uintptr_t)stack->word[index];
  return true;
}

/* ---- the step ---- */

static bool is_known(const struct unwind_registers *registers, unsigned number) {
  return registers->known & BIT(number);
}

static bool cfa_of(struct stack_window *stack, const struct frame_step *step, uintptr_t *cfa) {
  const struct frame_rule *rule = &step->rule;
  if (!is_known(&step->registers, rule->cfa_base)) return false;
  *cfa = step->registers.value[rule->cfa_base] + (uintptr_t)(intptr_t)rule->cfa_offset;
  if (rule->cfa_scale && !is_known(&step->registers, rule->cfa_index)) return false;
  if (rule->cfa_scale) *cfa += step->registers.value[rule->cfa_index] * rule->cfa_scale;
  if (!(rule->flags & RULE_DEREF)) return true;
  if (!stack_window_read(stack, *cfa, cfa)) return false;
  *cfa += (uintptr_t)(intptr_t)rule->cfa_after;
  return true;
}

/* Where the rule says that a register was saved; 0 = nowhere. */
static uintptr_t place_of(const struct frame_step *step, enum followed which, uintptr_t cfa) {
  uint8_t base = step->rule.saved_base[which];
  uintptr_t offset = (uintptr_t)(intptr_t)step->rule.saved_offset[which];
  if (base == BASE_CFA) return cfa + offset;
  if (base >= DWARF_REGISTERS || !is_known(&step->registers, base)) return 0;
  return step->registers.value[base] + offset;
}

/* Restores a register that the callee saves, or forgets it. */
static void restore(struct stack_window *stack, const struct frame_step *from, enum followed which, unsigned number,
                    uintptr_t cfa, struct unwind_registers *to) {
  uintptr_t place = place_of(from, which, cfa);
  bool known = is_known(&from->registers, number);
  to->value[number] = from->registers.value[number];
  if (from->rule.saved_base[which] != BASE_SAME) known = place && stack_window_read(stack, place, &to->value[number]);
  if (known) to->known |= BIT(number);
}

/* A stack grows with each call, except where a signal changed it, or where an innermost function has saved nothing and the
 * return address is in its register. That register is unknown in the caller, which has made a call. */
bool frame_step_apply(struct stack_window *stack, const struct frame_step *from, struct frame_step *to) {
  uintptr_t cfa, address;
  if (!from->has_rule || !cfa_of(stack, from, &cfa)) return false;
  bool signal = from->rule.flags & RULE_SIGNAL;
  bool in_register = ARCH_LINK_REGISTER && from->rule.saved_base[FOLLOW_RETURN] == BASE_SAME;
  uintptr_t lowest = from->registers.value[DWARF_STACK] + !in_register;
  if (!signal && (cfa < lowest || (cfa & 7))) return false;
  if (in_register) {
    if (!is_known(&from->registers, DWARF_RETURN)) return false;
    address = from->registers.value[DWARF_RETURN];
  } else {
    uintptr_t place = place_of(from, FOLLOW_RETURN, cfa);
    if (!place || !stack_window_read(stack, place, &address)) return false;
  }
  address = arch_code_address(address);
  if (address >= ARCH_HIGHEST_ADDRESS) return false;
  to->registers.known = BIT(DWARF_PC) | BIT(DWARF_STACK);
  to->registers.value[DWARF_PC] = address;
  to->registers.value[DWARF_STACK] = cfa;
  to->is_return = !signal;
  if (ARCH_SIGNAL_FRAMES_BY_CODE && signal && from->rule.cfa_offset == ARCH_SIGNAL_STACK) {
    uintptr_t place = from->registers.value[DWARF_STACK] + ARCH_SIGNAL_RETURN;
    if (stack_window_read(stack, place, &to->registers.value[DWARF_RETURN])) to->registers.known |= BIT(DWARF_RETURN);
  }
  restore(stack, from, FOLLOW_EXTRA, DWARF_EXTRA, cfa, &to->registers);
  restore(stack, from, FOLLOW_FRAME, DWARF_FRAME, cfa, &to->registers);
  return true;
}

void frame_step_restore_further(struct stack_window *stack, const struct frame_step *from,
                                struct unwind_registers *to) {
  if (from->rule.flags & RULE_SIGNAL) return;
  for (unsigned i = 0; i < FURTHER; i++) {
    unsigned number = DWARF_FURTHER + i, words = from->rule.further[i];
    bool known = words == FURTHER_SAME && is_known(&from->registers, number);
    to->value[number] = from->registers.value[number];
    if (words != FURTHER_SAME && words != FURTHER_UNKNOWN)
      known = stack_window_read(stack, to->value[DWARF_STACK] - words * sizeof(uint64_t), &to->value[number]);
    if (known) to->known |= BIT(number);
  }
}
