/* Scenarios: calls that wait for signals or with another mask, in several threads. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shared/base.h"
#include "tests/signals/scenario.h"

void sigwait_family(void) {
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

/* Sends a signal after 50 ms. Linux delivers it to a thread that waits for it, even if that thread has not blocked
 * it. */
static pid_t kill_soon(int signal) {
  pid_t target = getpid(), child = fork();
  if (child != 0) return child;
  usleep(50000);
  kill(target, signal);
  _exit(0);
}

void sigwait_sleeps_until_sent(void) {
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

void sigwait_of_an_unblocked_signal_dies(void) {
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

void a_thread_waits_for_the_process(void) {
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

static void unblock_and_spin(void) {
  block(SIG_UNBLOCK, only(N));
  say_mask();
  assert(write(ready[1], "", 1) == 1);
  while (handling_thread == 0) burn(1);
  say("by this thread: %d\n", handling_thread == (int)syscall(SYS_gettid));
}

void the_unblocked_thread_handles(void) {
  assert(pipe(ready) == 0);
  set_action(N, note_thread, 0, nothing());
  block(SIG_BLOCK, everything());
  pthread_t thread = start_thread(unblock_and_spin);
  wait_for_bytes(ready[0]);
  kill(getpid(), N);
  assert(pthread_join(thread, NULL) == 0);
}

void threads_inherit(void) {
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

void calls_with_masks(void) {
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

void sleeps_with_masks_are_ended(void) {
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

void system_calls_are_interrupted_as_asked(void) {
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

void signal_descriptors(void) {
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

void mask_of_another_handler(void) {
  set_action(SIGUSR1, handler, SA_RESTART, everything());
  say_action(SIGUSR1);
  set_action(SIGUSR1, handler, SA_RESTART, only(SIGUSR2));
  say_action(SIGUSR1);
  ticks_go_on();
}

__attribute__((no_sanitize("undefined"))) void null_pointers(void) {
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

void cancelled_wait(void) {
  block(SIG_BLOCK, everything());
  pthread_t thread = start_thread(wait_in_thread);
  usleep(20000);
  void *result;
  assert(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
  say("cancelled %d\n", result == PTHREAD_CANCELED);
}
