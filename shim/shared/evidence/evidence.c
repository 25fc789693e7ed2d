/* Derives the evidence of a tick from the functions on the native stack. The rule that uses it is in
 * docs/design/attribution.md. */
#include "shared/evidence/evidence.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/evidence/access.h"
#include "shared/evidence/chains.h"
#include "shared/evidence/frame_rules.h"
#include "shared/evidence/unwind.h"
#include "shared/interpreter/symbols.h"
#include "shared/saferead.h"

#define SCAN_WORDS 384

static bool in_range(uintptr_t address, const struct address_range *range) {
  return address - range->start < range->end - range->start;
}

static uint32_t call_flags(uintptr_t address) {
  for (int i = 0; i < python_symbols.calls; i++) {
    if (in_range(address, &python_symbols.call[i])) return python_symbols.call[i].flag;
  }
  return 0;
}

/* ---- from frames ---- */

static bool is_among(uintptr_t function, const uintptr_t *functions, int count) {
  for (int i = 0; i < count; i++) {
    if (functions[i] == function) return true;
  }
  return false;
}

/* The work of the function that calls bound methods, also in what it calls by name. It is Python's, but does not tell what
 * the method's function is. */
#define OF_BOUND (TICK_TPCALL | TICK_PYFRAME | TICK_TYPE_CALL)

/* How far it is known what the bytecode loop has called. */
enum called {
  CALLED_NOTHING, /* no function that makes calls was found yet */
  CALLED_OBJECT,  /* through PyObject_Vectorcall or PyObject_Call* */
  CALLED_TP_CALL, /* through _PyObject_MakeTpCall */
  CALLED_COPY,    /* through a copy of that which has type_call within it */
  CALLED_TYPE,    /* through type_call */
  CALLED_BOUND,   /* a bound method, which nearly always is a Python function's */
  CALLED_DECIDED,
};

/* True if `caller` has called what it calls by name, not through a pointer: call instructions with a distance. The function
 * on the stack may be another one than the call names, which then jumped to it: a stub of the procedure linkage table, for
 * functions that a library exports, or a function that ends with a call. Bytes that only look like such an instruction lead
 * out of the image. */
static bool is_direct(const struct native_frame *caller) {
  struct image image, called;
  uintptr_t after = caller->pc;
  if ((caller->flags & (NATIVE_EXACT | NATIVE_AFTER_GAP)) || !image_access.find(after - 5, &image)) return false;
  uintptr_t target = image_access.called_directly(after, &image);
  return target && image_access.find(target, &called) && called.start == image.start;
}

static bool of_object(enum called so_far) { return so_far >= CALLED_TP_CALL && so_far <= CALLED_TYPE; }

/* The work is that of type_call itself, or is done for a Python class. Without the slots, nothing says so, since what else
 * an object calls may belong to a Python class too. */
static void add_own_work(uint32_t *flags) {
  if (python_symbols.slots_known) *flags |= TICK_PYFRAME;
}

/* A function that makes no calls itself. If a type or another object was called, it is what that calls, unless it is
 * called directly. Slots of Python classes may be called without _PyObject_MakeTpCall too: f(*args). What the loop calls
 * through a pointer is the callee (3.10, where PyObject_Vectorcall is part of the loop). */
static enum called enter_callee(enum called so_far, const struct native_frame *frame, uint32_t *flags) {
  uintptr_t function = frame->function;
  if (so_far == CALLED_BOUND) {
    bool is_helper = frame[1].function == python_symbols.bound_call && is_direct(frame + 1);
    if (!is_helper) *flags &= ~(uint32_t)TICK_TYPE_CALL;
    if (!is_among(function, python_symbols.builtin, python_symbols.builtins)) return so_far;
    *flags = (*flags & ~(uint32_t)OF_BOUND) | TICK_VECTORCALL;
    return CALLED_DECIDED;
  }
  if (!function) return of_object(so_far) ? CALLED_DECIDED : so_far;
  bool is_slot = is_among(function, python_symbols.own, OWN_SLOTS);
  if (is_slot && python_symbols.slots_known) *flags |= TICK_TPCALL;
  bool is_own = of_object(so_far) && (is_among(function, python_symbols.own, MAX_OWN) || is_direct(frame + 1));
  if (is_slot || is_own) {
    bool is_making = so_far == CALLED_COPY && is_among(function, python_symbols.own, OWN_MAKING);
    if (is_slot || so_far == CALLED_TYPE || is_making) add_own_work(flags);
    if (!is_slot && (so_far == CALLED_TYPE || is_making)) *flags |= TICK_TYPE_CALL;
  } else if (of_object(so_far) && python_symbols.slots_known) {
    *flags = (*flags & ~(uint32_t)TICK_TPCALL) | TICK_VECTORCALL | TICK_TYPE_CALL; /* also without a name */
  } else if (is_among(function, python_symbols.builtin, python_symbols.builtins)) {
    *flags = (*flags & ~(uint32_t)TICK_TPCALL) | TICK_VECTORCALL;
  } else if (so_far == CALLED_NOTHING && is_direct(frame + 1)) {
    return so_far; /* a helper of the loop, which may make the call */
  }
  return CALLED_DECIDED;
}

/* Follows the stack inwards by one frame; the frame behind it in the array is its caller's. */
static enum called enter(enum called so_far, const struct native_frame *frame, uint32_t *flags) {
  uint32_t flag = call_flags(frame->pc - !(frame->flags & NATIVE_EXACT));
  if (flag == TICK_PYFRAME || (flag == CALL_ENDS && so_far != CALLED_DECIDED)) *flags |= TICK_PYFRAME;
  if (flag == TICK_PYFRAME && so_far == CALLED_BOUND) *flags &= ~(uint32_t)TICK_TYPE_CALL;
  if ((flag & TICK_PYFRAME) || so_far == CALLED_DECIDED) return so_far;
  bool is_type_call = frame->function && frame->function == python_symbols.type_call;
  if (so_far == CALLED_BOUND && (is_type_call || (flag & TICK_TPCALL))) *flags &= ~(uint32_t)OF_BOUND;
  if (is_type_call) {
    *flags |= TICK_TPCALL;
    return CALLED_TYPE;
  }
  if (frame->function && frame->function == python_symbols.bound_call && so_far <= CALLED_OBJECT) {
    *flags |= OF_BOUND;
    return CALLED_BOUND;
  }
  *flags |= flag & ~(uint32_t)TICK_TYPE_CALL;
  if (flag & TICK_TPCALL) return flag == TICK_TPCALL ? CALLED_TP_CALL : CALLED_COPY;
  if (flag == TICK_VECTORCALL) return so_far == CALLED_NOTHING ? CALLED_OBJECT : so_far;
  return enter_callee(so_far, frame, flags);
}

static uint32_t pc_class_of(uintptr_t pc, uint32_t image_class) {
  return image_class == PC_INTERPRETER && python_in_loop(pc) ? PC_EVAL : image_class;
}

static void take_frames(const struct native_stack *stack, uint32_t thread, struct native_evidence *out) {
  const struct native_frame *innermost = &stack->frame[0];
  out->flags |= pc_class_of(innermost->pc, innermost->pc_class) << TICK_PC_SHIFT;
  bool to_loop = stack->end == UNWIND_EVAL;
  out->chain = native_chain(stack->frame, stack->count - to_loop, stack->end == UNWIND_FULL, thread);
  if (!to_loop) return;
  out->eval_frame = stack->last_sp;
  if (stack->count == 1) return;
  out->flags |= TICK_EVAL_FOUND;
  enum called called = CALLED_NOTHING;
  for (int i = stack->count - 2; i >= 0; i--) called = enter(called, &stack->frame[i], &out->flags);
  if (called != CALLED_TYPE) return;
  add_own_work(&out->flags);
  out->flags |= TICK_TYPE_CALL;
}

/* The functions that a scan knows: that of the interrupted instruction and the innermost one in an extension. */
static uint64_t scanned_chain(uintptr_t pc, uintptr_t extension_pc, uint32_t thread) {
  struct native_frame frame[2] = {{.pc = pc, .flags = NATIVE_EXACT}, {.pc = extension_pc, .flags = NATIVE_AFTER_GAP}};
  int count = 1 + (extension_pc != 0);
  for (int i = 0; i < count; i++) {
    struct frame_rule rule;
    if (frame_rules_find(frame[i].pc, i > 0, &rule)) frame[i].function = rule.start;
  }
  return native_chain(frame, count, true, thread);
}

void evidence_of(const struct unwind_registers *registers, const struct native_stack *stack, uint32_t thread,
                 struct scratch *scratch, struct native_evidence *out) {
  *out = (struct native_evidence){0};
  if (stack->count && stack->end != UNWIND_LOST) {
    take_frames(stack, thread, out);
    return;
  }
  uintptr_t pc = registers->value[DWARF_PC];
  evidence_scan(pc, registers->value[DWARF_STACK], scratch, out);
  if (out->flags >> TICK_PC_SHIFT != PC_EVAL) out->chain = scanned_chain(pc, out->extension_pc, thread);
}

/* ---- from a scan ---- */

/* Adds the evidence of one word of the stack that points into an image. True = it is a return address in the bytecode
 * loop, which ends the scan. */
static bool add_word(uintptr_t word, const struct image *image, struct native_evidence *out) {
  if (!image_access.follows_call(word, image)) return false;
  if (image->pc_class == PC_EXTENSION && !out->extension_pc) out->extension_pc = word;
  if (image->pc_class != PC_INTERPRETER) return false;
  if (python_in_loop(word - 1)) {
    out->flags |= TICK_EVAL_FOUND;
    return true;
  }
  out->flags |= call_flags(word - 1) & ~(uint32_t)TICK_TYPE_CALL;
  return false;
}

static uint32_t classify(uintptr_t pc, struct native_evidence *out) {
  struct image image;
  if (!image_access.find(pc, &image)) return PC_UNKNOWN;
  uint32_t pc_class = pc_class_of(pc, image.pc_class);
  if (pc_class == PC_INTERPRETER) out->flags |= call_flags(pc) & ~(uint32_t)TICK_TYPE_CALL;
  return pc_class;
}

void evidence_scan(uintptr_t pc, uintptr_t sp, struct scratch *scratch, struct native_evidence *out) {
  uint64_t *words = scratch->words;
  *out = (struct native_evidence){0};
  uint32_t pc_class = classify(pc, out);
  out->flags |= pc_class << TICK_PC_SHIFT;
  if (pc_class == PC_EVAL) out->eval_frame = sp;
  if (pc_class == PC_EVAL || !python_symbols.eval.start) return;
  size_t count = safe_read_some(words, (void *)(sp & ~(uintptr_t)7), SCAN_WORDS * sizeof *words) / sizeof *words;
  for (size_t i = 0; i < count; i++) {
    struct image image;
    uintptr_t word = arch_code_address((uintptr_t)words[i]);
    if (!image_access.find(word, &image) || !add_word(word, &image, out)) continue;
    out->eval_frame = (sp & ~(uintptr_t)7) + (i + 1) * sizeof *words;
    return;
  }
}
