/* Helpers for the scenarios, and stand-ins for the other files of the shim. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/processes/process.h"
#include "inside/signals/signals.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/spool.h"
#include "tests/signals/scenario.h"

/* ---- stand-ins for the other files of the shim ---- */

/* Options for a build with the address sanitizer: images are started with other libraries in front of the sanitizer. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "verify_asan_link_order=0:detect_leaks=0"; }

struct next_functions next;
struct spool_header *spool;

void next_resolve(void) {
#define INTERPOSED(result, name, arguments) next.name = (__typeof__(next.name))dlsym(RTLD_NEXT, #name);
#include "inside/core/interposed.h"
#undef INTERPOSED
  next.resolved = true;
}

/* A page that reads 0 in a forked child, but not in a vfork child, which shares its parent's memory. */
static char *fork_page;

pid_t fork_own_pid(void) { return 1; }
bool fork_shares_memory(void) { return false; } /* every child of these scenarios has thread-local storage */
void fork_check(void) {
  if (fork_page == NULL || *fork_page != 0) return;
  *fork_page = 1;
  signals_postfork_child();
}

void detect_forks(void) {
  fork_page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert(fork_page != MAP_FAILED && madvise(fork_page, 4096, MADV_WIPEONFORK) == 0);
  *fork_page = 1;
}

void process_before_exec(void) {}
void process_after_failed_exec(void) {}
void loss_add(enum loss loss) { (void)loss; }

/* ---- ticks ---- */

THREAD_LOCAL volatile int ticks;
static char tick_cookie;
bool under_ticks;

bool count_tick(siginfo_t *info, void *context) {
  (void)context;
  if (info->si_code != SI_TIMER || info->si_ptr != &tick_cookie) return false;
  ticks++;
  return true;
}

void arm(void) {
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signals_number()};
  struct itimerspec period = {{0, 1000000}, {0, 1000000}};
  timer_t timer;
  event.sigev_value.sival_ptr = &tick_cookie;
  event._sigev_un._tid = (int)syscall(SYS_gettid);
  assert(timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0);
  assert(timer_settime(timer, 0, &period, NULL) == 0);
}

void burn(long milliseconds) {
  struct timespec from, now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < milliseconds);
}

/* Checks that ticks continue. Usually one arrives within 30 ms of CPU time. On a busy machine, the kernel's own tick
 * may miss the thread for longer. */
void ticks_go_on(void) {
  int before = ticks;
  burn(30);
  for (int more = 0; under_ticks && ticks == before && more < 50; more++) burn(30);
  if (under_ticks) assert(ticks > before);
}

/* ---- helpers ---- */

int N;   /* number of the shim's signal */
int out; /* file descriptor of a scenario's output */

void say(const char *format, ...) {
  char line[512];
  va_list list;
  va_start(list, format);
  int length = vsnprintf(line, sizeof line, format, list);
  va_end(list);
  assert(write(out, line, (size_t)length) == length);
}

uint64_t set_bits(const sigset_t *set) {
  uint64_t result;
  memcpy(&result, set, sizeof result);
  return result;
}

sigset_t only(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}

sigset_t everything(void) {
  sigset_t set;
  sigfillset(&set);
  return set;
}

sigset_t nothing(void) {
  sigset_t set;
  sigemptyset(&set);
  return set;
}

volatile sig_atomic_t handled, handled_value[64], depth, deepest;
volatile int handled_code, handled_context;

void handler(int signal) {
  (void)signal;
  handled++;
}

void info_handler(int signal, siginfo_t *info, void *context) {
  assert(signal == info->si_signo);
  if (handled < 64) handled_value[handled] = info->si_value.sival_int;
  handled_code = info->si_code;
  handled_context = context != NULL;
  handled++;
}

void nesting_handler(int signal) {
  if (++depth > deepest) deepest = depth;
  if (++handled < 4) raise(signal);
  depth--;
}

void set_action(int signal, void (*function)(int), int flags, sigset_t mask) {
  struct sigaction action = {.sa_handler = function, .sa_flags = flags, .sa_mask = mask};
  assert(sigaction(signal, &action, NULL) == 0);
}

void set_info_action(int flags) {
  struct sigaction action = {.sa_sigaction = info_handler, .sa_flags = SA_SIGINFO | flags};
  assert(sigaction(N, &action, NULL) == 0);
}

const char *name_of(const struct sigaction *action) {
  if (action->sa_handler == SIG_DFL) return "default";
  if (action->sa_handler == SIG_IGN) return "ignore";
  if (action->sa_handler == handler) return "handler";
  return action->sa_sigaction == info_handler ? "info_handler" : "other";
}

/* Without this flag, as on arm64, libc leaves sa_restorer undefined. */
#define RESTORER_FLAG 0x04000000

void say_action(int signal) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  errno = 0;
  int result = sigaction(signal, NULL, &action);
  bool has_restorer = (action.sa_flags & RESTORER_FLAG) && action.sa_restorer;
  say("%d: %d %d %s flags %x mask %llx restorer %d\n", signal, result, errno, name_of(&action), action.sa_flags,
      (unsigned long long)set_bits(&action.sa_mask), has_restorer);
}

void say_mask(void) {
  sigset_t mask = nothing(), process_mask = nothing();
  assert(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0 && sigprocmask(SIG_BLOCK, NULL, &process_mask) == 0);
  say("mask %llx %llx\n", (unsigned long long)set_bits(&mask), (unsigned long long)set_bits(&process_mask));
}

void say_pending(void) {
  sigset_t set = nothing();
  assert(sigpending(&set) == 0);
  say("pending %llx\n", (unsigned long long)set_bits(&set));
}

void block(int how, sigset_t set) { assert(pthread_sigmask(how, &set, NULL) == 0); }

void queue(int value) {
  union sigval sent = {.sival_int = value};
  assert(sigqueue(getpid(), N, sent) == 0);
}

struct thread_start {
  void (*run)(void);
  bool blocked;
};

static void *thread_main(void *given) {
  struct thread_start *start = given;
  signals_set_shadow_blocked(start->blocked);
  signals_thread_start();
  if (under_ticks) arm();
  start->run();
  ticks_go_on();
  return NULL;
}

static struct thread_start thread_start;

pthread_t start_thread_with(void (*run)(void), const pthread_attr_t *attributes) {
  pthread_t thread;
  thread_start = (struct thread_start){run, signals_inherited_blocked(attributes)};
  assert(pthread_create(&thread, attributes, thread_main, &thread_start) == 0);
  return thread;
}

pthread_t start_thread(void (*run)(void)) { return start_thread_with(run, NULL); }

void end_child(pid_t child) {
  int status;
  assert(waitpid(child, &status, 0) == child);
  say("child ended %x\n", status);
}

void wait_for_bytes(int fd) {
  char byte;
  assert(read(fd, &byte, 1) == 1);
}
