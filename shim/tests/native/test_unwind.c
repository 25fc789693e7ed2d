/* Tests unwind.c, frame_rules.c and cursor.c with images.c and frame_program.c: every instruction of a run is unwound and
 * compared with a shadow stack of its calls; signal frames, other stacks and code without tables; damaged tables. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "shared/evidence/frame_rules.h"
#include "inside/native/images.h"
#include "inside/native/own.h"
#include "shared/clock.h"
#include "shared/random.h"
#include "shared/saferead.h"
#include "tests/check.h"
#include "tests/native/stand_ins.h"

/* Only x86-64 lets a program see each of its own instructions. The thread sanitizer's handler of signals is not ready for one
 * after each of them. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define HAS_STEPS
#endif

int64_t clock_now_ns(void) { return 1; }

/* ---- helpers ---- */

#define APART_FAST __attribute__((noinline, optimize("O2", "omit-frame-pointer")))

/* The registers at this instruction of the calling function. */
#define REGISTERS_HERE(out) unwind_registers_here(out)

static struct native_stack result;
static uint64_t random_state = 1;

static uint64_t draw(void) { return random_next(&random_state); }

__attribute__((noinline)) static void unwind_here(void) {
  struct unwind_registers registers;
  REGISTERS_HERE(&registers);
  unwind(&registers, &result);
}

/* Returns the index of the frame of a function; -1 = it is not there. */
static int frame_of(const struct native_stack *stack, const void *function) {
  for (int i = 0; i < stack->count; i++) {
    if (stack->frame[i].function == (uintptr_t)function) return i;
  }
  return -1;
}

/* ---- every instruction of a run ----
 *
 * The trap flag makes the processor raise SIGTRAP after each instruction. The handler keeps a shadow stack: a call
 * instruction pushes its return address, a return instruction pops it. */

#define MAX_SHADOW 512
static int depth;
static uintptr_t previous_pc;
#ifdef HAS_STEPS
static uintptr_t shadow[MAX_SHADOW];
static uint64_t steps, wrong_steps, lost_registers;
static struct unwind_registers
    outermost; /* at the first step: no function that ends before the last one changes them */

/* Returns the offset of the opcode behind the prefixes. */
static int opcode_at(const uint8_t *code) {
  int at = 0;
  while (code[at] == 0xf2 || code[at] == 0xf3 || code[at] == 0x66 || code[at] == 0x2e || code[at] == 0x3e) at++;
  return at + ((code[at] & 0xf0) == 0x40);
}

static void follow_shadow(const ucontext_t *user) {
  const uint8_t *code = (const uint8_t *)previous_pc;
  uintptr_t sp = (uintptr_t)user->uc_mcontext.gregs[REG_RSP];
  if (!previous_pc) return;
  code += opcode_at(code);
  if (code[0] == 0xe8 || (code[0] == 0xff && (code[1] & 0x38) == 0x10)) {
    check(depth < MAX_SHADOW);
    shadow[depth++] = *(uintptr_t *)sp;
  } else if (code[0] == 0xc3 || code[0] == 0xc2) {
    check(depth > 0);
    depth--;
  } else if (code[0] == 0x0f && code[1] == 0x05 && depth &&
             user->uc_mcontext.gregs[REG_RIP] == (greg_t)shadow[depth - 1]) {
    depth--; /* a system call is one step with the next instruction */
  }
}

static void report_step(int at) {
  Dl_info info = {0};
  dladdr((void *)result.frame[0].pc, &info);
  fprintf(stderr, "step %lu at %#lx (%s %s+%#lx): frame %d of %d, depth %d, end %d, gaps %d\n", steps,
          result.frame[0].pc, info.dli_fname, info.dli_sname, result.frame[0].pc - (uintptr_t)info.dli_fbase, at,
          result.count, depth, (int)result.end, result.gaps);
}

/* Whether the registers that all callees save are found in the outermost frame. */
static void follow_registers(const struct unwind_registers *now) {
  static const uint8_t number[] = {DWARF_EXTRA, DWARF_FRAME, 12, 13, 14, 15};
  static struct native_stack stack;
  struct unwind_registers found;
  stack_window_begin(&stack.window, 0, 0);
  unwind_to_registers(now, &stack, &found);
  if (stack.end != UNWIND_OUTERMOST || stack.gaps) return;
  if (!outermost.known) outermost = found;
  for (size_t i = 0; i < sizeof number; i++) {
    bool known = found.known & BIT(number[i]);
    lost_registers += (!known && (outermost.known & BIT(number[i])));
    check(!known || found.value[number[i]] == outermost.value[number[i]]);
  }
}

static void on_step(int signal, siginfo_t *info, void *context) {
  struct unwind_registers registers;
  (void)signal, (void)info;
  follow_shadow(context);
  unwind_registers_of(context, &registers);
  unwind(&registers, &result);
  previous_pc = registers.value[DWARF_PC];
  follow_registers(&registers);
  int at = 1, known = result.skipped ? INNER_FRAMES : result.count;
  while (at <= depth && at < known && result.frame[at].pc == shadow[depth - at]) at++;
  bool whole = at > depth || (at == INNER_FRAMES && result.skipped);
  bool right = whole && result.end == UNWIND_OUTERMOST && !result.gaps && result.frame[0].pc == previous_pc;
  if (!right && wrong_steps++ < 20) report_step(at);
  steps++;
}
#endif

/* ---- functions that the compiler makes different frames for ---- */

static volatile int sink;

APART_FAST static int leaf(int x) { return x * 3 + 1; }

APART_FAST static int with_saved_registers(int a, int b, int c, int d) {
  int x = leaf(a), y = leaf(b), z = leaf(c);
  return leaf(x + y) + leaf(z + d) + a + b * c;
}

APART_FAST static int with_alloca(int size) {
  volatile char *bytes = __builtin_alloca((size_t)size);
  bytes[size - 1] = 1;
  return leaf(size) + bytes[size - 1];
}

/* The local must be aligned beyond the stack's alignment, and there is an alloca: the frame is found by a register. */
APART_FAST static int with_aligned_local(int size, int a, int b, int c, int d, int e, int f, int on_stack) {
  _Alignas(64) volatile char local[128];
  volatile char *bytes = __builtin_alloca((size_t)size);
  local[0] = bytes[0] = 2;
  return leaf(size) + local[0] + bytes[0] + a + b + c + d + e + f + on_stack;
}

APART_FAST static int recursive(int level) { return level ? recursive(level - 1) + leaf(level) : leaf(0); }

APART_FAST static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* A large frame, so that the stack is read in several windows. */
APART_FAST static int with_large_frame(int x) {
  volatile char bytes[30000];
  bytes[x] = 1;
  return recursive(x) + bytes[x];
}

#ifdef HAS_STEPS
#define STEP "lea -128(%%rsp), %%rsp\n pushfq\n xorq $0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp\n"
#else
#define STEP ""
#endif

__attribute__((noinline, optimize("O0", "no-omit-frame-pointer"))) static void stepped(void) {
  int numbers[24];
  char text[64];
  struct timespec now;
  for (int i = 0; i < 24; i++) numbers[i] = i * 7919 % 24;
  depth = 0;
  previous_pc = 0;
  __asm__ volatile(STEP ::: "memory", "cc");
  sink = with_saved_registers(1, 2, 3, 4);
  sink = with_alloca(100);
  sink = with_aligned_local(50, 1, 2, 3, 4, 5, 6, 7);
  sink = recursive(100);
  sink = with_large_frame(9);
  qsort(numbers, 24, sizeof *numbers, by_number);
  snprintf(text, sizeof text, "%d %s %.3f", numbers[0], "text", 1.5);
  clock_gettime(CLOCK_MONOTONIC, &now); /* in the vdso */
  sink = atoi(text) + getppid();        /* a function that ld.so binds only now */
  __asm__ volatile(STEP ::: "memory", "cc");
}

#ifdef HAS_STEPS
static void test_every_instruction(void) {
  struct sigaction before, action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
  check(sigaction(SIGTRAP, &action, &before) == 0);
  stepped();
  check(sigaction(SIGTRAP, &before, NULL) == 0);
  printf("%lu instructions, %lu registers lost\n", steps, lost_registers);
  check(steps > 10000 && wrong_steps == 0 && lost_registers < steps / 50);
}
#endif

/* ---- where a stack ends ---- */

static void test_the_outermost_frame_ends(void) {
  unwind_here();
  check(result.end == UNWIND_OUTERMOST && !result.gaps);
  check(frame_of(&result, (void *)&unwind_here) == 0 && result.frame[0].flags == NATIVE_EXACT);
  check(frame_of(&result, (void *)&test_the_outermost_frame_ends) >= 1);
  check(result.frame[result.count - 1].pc_class != PC_UNKNOWN);
}

static void *in_thread(void *unused) {
  unwind_here();
  return unused;
}

static void test_a_thread_ends(void) {
  pthread_t thread;
  check(!pthread_create(&thread, NULL, in_thread, NULL));
  pthread_join(thread, NULL);
  check(result.end == UNWIND_OUTERMOST && !result.gaps && frame_of(&result, (void *)&in_thread) == 1);
}

__attribute__((noinline)) static void plays_the_loop(void) {
  unwind_here();
  sink = 1;
}

static void test_the_bytecode_loop_ends(void) {
  python_symbols.eval = (struct address_range){(uintptr_t)&plays_the_loop, (uintptr_t)&plays_the_loop + 8, 0};
  plays_the_loop();
  int at = frame_of(&result, (void *)&plays_the_loop);
  python_symbols.eval.end = result.frame[at].pc + 1;
  plays_the_loop();
  check(result.end == UNWIND_EVAL && result.count == 2 && at == 1 && result.frame[1].pc == python_symbols.eval.end - 1);
  check(result.last_sp > (uintptr_t)__builtin_frame_address(0) - 4096 &&
        result.last_sp < (uintptr_t)__builtin_frame_address(0));
  python_symbols.eval = (struct address_range){0, 0, 0};
}

__attribute__((noinline)) static int deep(int level) {
  if (!level) return unwind_here(), 0;
  return deep(level - 1) + 1;
}

static void test_of_deep_stacks_the_ends_are_kept(void) {
  deep(200);
  check(result.end == UNWIND_OUTERMOST && result.count == NATIVE_FRAMES && !result.gaps);
  int outer = frame_of(&result, (void *)&test_of_deep_stacks_the_ends_are_kept);
  check(outer > INNER_FRAMES && outer + result.skipped == 202);
  for (int i = 1; i < outer; i++) check(result.frame[i].function == (uintptr_t)&deep);
  for (int i = 0; i < result.count; i++) { check(!(result.frame[i].flags & NATIVE_AFTER_GAP) == (i != INNER_FRAMES)); }
  deep(NATIVE_FRAMES - 20);
  check(result.skipped == 0 || result.skipped < 20);
}

static void test_very_deep_stacks_are_cut(void) {
  deep(2000);
  check(result.end == UNWIND_FULL && result.count == NATIVE_FRAMES && result.count + result.skipped == 1024);
}

static jmp_buf before_the_call;

__attribute__((noinline, noreturn)) static void never_returns(void) {
  unwind_here();
  longjmp(before_the_call, 1);
}

/* The call is its last instruction, so the return address belongs to no function or to the next one. */
APART_FAST static void ends_with_a_call(void) {
  sink = 2;
  never_returns();
}

static void test_return_addresses_behind_a_function(void) {
  if (!setjmp(before_the_call)) ends_with_a_call();
  check(result.end == UNWIND_OUTERMOST && !result.gaps);
  check(frame_of(&result, (void *)&never_returns) == 1 && frame_of(&result, (void *)&ends_with_a_call) == 2);
}

/* ---- signals and other stacks ---- */

static void nested(int signal) {
  (void)signal;
  unwind_here();
}

__attribute__((noinline)) static void raises(void) {
  raise(SIGUSR1);
  sink = 1;
}

static void test_signal_frames_on_an_alternate_stack(void) {
  static char memory[65536];
  stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
  for (int alternate = 0; alternate < 2; alternate++) {
    struct sigaction action = {.sa_handler = nested, .sa_flags = alternate ? SA_ONSTACK : 0};
    check(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    raises();
    check(result.end == UNWIND_OUTERMOST && !result.gaps);
    int handler = frame_of(&result, (void *)&nested), below = frame_of(&result, (void *)&raises);
    int interrupted = handler;
    while (interrupted < result.count && !(result.frame[interrupted].flags & NATIVE_EXACT)) interrupted++;
    check(handler == 1 && interrupted > handler + 1 && below > interrupted);
  }
  stack.ss_flags = SS_DISABLE;
  check(sigaltstack(&stack, NULL) == 0);
}

static ucontext_t outside, coroutine;

static void in_coroutine(void) { unwind_here(); }

static void test_small_stacks_of_coroutines(void) {
  const size_t page = arch_page_bytes();
  char *pages = mmap(NULL, 6 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(pages != MAP_FAILED && mprotect(pages + page, 4 * page, PROT_READ | PROT_WRITE) == 0);
  getcontext(&coroutine);
  coroutine.uc_stack = (stack_t){.ss_sp = pages + page, .ss_size = 4 * page};
  coroutine.uc_link = &outside;
  makecontext(&coroutine, in_coroutine, 0);
  swapcontext(&outside, &coroutine);
  check(result.end == UNWIND_OUTERMOST && !result.gaps && frame_of(&result, (void *)&in_coroutine) == 1);
  munmap(pages, 6 * page);
}

/* ---- code without tables ---- */

#ifdef __aarch64__ /* stp x29, x30, [sp, #-16]!; mov x29, sp; blr x0; ldp x29, x30, [sp], #16; ret */
static const uint32_t framed_code[] = {0xa9bf7bfd, 0x910003fd, 0xd63f0000, 0xa8c17bfd, 0xd65f03c0};
static const uint32_t bare_code[] = {0xa9be7bfd, 0xd63f0000, 0xa8c27bfd, 0xd65f03c0}; /* 32 bytes, and no mov */
#else
static const uint8_t framed_code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3}; /* push rbp ... call rdi */
static const uint8_t bare_code[] = {0x48, 0x83, 0xec, 0x18, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x18, 0xc3};
#endif

__attribute__((noinline)) static void calls(void (*code)(void (*)(void))) {
  code(unwind_here);
  sink = 1;
}

/* With a link register, what a search finds does not tell the stack pointer, so a frame that needs it is searched, too. */
static bool one_gap(void) { return ARCH_LINK_REGISTER ? result.gaps >= 1 : result.gaps == 1; }
static bool is_after_one_gap(int frame, uint8_t flags) {
  uint8_t more = ARCH_LINK_REGISTER ? NATIVE_AFTER_GAP | NATIVE_NO_RULE : 0;
  return (result.frame[frame].flags | more) == (flags | more);
}

static void try_generated(char *page, const void *code, size_t size) {
  memcpy(page, code, size);
  __builtin___clear_cache(page, page + size);
  calls((void (*)(void (*)(void)))(uintptr_t)page);
  check(result.end == UNWIND_OUTERMOST && one_gap());
  check(result.frame[1].pc_class == PC_UNKNOWN && (result.frame[1].flags & NATIVE_NO_RULE) &&
        !result.frame[1].function);
  check(result.frame[2].function == (uintptr_t)&calls && is_after_one_gap(2, NATIVE_AFTER_GAP));
  check(result.frame[3].function == (uintptr_t)&try_generated && is_after_one_gap(3, 0));
}

static void test_generated_code_leaves_a_gap(void) {
  char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(page != MAP_FAILED);
  try_generated(page, framed_code, sizeof framed_code);
  try_generated(page, bare_code, sizeof bare_code);
  munmap(page, 4096);
}

/* Assembly whose table is wrong: it does not say that the stack pointer was moved, and where the return address is
 * looked for there is the address of a function. */
void has_wrong_table(void (*callee)(void), const void *address);
APART_FAST static void calls_by_the_stack_pointer(void (*code)(void)) {
  code();
  sink = 1;
}

/* On the thread's own stack lies that of a coroutine, below a page that cannot be read. A search ends there, and so does a
 * frame that a search has found. */
static void test_a_protected_page_on_the_own_stack(void) {
  const size_t page = arch_page_bytes();
  char pages[3 * ARCH_MOST_PAGE_BYTES];
  uintptr_t guard = ((uintptr_t)pages + 2 * page - 1) & ~(uintptr_t)(page - 1), in_calls;
  struct unwind_registers registers = {.known = BIT(DWARF_PC) | BIT(DWARF_STACK)};
  calls_by_the_stack_pointer(unwind_here);
  in_calls = result.frame[1].pc;
  check(result.frame[1].function == (uintptr_t)&calls_by_the_stack_pointer);
  memset(pages, 0, sizeof pages);
  registers.value[DWARF_PC] = 4096;
  registers.value[DWARF_STACK] = guard - 256;
  check(mprotect((void *)guard, page, PROT_NONE) == 0);
  unwind(&registers, &result);
  check(result.end == UNWIND_LOST && result.count == 1);
  ((uintptr_t *)guard)[-1] = in_calls;
  unwind(&registers, &result);
  check(result.end == UNWIND_LOST && result.count == 2 && result.gaps == 1);
  check(mprotect((void *)guard, page, PROT_READ | PROT_WRITE) == 0);
}

#ifdef __aarch64__
#define WRONG_CODE                                                                                                     \
  "stp x1, x30, [sp, #-32]!\n stp xzr, xzr, [sp, #16]\n blr x0\n ldr x30, [sp, #8]\n add sp, sp, #32\n ret\n"
#else
#define WRONG_CODE                                                                                                     \
  "sub $24, %rsp\n mov %rsi, (%rsp)\n movq $0, 8(%rsp)\n movq $0, 16(%rsp)\n call *%rdi\n add $24, %rsp\n ret\n"
#endif
__asm__(".text\n.globl has_wrong_table\n.type has_wrong_table, %function\nhas_wrong_table:\n.cfi_startproc\n" WRONG_CODE
        ".cfi_endproc\n.size has_wrong_table, . - has_wrong_table\n");

static void test_wrong_tables_leave_a_gap(void) {
  has_wrong_table(unwind_here, &leaf);
  check(result.end == UNWIND_OUTERMOST && one_gap());
  check(result.frame[1].function == (uintptr_t)&has_wrong_table && (result.frame[1].flags & NATIVE_NO_RULE));
  check(result.frame[2].function == (uintptr_t)&test_wrong_tables_leave_a_gap);
  check(is_after_one_gap(2, NATIVE_AFTER_GAP) && is_after_one_gap(3, 0));
}

static void test_wrong_registers_lose_the_stack(void) {
  struct unwind_registers registers;
  errno = 7;
  for (int i = 0; i < 20000; i++) {
    for (int k = 0; k < DWARF_REGISTERS; k++) registers.value[k] = draw() >> draw() % 64;
    if (i % 2) registers.value[DWARF_PC] = (uintptr_t)&leaf + draw() % 4096;
    if (i % 4 == 3) registers.value[DWARF_STACK] = (uintptr_t)&registers + draw() % 512;
    registers.known = (arch_register_set)draw() | BIT(DWARF_PC) | BIT(DWARF_STACK);
    unwind(&registers, &result);
    check(result.count >= 1 && result.count <= NATIVE_FRAMES);
  }
  check(errno == 7);
}

/* ---- damaged tables ---- */

/* A copy of this program's tables. Addresses in them are relative, so the copy describes code that lies as far from the
 * program as the copy from the tables. */
static struct image copy_of_tables(const struct image *own) {
  struct image copy = *own;
  size_t size = own->tables_high - own->tables_low;
  char *bytes = malloc(size);
  check(bytes && own->tables && safe_read(bytes, (void *)own->tables_low, size));
  uintptr_t delta = (uintptr_t)bytes - own->tables_low;
  copy.tables += delta;
  copy.tables_low += delta;
  copy.tables_high += delta;
  return copy;
}

static void compare_rule(const struct image *own, const struct image *copy, uintptr_t pc) {
  struct frame_rule rule, of_copy;
  uintptr_t delta = copy->tables - own->tables;
  check(frame_rules_read(own, pc, false, &rule) == frame_rules_read(copy, pc + delta, false, &of_copy));
  if (rule.start) of_copy.start -= delta;
  check(memcmp(&rule, &of_copy, sizeof rule) == 0);
}

static const void *const known_functions[] = {
    &leaf, &with_saved_registers, &with_alloca, &with_aligned_local, &recursive, &stepped, &raises, &calls, &nested};
#define KNOWN (sizeof known_functions / sizeof *known_functions)

static void damage(const struct image *own, const struct image *copy, uintptr_t pc) {
  unsigned char *bytes = (unsigned char *)copy->tables_low;
  size_t size = copy->tables_high - copy->tables_low, place[4];
  unsigned char before[4];
  struct frame_rule rule;
  int count = 1 + (int)(draw() % 4);
  size_t header = copy->tables - copy->tables_low;
  for (int i = 0; i < count; i++) {
    /* Every fourth place is in the header, every second near the tables' beginning. */
    size_t span = i == 0 && draw() % 4 == 0 ? 16 : draw() % 2 ? 1024 : size - header;
    place[i] = header + draw() % (span < size - header ? span : size - header);
    before[i] = bytes[place[i]];
    bytes[place[i]] = (unsigned char)draw();
  }
  frame_rules_read(copy, pc + (copy->tables - own->tables), false, &rule);
  for (int i = count; i-- > 0;) bytes[place[i]] = before[i];
}

static void test_damaged_tables(void) {
  struct image own;
  check(images_find((uintptr_t)&leaf, &own) && own.stays);
  struct image copy = copy_of_tables(&own), unloadable = copy;
  unloadable.stays = false;
  for (size_t i = 0; i < KNOWN; i++) {
    for (uintptr_t at = 0; at < 64; at++) {
      compare_rule(&own, &copy, (uintptr_t)known_functions[i] + at);
      compare_rule(&own, &unloadable, (uintptr_t)known_functions[i] + at);
    }
  }
  for (int i = 0; i < 60000; i++) {
    damage(&own, i % 8 ? &copy : &unloadable, (uintptr_t)known_functions[draw() % KNOWN] + draw() % 64);
  }
  free((void *)copy.tables_low);
}

/* ---- threads ---- */

static void *unwind_often(void *stack) {
  struct unwind_registers registers;
  for (int i = 0; i < 3000; i++) {
    REGISTERS_HERE(&registers);
    unwind(&registers, stack);
    check(((struct native_stack *)stack)->end == UNWIND_OUTERMOST);
  }
  return stack;
}

static void test_threads_share_the_cache(void) {
  static struct native_stack stacks[4];
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) check(!pthread_create(&thread[i], NULL, unwind_often, &stacks[i]));
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
}

#define LIBRARY "libgcc_s.so.1"

/* Libraries that are loaded later are read by safe reads, and are forgotten when they are closed. */
static void test_a_library_that_goes_away(void) {
  void *library = dlopen(LIBRARY, RTLD_NOW);
  struct frame_rule rule, again;
  check(library);
  uintptr_t pc = (uintptr_t)dlsym(library, "_Unwind_Backtrace");
  images_refresh();
  struct image image;
  bool goes = images_find(pc, &image) && !image.stays;
  check(frame_rules_find(pc, false, &rule) && rule.start == pc && rule.pc_class == PC_SUPPORT);
  check(frame_rules_find(pc, false, &again) && memcmp(&rule, &again, sizeof rule) == 0);
  check(rule.cfa_base == DWARF_STACK && rule.cfa_offset == (ARCH_LINK_REGISTER ? 0 : 8));
  check(rule.saved_base[FOLLOW_RETURN] == (ARCH_LINK_REGISTER ? BASE_SAME : BASE_CFA));
  next.dlclose(library); /* as libc itself closes libraries: the list of images does not show it yet */
  for (uintptr_t at = 1; goes && at < 4096; at += 32) check(!frame_rules_find(pc + at, true, &rule));
  dlclose(dlopen(LIBRARY, RTLD_NOW)); /* counted */
  images_refresh();
  if (goes) check(!frame_rules_find(pc, false, &rule) && rule.pc_class == PC_UNKNOWN);
}

#ifndef __SANITIZE_THREAD__ /* it replaces dlopen and the loader's locks */
static _Atomic int turns;
static _Atomic uint64_t found_there;
static _Atomic uintptr_t code_there; /* in the library, where it was loaded last */

/* The first time, the library stays until a rule was found there. */
static void *load_and_unload(void *unused) {
  for (; atomic_load(&turns) < 300; atomic_fetch_add(&turns, 1)) {
    void *library = dlopen(LIBRARY, RTLD_NOW);
    check(library);
    atomic_store(&code_there, (uintptr_t)dlsym(library, "_Unwind_Resume"));
    while (!atomic_load(&found_there)) usleep(100);
    next.dlclose(library); /* as libc itself closes libraries, which is not counted */
  }
  return unused;
}

static void test_another_thread_loads_and_unloads(void) {
  pthread_t thread;
  struct frame_rule rule;
  check(!pthread_create(&thread, NULL, load_and_unload, NULL));
  while (atomic_load(&turns) < 300) {
    uintptr_t pc = atomic_load(&code_there);
    images_refresh();
    for (uintptr_t at = 0; pc && at < 4096; at += 64) {
      if (frame_rules_find(pc + at, at % 128, &rule)) atomic_fetch_add(&found_there, 1);
    }
  }
  pthread_join(thread, NULL);
}
#endif

static void all(void) {
  test_the_outermost_frame_ends();
  test_a_thread_ends();
  test_the_bytecode_loop_ends();
  test_of_deep_stacks_the_ends_are_kept();
  test_very_deep_stacks_are_cut();
  test_return_addresses_behind_a_function();
  test_small_stacks_of_coroutines();
  test_signal_frames_on_an_alternate_stack();
  test_generated_code_leaves_a_gap();
  test_a_protected_page_on_the_own_stack();
  test_wrong_tables_leave_a_gap();
  test_wrong_registers_lose_the_stack();
  test_damaged_tables();
  test_threads_share_the_cache();
  test_a_library_that_goes_away();
#ifndef __SANITIZE_THREAD__
  test_another_thread_loads_and_unloads();
#endif
#ifdef HAS_STEPS
  test_every_instruction();
#endif
}

int main(void) {
  int at_the_top;
  next.dlclose = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
  safe_read_init();
  check(!safe_read_refused());
  images_init();
  unwind_init();
  all(); /* with copies of the stack, as its end is not known */
  this_stack.low = (uintptr_t)&at_the_top - (UINT64_C(1) << 20);
  this_stack.high = (uintptr_t)(&at_the_top + 1);
  all();
  puts("ok");
  return 0;
}
