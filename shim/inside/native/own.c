/* Unwinds threads of this process, and derives the evidence of their ticks. */
#include "inside/native/own.h"

#include <assert.h>

#include "formats/spool/spool.h"
#include "inside/core/thread_state.h"
#include "shared/base.h"
#include "shared/evidence/chains.h"
#include "shared/evidence/evidence.h"
#include "shared/evidence/unwind.h"
#include "shared/native/frame_step.h"
#include "shared/saferead.h"
#include "shared/valgrind.h"

/* The thread's own stack is read in place, up to its end or to a gap. Another one, such as that of a coroutine, may end
 * anywhere, and valgrind would report words that nothing was written to. */
static ALWAYS_INLINE void find_own_stack(struct stack_window *window) {
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  bool in_place = thread_stack_holds(here + sizeof here, sizeof here) && !under_valgrind();
  stack_window_begin(window, in_place ? here : 0, in_place ? this_stack.high : 0);
}

void unwind(const struct unwind_registers *from, struct native_stack *out) {
  find_own_stack(&out->window);
  unwind_from(from, out);
}

static struct native_stack *stack_in(struct scratch *scratch) {
  static_assert(sizeof(struct native_stack) <= sizeof scratch->words, "a native stack fits into a scratch");
  return (struct native_stack *)scratch->words;
}

void evidence_take(const void *context, struct scratch *scratch, struct native_evidence *out) {
  struct native_stack *stack = stack_in(scratch);
  struct unwind_registers registers;
  unwind_registers_of(context, &registers);
  unwind(&registers, stack);
  evidence_of(&registers, stack, this_thread.id, scratch, out);
}

uint64_t evidence_of_caller(struct scratch *scratch) {
  struct native_stack *stack = stack_in(scratch);
  struct unwind_registers registers;
  unwind_registers_here(&registers);
  unwind(&registers, stack);
  int first = 0, count = stack->count - (stack->end == UNWIND_EVAL);
  while (first < count && stack->frame[first].pc_class == PC_SHIM) first++;
  bool cut = stack->end == UNWIND_FULL || stack->end == UNWIND_LOST;
  return native_chain(&stack->frame[first], count - first, cut, this_thread.id);
}
