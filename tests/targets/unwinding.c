/* Preloaded: compares our unwinding of interrupted threads with libgcc's, frame by frame. A thread of this library
 * signals the others in turn. When UNWINDING_STACKS stacks were compared, or at exit, the result is written to
 * UNWINDING_OUT. tests/long/unwinding.py compiles it together with the sources of the shim that it needs. */
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include "shared/evidence/evidence.h"
#include "shared/evidence/frame_rules.h"
#include "inside/native/images.h"
#include "inside/native/own.h"
#include "shared/clock.h"
#include "shared/saferead.h"
#include "shared/stacks/scratch.h"
#include "tests/native/stand_ins.h"

int64_t clock_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- the two unwindings ---- */

#define MAX_REFERENCE 1100
struct reference {
  int count;
  bool begun;
  uintptr_t pc[MAX_REFERENCE], start[MAX_REFERENCE];
};

enum outcome { EQUAL, EQUAL_REFERENCE_SHORT, INCOMPLETE_LOST, INCOMPLETE_GAP, WRONG, CRASHED, OUTCOMES };
static const char *const outcome_names[OUTCOMES] = {
    "equal", "equal_reference_ends_early", "incomplete_lost", "incomplete_gap", "wrong", "reference_crashed"};

#define MAX_EXAMPLES 64
struct example {
  enum outcome outcome;
  int at;
  struct native_stack ours;
  struct reference reference;
};

static struct native_stack ours;
static struct reference reference;
static uintptr_t interrupted_pc;
static struct example examples[MAX_EXAMPLES];
static int example_count;
static uint64_t outcomes[OUTCOMES], ends[4], frames, gaps;
static double warm_ns[4096], cold_ns[4096], scan_ns[4096];
static int timed;
static _Atomic int handled;
static _Atomic long compared;
static long wanted;
static struct address_range eval;

static _Unwind_Reason_Code add_reference(struct _Unwind_Context *context, void *unused) {
  int before = 0;
  uintptr_t pc = _Unwind_GetIPInfo(context, &before);
  (void)unused;
  if (!reference.begun && before && pc == interrupted_pc) reference.begun = true;
  if (!reference.begun) return _URC_NO_REASON;
  if (!pc) return _URC_END_OF_STACK; /* the caller of the outermost function */
  if (reference.count == MAX_REFERENCE) return _URC_END_OF_STACK;
  reference.pc[reference.count] = pc;
  reference.start[reference.count++] = _Unwind_GetRegionStart(context);
  return _URC_NO_REASON;
}

static sigjmp_buf crashed;
static _Atomic pid_t in_reference;

static void on_crash(int signal) {
  if (atomic_load(&in_reference) == (pid_t)syscall(SYS_gettid)) siglongjmp(crashed, 1);
  sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

static bool take_reference(void) {
  reference.count = 0;
  reference.begun = false;
  struct sigaction before, ours_now = {.sa_handler = on_crash, .sa_flags = SA_NODEFER};
  sigaction(SIGSEGV, &ours_now, &before);
  bool survived = !sigsetjmp(crashed, 1);
  if (survived) {
    atomic_store(&in_reference, (pid_t)syscall(SYS_gettid));
    _Unwind_Backtrace(add_reference, NULL);
  }
  atomic_store(&in_reference, 0);
  sigaction(SIGSEGV, &before, NULL);
  return survived;
}

/* ---- the comparison ---- */

static bool is_eval(uintptr_t pc, bool exact) {
  uintptr_t at = pc - !exact;
  return at - eval.start < eval.end - eval.start;
}

/* Returns where the reference has the frame of that index. */
static int in_reference_at(int at) { return at < INNER_FRAMES ? at : at + ours.skipped; }

/* Returns the index of the first frame that differs. */
static int first_difference(void) {
  int at = 0;
  for (; at < ours.count && in_reference_at(at) < reference.count; at++) {
    const struct native_frame *frame = &ours.frame[at];
    int other = in_reference_at(at);
    if (frame->pc != reference.pc[other]) break;
    if (frame->function && frame->function != reference.start[other]) break;
  }
  return at;
}

static enum outcome compare(int *at) {
  *at = first_difference();
  bool all = *at == ours.count;
  if (all && ours.end == UNWIND_EVAL && is_eval(ours.frame[*at - 1].pc, ours.frame[*at - 1].flags & NATIVE_EXACT))
    return EQUAL;
  if (all && ours.end == UNWIND_OUTERMOST && reference.count == in_reference_at(ours.count)) return EQUAL;
  if (all && ours.end == UNWIND_FULL) return EQUAL;
  if (in_reference_at(*at) >= reference.count) return EQUAL_REFERENCE_SHORT;
  if (ours.end == UNWIND_LOST) return INCOMPLETE_LOST;
  return ours.gaps ? INCOMPLETE_GAP : WRONG;
}

static void keep_example(enum outcome outcome, int at) {
  if (outcome == EQUAL || example_count == MAX_EXAMPLES) return;
  struct example *example = &examples[example_count++];
  *example = (struct example){outcome, at, ours, reference};
}

/* The time of the unwinding for ten frames, with every rule cached and with none cached, and of the scan of the same
 * stack. */
static void measure(const struct unwind_registers *registers) {
  if (ours.count < 9 || ours.count > 11 || ours.gaps || timed == 4096) return;
  int64_t begin = clock_now_ns();
  for (int i = 0; i < 20; i++) unwind(registers, &ours);
  int64_t middle = clock_now_ns();
  for (int i = 0; i < ours.count; i++) {
    struct frame_rule rule;
    bool is_return = !(ours.frame[i].flags & NATIVE_EXACT);
    struct image image;
    if (images_find(ours.frame[i].pc - is_return, &image)) frame_rules_read(&image, ours.frame[i].pc, is_return, &rule);
  }
  int64_t end = clock_now_ns();
  static struct scratch scratch;
  struct native_evidence evidence;
  for (int i = 0; i < 20; i++)
    evidence_scan(registers->value[DWARF_PC], registers->value[DWARF_STACK], &scratch, &evidence);
  scan_ns[timed] = (double)(clock_now_ns() - end) / 20;
  warm_ns[timed] = (double)(middle - begin) / 20 * 10 / ours.count;
  cold_ns[timed++] = (double)(end - middle) * 10 / ours.count;
}

static void on_signal(int signal, siginfo_t *info, void *context) {
  int saved_errno = errno, at = 0;
  struct unwind_registers registers;
  (void)signal, (void)info;
  images_refresh();
  unwind_registers_of(context, &registers);
  interrupted_pc = registers.value[DWARF_PC];
  /* Every second stack is followed through all bytecode loops. */
  python_symbols.eval = atomic_load(&compared) % 2 ? eval : (struct address_range){0};
  unwind(&registers, &ours);
  enum outcome outcome = take_reference() ? compare(&at) : CRASHED;
  outcomes[outcome]++;
  ends[ours.end]++;
  frames += (uint64_t)ours.count;
  gaps += (uint64_t)ours.gaps;
  keep_example(outcome, at);
  measure(&registers);
  atomic_fetch_add(&compared, 1);
  errno = saved_errno;
  atomic_store(&handled, 1);
}

/* ---- the thread that signals the others ---- */

static int list_threads(pid_t *to, int most) {
  DIR *folder = opendir("/proc/self/task");
  struct dirent *entry;
  int count = 0;
  while (folder && (entry = readdir(folder)) && count < most) {
    pid_t id = atoi(entry->d_name);
    if (id > 0 && id != (pid_t)syscall(SYS_gettid)) to[count++] = id;
  }
  if (folder) closedir(folder);
  return count;
}

static void pause_us(long us) { nanosleep(&(struct timespec){0, us * 1000}, NULL); }

static void *signal_threads(void *unused) {
  unsigned seed = 1;
  pid_t threads[64];
  while (atomic_load(&compared) < wanted) {
    int count = list_threads(threads, 64);
    for (int i = 0; i < 50 && atomic_load(&compared) < wanted; i++) {
      pause_us(50 + rand_r(&seed) % 150);
      atomic_store(&handled, 0);
      /* The first thread does the work, unless the program has others. */
      if (syscall(SYS_tgkill, getpid(), threads[rand_r(&seed) % (unsigned)count], SIGPROF) != 0) break;
      for (int wait = 0; !atomic_load(&handled) && wait < 100000; wait++) pause_us(20);
    }
  }
  return unused;
}

EXPORT long unwinding_compared(void) { return atomic_load(&compared); }

/* ---- the result ---- */

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int count) {
  if (!count) return 0;
  qsort(values, (size_t)count, sizeof *values, by_value);
  return values[count / 2];
}

static void print_address(FILE *out, uintptr_t pc, uintptr_t start) {
  Dl_info info = {0};
  const char *file = dladdr((void *)pc, &info) && info.dli_fname ? info.dli_fname : "?";
  const char *base = strrchr(file, '/');
  fprintf(out, "\"%s+%#lx %s start %#lx\"", base ? base + 1 : file, (long)(pc - (uintptr_t)info.dli_fbase),
          info.dli_sname ? info.dli_sname : "?", start ? (long)(start - (uintptr_t)info.dli_fbase) : 0L);
}

static void print_example(FILE *out, const struct example *example) {
  fprintf(out, "{\"outcome\": \"%s\", \"end\": %d, \"at\": %d, \"ours\": [", outcome_names[example->outcome],
          (int)example->ours.end, example->at);
  for (int i = 0; i < example->ours.count; i++) {
    fprintf(out, "%s", i ? ", " : "");
    print_address(out, example->ours.frame[i].pc, example->ours.frame[i].function);
  }
  fprintf(out, "], \"flags\": [");
  for (int i = 0; i < example->ours.count; i++) fprintf(out, "%s%d", i ? ", " : "", example->ours.frame[i].flags);
  fprintf(out, "], \"reference\": [");
  for (int i = 0; i < example->reference.count; i++) {
    fprintf(out, "%s", i ? ", " : "");
    print_address(out, example->reference.pc[i], example->reference.start[i]);
  }
  fprintf(out, "]}");
}

static void write_result(void) {
  const char *path = getenv("UNWINDING_OUT");
  FILE *out = path ? fopen(path, "w") : NULL;
  if (!out) return;
  fprintf(out, "{\"stacks\": %ld, \"frames\": %lu, \"gaps\": %lu, \"outcomes\": {", (long)compared, frames, gaps);
  for (int i = 0; i < OUTCOMES; i++) fprintf(out, "%s\"%s\": %lu", i ? ", " : "", outcome_names[i], outcomes[i]);
  fprintf(out,
          "}, \"ends\": [%lu, %lu, %lu, %lu], \"timed\": %d, \"warm_ns\": %.0f, \"cold_ns\": %.0f, \"scan_ns\": %.0f, "
          "\"examples\": [",
          ends[0], ends[1], ends[2], ends[3], timed, median(warm_ns, timed), median(cold_ns, timed),
          median(scan_ns, timed));
  for (int i = 0; i < example_count; i++) {
    fprintf(out, "%s", i ? ",\n" : "\n");
    print_example(out, &examples[i]);
  }
  fprintf(out, "]}\n");
  fclose(out);
}

/* ---- start ---- */

static void find_eval(void) {
  const ElfW(Sym) *symbol = NULL;
  Dl_info info;
  void *found = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
  if (!found || !dladdr1(found, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol) return;
  eval = (struct address_range){(uintptr_t)found, (uintptr_t)found + symbol->st_size, 0};
}

__attribute__((constructor)) static void start(void) {
  pthread_t thread;
  if (!getenv("UNWINDING_OUT")) return;
  unsetenv("LD_PRELOAD"); /* programs that this one starts run without this library */
  next.dlclose = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
  wanted = atol(getenv("UNWINDING_STACKS"));
  safe_read_init();
  find_eval();
  python_symbols.eval = eval;
  images_init();
  unwind_init();
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
  sigaction(SIGPROF, &action, NULL);
  atexit(write_result);
  pthread_create(&thread, NULL, signal_threads, NULL);
}
