/* Tests evidence.c with the unwinder: what the functions on the native stack say about the call that the bytecode loop has
 * made. Functions of this program play those of the interpreter. */
#include <pthread.h>
#include <ucontext.h>

#include "inside/native/own.h"
#include "inside/native/images.h"
#include "shared/saferead.h"
#include "tests/check.h"
#include "tests/native/stand_ins.h"

int64_t clock_now_ns(void) { return 1; }

typedef void function(void);

static struct scratch scratch;
static struct native_evidence found, scanned;
static volatile int sink; /* what a function does after a call, so that it is not left by a jump */

/* The interrupted function. */
APART static void leaf(void) {
  static ucontext_t context; /* it is larger than what is scanned of the stack on some processors */
  getcontext(&context);
  evidence_take(&context, &scratch, &found);
  uintptr_t sp = arch_interrupted_sp(&context);
  evidence_scan((uintptr_t)&leaf, sp, &scratch, &scanned);
  sink++;
}

static function *volatile next_function; /* what type_call or make_tp_call calls through a pointer */
static function *volatile made_by_pointer, *volatile called_by_pointer;
static uintptr_t in_vectorcall; /* a return address in it */

APART static void vectorcall(void) {
  next_function();
  sink++;
}
static void end_of_vectorcall(void) {}

APART static void type_call(void) {
  made_by_pointer();
  sink++;
}

APART static void make_tp_call(void) {
  called_by_pointer();
  sink++;
}
static void end_of_make_tp_call(void) {}

static function *volatile of_helper;
APART static void helper_of_loop(void) {
  of_helper();
  sink++;
}

/* The bytecode loop: it calls a function through a pointer or, if there is none, its helper directly. */
static function *volatile of_loop;
APART static void loop(void) {
  if (of_loop) {
    of_loop();
  } else {
    helper_of_loop();
  }
  sink++;
}
static void end_of_loop(void) {}

/* ---- what is called ---- */

APART static void slot_tp_init(void) {
  leaf();
  sink++;
}
APART static void builtin_new(void) {
  leaf();
  sink++;
}
APART static void other_new(void) {
  leaf();
  sink++;
}
APART static void helper(void) {
  leaf();
  sink++;
}
APART static void directly(void) { /* plays type_call that calls a helper directly */
  helper();
  sink++;
}

/* Plays a stub of the procedure linkage table, through which a library calls functions that it exports itself. */
void exported(void);
void stub(void);
APART void exported(void) {
  leaf();
  sink++;
}
#ifdef __aarch64__
#define JUMP "b"
#else
#define JUMP "jmp"
#endif
__asm__(".text\n.type stub, %function\nstub: .cfi_startproc\n" JUMP " exported\n.cfi_endproc\n.size stub, .-stub");
APART static void through_stub(void) { /* plays type_call that calls an exported function by name */
  stub();
  sink++;
}

APART static void sort(void) { /* a C function that makes instances */
  make_tp_call();
  sink++;
}
APART static void remember(void) {
  in_vectorcall = (uintptr_t)__builtin_return_address(0);
  sink++;
}
APART static void with_stale_words(void) {
  volatile uintptr_t words[8];
  for (int i = 0; i < 8; i++) words[i] = in_vectorcall;
  leaf();
  sink += words[0] == in_vectorcall;
}

/* ---- tests ---- */

static uint32_t flags_of_call(function *by_loop, function *by_make_tp_call, function *by_type) {
  of_loop = by_loop;
  called_by_pointer = by_make_tp_call;
  made_by_pointer = by_type;
  found = (struct native_evidence){0};
  loop();
  check(found.flags & TICK_EVAL_FOUND);
  check(found.flags >> TICK_PC_SHIFT == PC_INTERPRETER);
  return found.flags & (TICK_VECTORCALL | TICK_TPCALL | TICK_PYFRAME | TICK_TYPE_CALL);
}

/* What an object has called is written in C, whether or not its functions have names. */
#define C_OBJECT (TICK_VECTORCALL | TICK_TYPE_CALL)

static void test_types_by_their_functions(void) {
  check(flags_of_call(make_tp_call, type_call, slot_tp_init) == (TICK_TPCALL | TICK_PYFRAME));
  check(flags_of_call(make_tp_call, type_call, builtin_new) == C_OBJECT);
  check(flags_of_call(make_tp_call, type_call, other_new) == C_OBJECT);
  check(flags_of_call(make_tp_call, slot_tp_init, NULL) == (TICK_TPCALL | TICK_PYFRAME)); /* as slot_tp_call */
  check(flags_of_call(make_tp_call, builtin_new, NULL) == C_OBJECT);
  check(flags_of_call(type_call, NULL, builtin_new) == C_OBJECT); /* without make_tp_call: f(*args) */
  check(flags_of_call(type_call, NULL, slot_tp_init) == (TICK_TPCALL | TICK_PYFRAME));
  check(flags_of_call(slot_tp_init, NULL, NULL) == (TICK_TPCALL | TICK_PYFRAME)); /* as slot_tp_call */
  next_function = slot_tp_init;
  check(flags_of_call(vectorcall, NULL, NULL) == (TICK_VECTORCALL | TICK_TPCALL | TICK_PYFRAME));
}

#define OF_TYPE_CALL (TICK_TPCALL | TICK_PYFRAME | TICK_TYPE_CALL)

static void test_the_work_of_calling_is_not_the_callees(void) {
  check(flags_of_call(make_tp_call, leaf, NULL) == C_OBJECT); /* `leaf` is called through a pointer */
  python_symbols.type_call = (uintptr_t)&directly;
  check(flags_of_call(make_tp_call, directly, NULL) == OF_TYPE_CALL);
  python_symbols.type_call = (uintptr_t)&through_stub;
  check(flags_of_call(make_tp_call, through_stub, NULL) == OF_TYPE_CALL);
  python_symbols.type_call = (uintptr_t)&leaf;
  check(flags_of_call(make_tp_call, leaf, NULL) == OF_TYPE_CALL); /* interrupted in type_call itself */
  python_symbols.type_call = (uintptr_t)&type_call;
}

/* They make instances of Python classes, and of types in C that have no function of their own for it. */
static void test_objects_own_functions_do_not_tell_what_is_called(void) {
  python_symbols.own[OWN_MAKING - 1] = (uintptr_t)&other_new;
  check(flags_of_call(make_tp_call, type_call, other_new) == OF_TYPE_CALL);
  check(flags_of_call(type_call, NULL, other_new) == OF_TYPE_CALL);
  check(flags_of_call(make_tp_call, type_call, slot_tp_init) == (TICK_TPCALL | TICK_PYFRAME));
  python_symbols.slots_known = false;
  check(!(flags_of_call(make_tp_call, type_call, other_new) & TICK_PYFRAME));
  python_symbols.slots_known = true;
  python_symbols.own[OWN_MAKING - 1] = 0;
}

static void test_without_slots_unknown_functions_stay_open(void) {
  python_symbols.slots_known = false;
  check(flags_of_call(make_tp_call, type_call, other_new) == TICK_TPCALL);
  check(flags_of_call(make_tp_call, type_call, slot_tp_init) == TICK_TPCALL);
  check(flags_of_call(make_tp_call, type_call, builtin_new) == TICK_VECTORCALL);
  python_symbols.slots_known = true;
}

static void test_a_copy_with_type_call_within_it(void) {
  python_symbols.call[1].flag = TICK_TPCALL | TICK_TYPE_CALL;
  check(flags_of_call(make_tp_call, other_new, NULL) == C_OBJECT);
  check(flags_of_call(make_tp_call, slot_tp_init, NULL) == (TICK_TPCALL | TICK_PYFRAME));
  python_symbols.own[OWN_MAKING - 1] = (uintptr_t)&other_new; /* as object's own function */
  check(flags_of_call(make_tp_call, other_new, NULL) == OF_TYPE_CALL);
  python_symbols.own[OWN_MAKING] = (uintptr_t)&other_new; /* as that which frees the arguments */
  python_symbols.own[OWN_MAKING - 1] = 0;
  check(flags_of_call(make_tp_call, other_new, NULL) == TICK_TPCALL);
  python_symbols.own[OWN_MAKING] = 0;
  python_symbols.call[1].flag = TICK_TPCALL;
}

static void test_a_bound_method_is_a_python_functions(void) {
  uint32_t is_python = TICK_TPCALL | TICK_PYFRAME, tells_nothing = is_python | TICK_TYPE_CALL;
  python_symbols.bound_call = (uintptr_t)&leaf;
  check(flags_of_call(leaf, NULL, NULL) == tells_nothing); /* its own work */
  python_symbols.bound_call = (uintptr_t)&helper;
  next_function = helper;
  check(flags_of_call(helper, NULL, NULL) == tells_nothing); /* and what it calls by name */
  check(flags_of_call(vectorcall, NULL, NULL) == (TICK_VECTORCALL | tells_nothing));
  python_symbols.bound_call = (uintptr_t)&directly;
  check(flags_of_call(directly, NULL, NULL) == is_python); /* what that calls */
  python_symbols.type_call = (uintptr_t)&make_tp_call;
  python_symbols.bound_call = (uintptr_t)&type_call; /* which calls another function through a pointer */
  check(flags_of_call(type_call, NULL, other_new) == is_python);
  check(flags_of_call(type_call, NULL, builtin_new) == TICK_VECTORCALL);
  check(flags_of_call(type_call, other_new, make_tp_call) == C_OBJECT); /* a type: its own rule */
  python_symbols.type_call = (uintptr_t)&type_call;
  python_symbols.bound_call = (uintptr_t)&directly;
  next_function = sort; /* what C code calls is its own affair */
  check(flags_of_call(vectorcall, directly, NULL) == TICK_VECTORCALL);
  python_symbols.bound_call = 0;
}

static void test_the_end_of_a_call_counts_where_the_loop_made_it(void) {
  python_symbols.call[1].flag = CALL_ENDS;
  check(flags_of_call(make_tp_call, leaf, NULL) == TICK_PYFRAME);
  next_function = make_tp_call;
  check(flags_of_call(vectorcall, leaf, NULL) == (TICK_VECTORCALL | TICK_PYFRAME));
  check(flags_of_call(sort, leaf, NULL) == 0); /* a call that C code has made */
  python_symbols.call[1].flag = TICK_TPCALL;
}

static void test_the_outermost_call_decides(void) {
  next_function = sort;
  check(flags_of_call(vectorcall, type_call, slot_tp_init) == TICK_VECTORCALL);
  next_function = other_new;
  check(flags_of_call(vectorcall, NULL, NULL) == TICK_VECTORCALL);
  next_function = make_tp_call; /* the call machinery itself */
  check(flags_of_call(vectorcall, type_call, slot_tp_init) & TICK_TPCALL);
  check(flags_of_call(other_new, NULL, NULL) == 0);
  check(flags_of_call(sort, type_call, slot_tp_init) == 0); /* the loop calls it through a pointer (3.10) */
  of_helper = sort;
  check(flags_of_call(NULL, type_call, slot_tp_init) == 0);
  of_helper = make_tp_call;
  check(flags_of_call(NULL, type_call, slot_tp_init) == (TICK_TPCALL | TICK_PYFRAME));
}

static void test_words_that_are_no_frames_do_not_count(void) {
  next_function = remember;
  vectorcall();
  check(flags_of_call(with_stale_words, NULL, NULL) == 0);
  /* The scan cannot know that. With a link register, it finds the caller first, since that lies at the lower end of a frame. */
  check(ARCH_LINK_REGISTER || (scanned.flags & TICK_VECTORCALL));
}

static void test_the_loop_itself(void) {
  ucontext_t context;
  getcontext(&context);
  python_symbols.eval = (struct address_range){(uintptr_t)&test_the_loop_itself, (uintptr_t)-1, 0};
  evidence_take(&context, &scratch, &found);
  check(found.flags == PC_EVAL << TICK_PC_SHIFT);
  check(found.eval_frame == arch_interrupted_sp(&context) && !found.extension_pc);
}

static void *without_loop(void *unused) {
  leaf();
  check(!(found.flags & (TICK_EVAL_FOUND | TICK_VECTORCALL | TICK_TPCALL)) && !found.eval_frame);
  return unused;
}

static void test_a_thread_without_a_loop(void) {
  pthread_t thread;
  check(!pthread_create(&thread, NULL, without_loop, NULL) && !pthread_join(thread, NULL));
}

static struct address_range range(function *start, function *end, uint32_t flag) {
  return (struct address_range){(uintptr_t)start, (uintptr_t)end, flag};
}

int main(void) {
  safe_read_init();
  check(!safe_read_refused());
  python_symbols.eval = range(loop, end_of_loop, 0);
  python_symbols.call[0] = range(vectorcall, end_of_vectorcall, TICK_VECTORCALL);
  python_symbols.call[1] = range(make_tp_call, end_of_make_tp_call, TICK_TPCALL);
  python_symbols.calls = 2;
  python_symbols.type_call = (uintptr_t)&type_call;
  python_symbols.own[1] = (uintptr_t)&slot_tp_init;
  python_symbols.builtin[0] = (uintptr_t)&builtin_new;
  python_symbols.builtins = 1;
  python_symbols.slots_known = true;
  images_init();
  unwind_init();
  test_types_by_their_functions();
  test_the_work_of_calling_is_not_the_callees();
  test_objects_own_functions_do_not_tell_what_is_called();
  test_without_slots_unknown_functions_stay_open();
  test_a_copy_with_type_call_within_it();
  test_a_bound_method_is_a_python_functions();
  test_the_end_of_a_call_counts_where_the_loop_made_it();
  test_the_outermost_call_decides();
  test_words_that_are_no_frames_do_not_count();
  test_a_thread_without_a_loop();
  test_the_loop_itself();
  puts("ok");
  return 0;
}
