/* Every scenario runs twice, each in a process of its own: bare (nothing installed, all calls forwarded) and under
 * ticks (our signal installed, a timer of 1 ms firing it). What it writes and how it ends must be the same, and in the second
 * run, ticks must go on afterwards in every thread. The scenarios use the number that is ours as if it were theirs. */
#include <assert.h>
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "formats/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/processes/process.h"
#include "inside/signals/signals.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/spool.h"

#undef assert
#define assert(condition)                                                                                              \
  ((condition) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), abort()))

/* ---- stand-ins for the other files of the shim ---- */

/* Read by a build with the address sanitizer: images are started with other libraries in front of it. */
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

/* A forked child has memory of its own, a vfork child has its parent's. */
static char *page_of_forks;

void fork_check(void) {
  if (page_of_forks == NULL || *page_of_forks != 0) return;
  *page_of_forks = 1;
  signals_postfork_child();
}

static void notice_forks(void) {
  page_of_forks = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert(page_of_forks != MAP_FAILED && madvise(page_of_forks, 4096, MADV_WIPEONFORK) == 0);
  *page_of_forks = 1;
}

void process_before_exec(void) {}
void process_after_failed_exec(void) {}
void loss_add(enum loss loss) { (void)loss; }

/* ---- ticks ---- */

static THREAD_LOCAL volatile int ticks;
static char tick_mark;
static bool under_ticks;

static bool count_tick(siginfo_t *info, void *context) {
  (void)context;
  if (info->si_code != SI_TIMER || info->si_ptr != &tick_mark) return false;
  ticks++;
  return true;
}

static void arm(void) {
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signals_number()};
  struct itimerspec period = {{0, 1000000}, {0, 1000000}};
  timer_t timer;
  event.sigev_value.sival_ptr = &tick_mark;
  event._sigev_un._tid = (int)syscall(SYS_gettid);
  assert(timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0);
  assert(timer_settime(timer, 0, &period, NULL) == 0);
}

static void burn(long milliseconds) {
  struct timespec from, now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < milliseconds);
}

/* Within 30 ms of CPU time, as a rule; where others want the core, the kernel's own tick may miss the thread for longer. */
static void ticks_go_on(void) {
  int before = ticks;
  burn(30);
  for (int more = 0; under_ticks && ticks == before && more < 50; more++) burn(30);
  if (under_ticks) assert(ticks > before);
}

/* ---- what scenarios are written with ---- */

sighandler_t bsd_signal(int, sighandler_t);

static int N;   /* the number that is ours */
static int out; /* where a scenario writes to */

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...) {
  char line[512];
  va_list list;
  va_start(list, format);
  int length = vsnprintf(line, sizeof line, format, list);
  va_end(list);
  assert(write(out, line, (size_t)length) == length);
}

static uint64_t word(const sigset_t *set) {
  uint64_t result;
  memcpy(&result, set, sizeof result);
  return result;
}

static sigset_t only(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}

static sigset_t everything(void) {
  sigset_t set;
  sigfillset(&set);
  return set;
}

static sigset_t nothing(void) {
  sigset_t set;
  sigemptyset(&set);
  return set;
}

static volatile sig_atomic_t handled, handled_value[64], depth, deepest;
static volatile int handled_code, handled_context;

static void handler(int signal) {
  (void)signal;
  handled++;
}

static void info_handler(int signal, siginfo_t *info, void *context) {
  assert(signal == info->si_signo);
  if (handled < 64) handled_value[handled] = info->si_value.sival_int;
  handled_code = info->si_code;
  handled_context = context != NULL;
  handled++;
}

static void nesting_handler(int signal) {
  if (++depth > deepest) deepest = depth;
  if (++handled < 4) raise(signal);
  depth--;
}

static void set_action(int signal, void (*function)(int), int flags, sigset_t mask) {
  struct sigaction action = {.sa_handler = function, .sa_flags = flags, .sa_mask = mask};
  assert(sigaction(signal, &action, NULL) == 0);
}

static void set_info_action(int flags) {
  struct sigaction action = {.sa_sigaction = info_handler, .sa_flags = SA_SIGINFO | flags};
  assert(sigaction(N, &action, NULL) == 0);
}

static const char *name_of(const struct sigaction *action) {
  if (action->sa_handler == SIG_DFL) return "default";
  if (action->sa_handler == SIG_IGN) return "ignore";
  if (action->sa_handler == handler) return "handler";
  return action->sa_sigaction == info_handler ? "info_handler" : "other";
}

static void say_action(int signal) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  errno = 0;
  int result = sigaction(signal, NULL, &action);
  say("%d: %d %d %s flags %x mask %llx restorer %d\n", signal, result, errno, name_of(&action), action.sa_flags,
      (unsigned long long)word(&action.sa_mask), action.sa_restorer != NULL);
}

static void say_mask(void) {
  sigset_t mask = nothing(), process_mask = nothing();
  assert(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0 && sigprocmask(SIG_BLOCK, NULL, &process_mask) == 0);
  say("mask %llx %llx\n", (unsigned long long)word(&mask), (unsigned long long)word(&process_mask));
}

static void say_pending(void) {
  sigset_t set = nothing();
  assert(sigpending(&set) == 0);
  say("pending %llx\n", (unsigned long long)word(&set));
}

static void block(int how, sigset_t set) { assert(pthread_sigmask(how, &set, NULL) == 0); }

static void queue(int value) {
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

static pthread_t start_thread_with(void (*run)(void), const pthread_attr_t *attributes) {
  pthread_t thread;
  thread_start = (struct thread_start){run, signals_inherited_blocked(attributes)};
  assert(pthread_create(&thread, attributes, thread_main, &thread_start) == 0);
  return thread;
}

static pthread_t start_thread(void (*run)(void)) { return start_thread_with(run, NULL); }

static void end_child(pid_t child) {
  int status;
  assert(waitpid(child, &status, 0) == child);
  say("child ended %x\n", status);
}

static void wait_for_bytes(int fd) {
  char byte;
  assert(read(fd, &byte, 1) == 1);
}

/* ---- scenarios ---- */

static void actions_at_start(void) {
  for (int signal = -1; signal <= 66; signal++) say_action(signal);
}

static void every_signal_default(void) {
  for (int i = 1; i <= 64; i++) say("%d", signal(i, SIG_DFL) == SIG_ERR);
  ticks_go_on();
  actions_at_start();
}

static void every_signal_handled(void) {
  const int flags[] = {0, SA_RESTART, SA_NODEFER, SA_ONSTACK | SA_RESTART, 0x40000000 /* nobody's */};
  for (int i = 1; i <= 64; i++) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags[i % 5], .sa_mask = everything()}, before;
    memset(&before, 0, sizeof before);
    int result = sigaction(i, &action, &before);
    say("%d: %d %s %x\n", i, result, name_of(&before), before.sa_flags);
  }
  ticks_go_on();
  actions_at_start();
  say("handled %d\n", handled);
  raise(N);
  kill(getpid(), N);
  say("handled %d\n", handled);
}

static void our_action_reads_back(void) {
  for (int flags = 0; flags < 8; flags++) {
    struct sigaction action = {.sa_handler = handler, .sa_mask = only(SIGKILL + flags)}, before;
    action.sa_flags = (flags & 1 ? SA_RESTART : 0) | (flags & 2 ? SA_NODEFER : 0) | (flags & 4 ? SA_NOCLDSTOP : 0);
    assert(sigaction(N, &action, &before) == 0);
    say_action(N);
    struct sigaction *same_struct = &action;
    assert(sigaction(N, &action, same_struct) == 0);
    say("%s %x %llx\n", name_of(&action), action.sa_flags, (unsigned long long)word(&action.sa_mask));
  }
}

static void older_calls(void) {
  say("%d", signal(N, handler) == SIG_DFL);
  say_action(N);
  say("%d %d", siginterrupt(N, 1), siginterrupt(SIGUSR1, 1));
  say_action(N);
  say("%d", bsd_signal(N, SIG_IGN) == handler);
  say_action(N);
  say("%d", ssignal(N, handler) == SIG_IGN);
  say_action(N);
  say("%d", siginterrupt(N, 0));
  say_action(N);
  say("%d", sysv_signal(N, handler) == handler);
  say_action(N);
  say("%d", signal(N, SIG_ERR) == SIG_ERR && errno == EINVAL);
  say("%d", sigset(N, SIG_HOLD) == handler);
  say_mask();
  say("%d", sigset(N, handler) == SIG_HOLD);
  say_mask();
  say_action(N);
  say("%d", sighold(N));
  say_mask();
  say("%d", sigrelse(N));
  say_mask();
  say("%d", sigignore(N));
  say_action(N);
  say("%d %d %d", sighold(99), sigrelse(0), sigset(N, SIG_ERR) == SIG_ERR);
}

static void masks(void) {
  sigset_t full = everything(), before = nothing(), ours = only(N);
  say_mask();
  say("%d %llx\n", sigprocmask(SIG_BLOCK, &full, &before), (unsigned long long)word(&before));
  say_mask();
  ticks_go_on();
  say("%d %llx\n", pthread_sigmask(SIG_UNBLOCK, &ours, &before), (unsigned long long)word(&before));
  say_mask();
  sigset_t *same_set = &ours;
  say("%d", pthread_sigmask(SIG_SETMASK, &ours, same_set));
  say(" %llx\n", (unsigned long long)word(&ours));
  say_mask();
  say("%d %d\n", pthread_sigmask(17, &full, &before), pthread_sigmask(17, NULL, &before));
  errno = 0;
  say("%d %d\n", sigprocmask(17, &full, &before), errno);
  say_mask();
  say("%d %d\n", sigblock(1 << (SIGUSR1 - 1)), sigsetmask(1 << (SIGUSR2 - 1)));
  say_mask();
}

static void what_was_blocked_is_delivered(void) {
  set_info_action(0);
  block(SIG_BLOCK, only(N));
  for (int i = 1; i <= 5; i++) queue(i);
  raise(N);
  kill(getpid(), N);
  ticks_go_on();
  say_pending();
  say("handled %d\n", handled);
  block(SIG_UNBLOCK, only(N));
  say_pending();
  say("handled %d:", handled);
  int sum = 0;
  for (int i = 0; i < handled; i++) sum += handled_value[i] < 6 ? handled_value[i] : 0;
  say(" %d context %d\n", sum, handled_context);
}

static void queued_values_keep_their_order(void) {
  set_info_action(0);
  block(SIG_BLOCK, everything());
  for (int i = 1; i <= 20; i++) queue(i);
  block(SIG_SETMASK, nothing());
  for (int i = 0; i < handled; i++) say("%d ", handled_value[i]);
}

static void ignoring_discards(void) {
  block(SIG_BLOCK, only(N));
  raise(N);
  kill(getpid(), N);
  signal(N, SIG_IGN);
  say_pending();
  set_action(N, handler, 0, nothing());
  block(SIG_UNBLOCK, only(N));
  say("handled %d\n", handled);
  signal(N, SIG_IGN);
  raise(N);
  say("alive, handled %d\n", handled);
}

static void default_kills(void) { raise(N); }

static void default_kills_from_outside(void) {
  if (fork() == 0) {
    kill(getppid(), N);
    _exit(0);
  }
  burn(2000);
}

static void default_kills_when_unblocked(void) {
  block(SIG_BLOCK, everything());
  kill(getpid(), N);
  say_pending();
  block(SIG_SETMASK, nothing());
  say("not reached\n");
}

static void a_handler_once(void) {
  set_action(N, handler, (int)SA_RESETHAND, nothing());
  raise(N);
  say("handled %d\n", handled);
  say_action(N);
  ticks_go_on();
  raise(N);
  say("not reached\n");
}

static void nested_handlers(void) {
  set_action(N, nesting_handler, 0, nothing());
  raise(N);
  say("handled %d, deepest %d\n", handled, deepest);
  handled = deepest = 0;
  set_action(N, nesting_handler, SA_NODEFER, nothing());
  raise(N);
  say("handled %d, deepest %d\n", handled, deepest);
  handled = deepest = 0;
  set_action(N, nesting_handler, SA_NODEFER, only(N));
  raise(N);
  say("handled %d, deepest %d\n", handled, deepest);
}

static void sigwait_family(void) {
  sigset_t set = only(N), both = only(N);
  struct timespec soon = {0, 2000000}, none = {0, 0}, wrong = {0, 2000000000}, negative = {-1, 0};
  siginfo_t info;
  int got = 0;
  sigaddset(&both, SIGUSR1);
  block(SIG_BLOCK, everything());
  queue(1234);
  say("%d", sigwaitinfo(&set, &info));
  say(" %d %d %d\n", info.si_code, info.si_value.sival_int, info.si_pid == getpid());
  raise(N);
  say("%d", sigtimedwait(&set, &info, &soon));
  say(" %d %d\n", info.si_code, info.si_pid == getpid());
  errno = 0;
  say("%d %d", sigtimedwait(&set, &info, &soon), errno);
  say(" %d %d", sigtimedwait(&set, &info, &none), errno);
  say(" %d %d", sigtimedwait(&set, &info, &wrong), errno);
  say(" %d %d\n", sigtimedwait(&set, NULL, &negative), errno);
  raise(N);
  raise(SIGUSR1);
  say("%d", sigwaitinfo(&both, NULL));
  say(" %d\n", sigwaitinfo(&both, NULL));
  kill(getpid(), N);
  say("%d", sigwait(&set, &got));
  say(" %d\n", got);
  set = everything();
  kill(getpid(), N);
  say("%d", sigwait(&set, &got));
  say(" %d\n", got);
  say_pending();
}

/* Linux hands a signal that is not even blocked to who waits for it. */
static pid_t kill_soon(int signal) {
  pid_t target = getpid(), child = fork();
  if (child != 0) return child;
  usleep(50000);
  kill(target, signal);
  _exit(0);
}

static void sigwait_sleeps_until_sent(void) {
  sigset_t set = everything();
  int got = 0;
  sigdelset(&set, SIGCHLD);
  block(SIG_BLOCK, everything());
  pid_t child = kill_soon(N);
  say("%d", sigwait(&set, &got));
  say(" %d\n", got);
  end_child(child);
  block(SIG_SETMASK, nothing());
  set_action(N, handler, 0, nothing());
  set = only(N);
  child = kill_soon(N);
  say("%d", sigwait(&set, &got));
  say(" %d, handled %d\n", got, handled);
  end_child(child);
}

static void sigwait_of_an_open_signal_dies(void) {
  sigset_t set = only(N);
  int got = 0;
  kill_soon(N);
  say("not reached: %d\n", sigwait(&set, &got));
}

static void wait_in_thread(void) {
  sigset_t set = only(N);
  int got;
  assert(sigwait(&set, &got) == 0);
  say("thread got %d\n", got);
}

static void a_thread_waits_for_the_process(void) {
  block(SIG_BLOCK, everything());
  pthread_t thread = start_thread(wait_in_thread);
  usleep(50000);
  kill(getpid(), N);
  assert(pthread_join(thread, NULL) == 0);
  say_pending();
}

static int ready[2];
static volatile sig_atomic_t handling_thread;

static void note_thread(int signal) {
  (void)signal;
  handling_thread = (int)syscall(SYS_gettid);
}

static void open_and_spin(void) {
  block(SIG_UNBLOCK, only(N));
  say_mask();
  assert(write(ready[1], "", 1) == 1);
  while (handling_thread == 0) burn(1);
  say("by this thread: %d\n", handling_thread == (int)syscall(SYS_gettid));
}

static void the_open_thread_handles(void) {
  assert(pipe(ready) == 0);
  set_action(N, note_thread, 0, nothing());
  block(SIG_BLOCK, everything());
  pthread_t thread = start_thread(open_and_spin);
  wait_for_bytes(ready[0]);
  kill(getpid(), N);
  assert(pthread_join(thread, NULL) == 0);
}

static void threads_inherit(void) {
  assert(pthread_join(start_thread(say_mask), NULL) == 0);
  block(SIG_BLOCK, everything());
  assert(pthread_join(start_thread(say_mask), NULL) == 0);
  pthread_attr_t attributes;
  sigset_t set = only(SIGUSR1);
  assert(pthread_attr_init(&attributes) == 0 && pthread_attr_setsigmask_np(&attributes, &set) == 0);
  assert(pthread_join(start_thread_with(say_mask, &attributes), NULL) == 0);
  set = only(N);
  block(SIG_SETMASK, nothing());
  assert(pthread_attr_setsigmask_np(&attributes, &set) == 0);
  assert(pthread_join(start_thread_with(say_mask, &attributes), NULL) == 0);
  say_mask();
}

static void calls_with_masks(void) {
  sigset_t open = nothing(), closed = everything();
  struct timespec soon = {0, 2000000};
  struct epoll_event event;
  int epoll = epoll_create1(0);
  set_action(N, handler, 0, nothing());
  block(SIG_BLOCK, everything());
#define SAY_CALL(call) (queue(1), errno = 0, say("%d", call), say(" errno %d handled %d\n", errno, handled))
  SAY_CALL(sigsuspend(&open));
  SAY_CALL(ppoll(NULL, 0, &soon, &open));
  SAY_CALL(pselect(0, NULL, NULL, NULL, &soon, &open));
  SAY_CALL(epoll_pwait(epoll, &event, 1, 2, &open));
  SAY_CALL(epoll_pwait2(epoll, &event, 1, &soon, &open));
  SAY_CALL(ppoll(NULL, 0, &soon, &closed));
  SAY_CALL(pselect(0, NULL, NULL, NULL, &soon, &closed));
  SAY_CALL(epoll_pwait(epoll, &event, 1, 2, &closed));
  SAY_CALL(ppoll(NULL, 0, &soon, NULL));
  SAY_CALL(epoll_pwait(-1, &event, 1, 2, &closed));
  say_mask();
  say_pending();
  SAY_CALL(sigpause(N));
  say_mask();
#undef SAY_CALL
}

static void sleeps_with_masks_are_ended(void) {
  sigset_t open = everything();
  struct timespec long_s = {10, 0};
  sigdelset(&open, N);
  set_action(N, handler, SA_RESTART, nothing());
  block(SIG_BLOCK, everything());
  pid_t child = kill_soon(N);
  say("%d", sigsuspend(&open));
  say(" %d %d\n", errno, handled);
  end_child(child);
  child = kill_soon(N);
  say("%d", ppoll(NULL, 0, &long_s, &open));
  say(" %d %d\n", errno, handled);
  end_child(child);
  say_mask();
}

static void system_calls_are_interrupted_as_asked(void) {
  int ends[2];
  char byte;
  assert(pipe(ends) == 0);
  set_action(N, handler, 0, nothing());
  pid_t child = kill_soon(N);
  say("%zd", read(ends[0], &byte, 1));
  say(" %d %d\n", errno, handled);
  end_child(child);
  set_action(N, handler, SA_RESTART, nothing());
  child = fork();
  if (child == 0) {
    usleep(30000);
    kill(getppid(), N);
    usleep(30000);
    assert(write(ends[1], "x", 1) == 1);
    _exit(0);
  }
  say("%zd", read(ends[0], &byte, 1));
  say(" %d\n", handled);
  end_child(child);
}

static void signal_descriptors(void) {
  struct signalfd_siginfo info = {0};
  sigset_t set = everything();
  block(SIG_BLOCK, everything());
  int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  ticks_go_on();
  say("%zd", read(fd, &info, sizeof info));
  say(" %d\n", errno);
  raise(SIGUSR1);
  say("%zd", read(fd, &info, sizeof info));
  say(" %u\n", info.ssi_signo);
  say("%d", signalfd(-2, &set, 0));
  say(" %d\n", errno);
}

static void mask_of_another_handler(void) {
  set_action(SIGUSR1, handler, SA_RESTART, everything());
  say_action(SIGUSR1);
  set_action(SIGUSR1, handler, SA_RESTART, only(SIGUSR2));
  say_action(SIGUSR1);
  ticks_go_on();
}

__attribute__((no_sanitize("undefined"))) static void null_pointers(void) {
  int got;
  sigset_t *volatile null = NULL;
  errno = 0;
  say("%d %d", pthread_sigmask(SIG_SETMASK, null, null), sigwait(null, &got));
  say(" %d", sigwaitinfo(null, NULL));
  say(" %d", errno);
  say(" %d", sigsuspend(null));
  say(" %d", errno);
  say(" %d", signalfd(-1, null, 0));
  say(" %d", errno);
  say(" %d", sigpending(null));
  say(" %d\n", errno);
}

/* ---- new images ---- */

static char *self_path;

static void describe_image(void) {
  out = 1;
  say_mask();
  say_action(N);
  say_action(SIGUSR1);
  say_pending();
}

static char **describe_arguments(void) {
  static char *arguments[] = {NULL, "describe", NULL};
  arguments[0] = self_path;
  return arguments;
}

static void exec_here(void) {
  execv("/nowhere", describe_arguments());
  say_mask();
  execv(self_path, describe_arguments());
}

static void forked_exec(void) {
  pid_t child = fork();
  if (child == 0) {
    dup2(out, 1);
    execv("/nowhere", describe_arguments());
    execv(self_path, describe_arguments());
    _exit(9);
  }
  end_child(child);
}

static void vforked_exec(void) {
  pid_t child = vfork();
  if (child == 0) {
    dup2(out, 1);
    execv("/nowhere", describe_arguments());
    execv(self_path, describe_arguments());
    _exit(9);
  }
  end_child(child);
}

static void spawned(void) {
  posix_spawn_file_actions_t actions;
  extern char **environ;
  pid_t child;
  assert(posix_spawn_file_actions_init(&actions) == 0 && posix_spawn_file_actions_adddup2(&actions, out, 1) == 0);
  assert(posix_spawn(&child, self_path, &actions, NULL, describe_arguments(), environ) == 0);
  end_child(child);
}

static void by_shell(void) {
  char command[512];
  snprintf(command, sizeof command, "%s describe >&%d", self_path, out);
  say("%d\n", system(command));
}

static void new_images(void) {
  forked_exec();
  vforked_exec();
  spawned();
  by_shell();
  ticks_go_on();
}

static void images_inherit(void) {
  new_images();
  block(SIG_BLOCK, everything());
  new_images();
  signal(N, SIG_IGN);
  block(SIG_SETMASK, only(SIGUSR1));
  new_images();
  signal(N, handler);
  block(SIG_SETMASK, only(N));
  new_images();
  say_mask();
  say_action(N);
  raise(N);
  kill(getpid(), N);
  dup2(out, 1);
  exec_here();
}

static void a_vfork_child_changes_its_own(void) {
  set_action(N, handler, SA_RESTART, nothing());
  block(SIG_BLOCK, only(N));
  pid_t child = vfork();
  if (child == 0) {
    dup2(out, 1);
    block(SIG_SETMASK, everything());
    block(SIG_UNBLOCK, only(N));
    say_mask();
    for (int i = 1; i <= 64; i++) signal(i, SIG_IGN);
    say_action(N);
    execv(self_path, describe_arguments());
    _exit(9);
  }
  end_child(child);
  say_mask();
  say_action(N);
  ticks_go_on();
}

static void a_forked_child(void) {
  set_action(N, handler, SA_RESTART, nothing());
  block(SIG_BLOCK, everything());
  raise(N);
  kill(getpid(), N);
  pid_t child = fork();
  if (child == 0) {
    fork_check();
    if (under_ticks) arm();
    say_pending();
    say_mask();
    block(SIG_SETMASK, nothing());
    raise(N);
    say("handled %d\n", handled);
    ticks_go_on();
    _exit(3);
  }
  end_child(child);
  say_pending();
}

static void cancelled_wait(void) {
  block(SIG_BLOCK, everything());
  pthread_t thread = start_thread(wait_in_thread);
  usleep(20000);
  void *result;
  assert(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
  say("cancelled %d\n", result == PTHREAD_CANCELED);
}

/* ---- running them ---- */

struct scenario {
  const char *name;
  void (*run)(void);
};

#define SCENARIO(name) {#name, name}
static const struct scenario scenarios[] = {
    SCENARIO(actions_at_start),
    SCENARIO(every_signal_default),
    SCENARIO(every_signal_handled),
    SCENARIO(our_action_reads_back),
    SCENARIO(older_calls),
    SCENARIO(masks),
    SCENARIO(what_was_blocked_is_delivered),
    SCENARIO(queued_values_keep_their_order),
    SCENARIO(ignoring_discards),
    SCENARIO(default_kills),
    SCENARIO(default_kills_from_outside),
    SCENARIO(default_kills_when_unblocked),
    SCENARIO(a_handler_once),
    SCENARIO(nested_handlers),
    SCENARIO(sigwait_family),
    SCENARIO(sigwait_sleeps_until_sent),
    SCENARIO(sigwait_of_an_open_signal_dies),
    SCENARIO(a_thread_waits_for_the_process),
    SCENARIO(the_open_thread_handles),
    SCENARIO(threads_inherit),
    SCENARIO(calls_with_masks),
    SCENARIO(sleeps_with_masks_are_ended),
    SCENARIO(system_calls_are_interrupted_as_asked),
    SCENARIO(signal_descriptors),
    SCENARIO(mask_of_another_handler),
    SCENARIO(null_pointers),
    SCENARIO(images_inherit),
    SCENARIO(a_vfork_child_changes_its_own),
    SCENARIO(a_forked_child),
    SCENARIO(cancelled_wait),
};

static void run_scenario(const struct scenario *scenario, bool installs) {
  under_ticks = installs;
  notice_forks();
  if (installs) {
    assert(signals_install(count_tick) == 0 && signals_number() == N);
    arm();
    ticks_go_on();
  }
  scenario->run();
  ticks_go_on();
  say("done\n");
  _exit(0);
}

struct transcript {
  char text[65536];
  size_t length;
  int status;
};

/* A scenario that hangs may have blocked all that would end it: after 20 silent seconds it is killed, children too. */
static ssize_t read_or_kill(int fd, char *to, size_t size, pid_t group) {
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  if (poll(&ready, 1, 20000) == 0) kill(-group, SIGKILL);
  return read(fd, to, size);
}

static void record(const struct scenario *scenario, bool installs, struct transcript *transcript) {
  int ends[2];
  assert(pipe(ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    close(ends[0]);
    out = ends[1];
    run_scenario(scenario, installs);
  }
  close(ends[1]);
  ssize_t got;
  transcript->length = 0;
  while ((got = read_or_kill(ends[0], transcript->text + transcript->length,
                             sizeof transcript->text - 1 - transcript->length, child)) > 0)
    transcript->length += (size_t)got;
  transcript->text[transcript->length] = '\0';
  assert(waitpid(child, &transcript->status, 0) == child);
  close(ends[0]);
}

static bool same(const struct scenario *scenario) {
  static struct transcript bare, ticked;
  record(scenario, false, &bare);
  record(scenario, true, &ticked);
  if (bare.status == ticked.status && strcmp(bare.text, ticked.text) == 0) return true;
  printf("%s differs\n--- bare, status %x\n%s\n--- under ticks, status %x\n%s\n", scenario->name, bare.status,
         bare.text, ticked.status, ticked.text);
  return false;
}

int main(int count, char **arguments) {
  bool all_same = true;
  N = SIGRTMAX - 3;
  self_path = arguments[0];
  if (count > 1 && strcmp(arguments[1], "describe") == 0) {
    describe_image();
    return 0;
  }
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
    if (count < 2 || strcmp(arguments[1], scenarios[i].name) == 0) all_same &= same(&scenarios[i]);
  if (all_same) printf("ok\n");
  return all_same ? 0 : 1;
}
