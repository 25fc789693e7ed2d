/* tick_handlers.c: a thread is waited for while it is inside a handler, as the kernel sees it. */
#include "inside/seccomp/tick_handlers.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "shared/clock.h"
#include "tests/check.h"

#define MS 1000000

static volatile int running, inside, leave;

static void handler(int number) {
  (void)number;
  inside = 1;
  while (!leave) {}
}

/* It says when it runs: a signal during its start would hold the locks of a sanitizer that starts it. */
static void *wait_for_a_signal(void *unused) {
  running = 1;
  while (!leave) usleep(1000);
  return unused;
}

static void *block_and_sleep(void *unused) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  inside = 1;
  pause();
  return unused;
}

/* Returns how long the call took. */
static int64_t finish(int64_t most_ns) {
  int64_t begin = clock_now_ns();
  tick_handlers_finish(SIGUSR1, most_ns);
  return clock_now_ns() - begin;
}

static void *leave_soon(void *unused) {
  usleep(100000);
  leave = 1;
  return unused;
}

int main(void) {
#ifdef __SANITIZE_THREAD__
  return 0; /* the sanitizer's own thread has blocked all signals, so it would be waited for */
#endif
  pthread_t thread, releasing;
  struct sigaction action = {.sa_handler = handler};
  sigfillset(&action.sa_mask);
  check(!sigaction(SIGUSR1, &action, NULL));
  check(finish(10000 * (int64_t)MS) < 5000 * (int64_t)MS); /* no other thread */
  check(!pthread_create(&thread, NULL, wait_for_a_signal, NULL));
  check(finish(10000 * (int64_t)MS) < 5000 * (int64_t)MS); /* it is not inside */
  while (!running) usleep(1000);
  check(!pthread_kill(thread, SIGUSR1));
  while (!inside) usleep(1000);
  int64_t took_ns = finish(50 * MS);
  check(took_ns >= 50 * MS && !leave); /* no longer than asked for */
  check(!pthread_create(&releasing, NULL, leave_soon, NULL));
  finish(60000 * (int64_t)MS);
  check(leave);
  check(!pthread_join(thread, NULL) && !pthread_join(releasing, NULL));
  inside = 0;
  check(!pthread_create(&thread, NULL, block_and_sleep, NULL));
  while (!inside) usleep(1000);
  usleep(100000);
  check(finish(10000 * (int64_t)MS) < 5000 * (int64_t)MS); /* it is not inside, although it has blocked the signal */
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, SIGUSR1);
  check(!pthread_sigmask(SIG_BLOCK, &own, NULL));
  check(finish(10000 * (int64_t)MS) < 5000 * (int64_t)MS); /* the calling thread is left out */
  puts("ok");
  return 0;
}
