/* One step of unwinding: from the registers of a function to those of its caller. */
#ifndef SCALENE_TRACE_SHARED_NATIVE_FRAME_STEP_H
#define SCALENE_TRACE_SHARED_NATIVE_FRAME_STEP_H

#include "shared/base.h"
#include "shared/native/frame_program.h"

#pragma GCC visibility push(hidden)

#define BIT(number) ((arch_register_set)1 << (number))

/* Registers by DWARF's numbers. */
struct unwind_registers {
  uintptr_t value[DWARF_REGISTERS];
  arch_register_set known; /* bit n: register n is known */
};

/* The part of a thread's stack that is at hand, in place or as a copy. */
#define WINDOW_WORDS 256
struct stack_window {
  uintptr_t low, high; /* may be read in place */
  uintptr_t start;
  size_t words;
  const uint64_t *word;
  uint64_t copy[WINDOW_WORDS];
};

/* What is known where the return address was found by a search of the stack: a call that pushes it leaves the stack pointer
 * right above. With a link register it is saved anywhere in a frame, so the caller's stack pointer is unknown. */
#define FOUND_BY_SEARCH (ARCH_LINK_REGISTER ? BIT(DWARF_PC) : BIT(DWARF_PC) | BIT(DWARF_STACK))

/* A frame on the way: its registers, and the rule of its instruction. */
struct frame_step {
  struct unwind_registers registers;
  struct frame_rule rule;
  bool has_rule;
  bool is_return; /* the instruction is a return address */
};

/* Begins to read a stack, of which [low, high) may be read in place. Context: signal. */
static inline void stack_window_begin(struct stack_window *stack, uintptr_t low, uintptr_t high) {
  stack->low = low;
  stack->high = high;
  stack->start = stack->words = 0;
}
/* Reads an aligned word of the stack; false = it is not readable. Context: signal. */
bool stack_window_read(struct stack_window *stack, uintptr_t address, uintptr_t *out);
/* Finds the caller's registers by the rule; the caller's rule is not looked up. False = there is no rule, or it does not
 * lead to a caller. Context: signal. */
bool frame_step_apply(struct stack_window *stack, const struct frame_step *from, struct frame_step *to);
/* After that: the further registers of the caller, too. Context: signal. */
void frame_step_restore_further(struct stack_window *stack, const struct frame_step *from, struct unwind_registers *to);

#pragma GCC visibility pop

#endif
