/* loader.c: the loader's locks are found, never waited for, and free in a child that was forked while a thread had them. */
#include "inside/attached/loader.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inside/native/relocations.h"
#include "tests/check.h"

static _Atomic bool busy;
bool relocations_try_begin(void) { return !atomic_exchange(&busy, true); }
void relocations_end(void) { atomic_store(&busy, false); }
void relocations_postfork_child(void) { relocations_end(); }

static _Atomic bool holds, may_end;

static void wait_for(const _Atomic bool *what) {
  while (!atomic_load(what)) usleep(1000);
}

static int hold_in_callback(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)info, (void)size, (void)unused;
  atomic_store(&holds, true);
  wait_for(&may_end);
  return 1;
}

static void *iterate(void *unused) {
  dl_iterate_phdr(hold_in_callback, NULL);
  return unused;
}

static void *visit(void *unused) {
  check(loader_begin(BOTH_LOCKS));
  atomic_store(&holds, true);
  wait_for(&may_end);
  loader_end();
  return unused;
}

static pthread_t begin(void *(*run)(void *)) {
  pthread_t thread;
  atomic_store(&holds, false);
  atomic_store(&may_end, false);
  check(!pthread_create(&thread, NULL, run, NULL));
  wait_for(&holds);
  return thread;
}

static void end(pthread_t thread) {
  atomic_store(&may_end, true);
  check(!pthread_join(thread, NULL));
}

static bool is_blocked(void) {
  sigset_t mask;
  check(!pthread_sigmask(SIG_SETMASK, NULL, &mask));
  return sigismember(&mask, SIGINT);
}

static void test_found_only_while_it_is_free(void) {
  pthread_t thread = begin(iterate);
  check(!loader_begin(LIST_LOCK));
  check(strcmp(loader_find(), "loader") == 0);
  end(thread);
  check(!loader_find());
}

static void test_a_callback_that_waits(void) {
  pthread_t thread = begin(iterate);
  check(!loader_begin(LIST_LOCK) && !busy && !is_blocked());
  end(thread);
  check(loader_begin(LIST_LOCK) && busy && is_blocked());
  loader_end();
  check(!busy && !is_blocked());
}

static int try_within(struct dl_phdr_info *info, size_t size, void *got) {
  (void)info, (void)size;
  *(bool *)got = loader_begin(LIST_LOCK);
  return 1;
}

static void test_within_a_callback(void) {
  bool got = true;
  dl_iterate_phdr(try_within, &got);
  check(!got && !busy && !is_blocked());
  check(loader_begin(LIST_LOCK));
  loader_end();
}

/* libc's fork frees the lock of loading itself. */
static inline pid_t fork_by_kernel(void) { return (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0L, 0L, 0L, 0L); }

/* Returns whether a child that is forked now can load a library. */
static bool child_loads(pid_t (*forks)(void)) {
  pid_t child = forks();
  check(child >= 0);
  if (!child) {
    alarm(5);
    loader_postfork_child();
    _exit(dlopen("libutil.so.1", RTLD_NOW) && loader_begin(LIST_LOCK) ? 0 : 1);
  }
  int status;
  check(waitpid(child, &status, 0) == child);
  return status == 0;
}

static void test_a_fork_while_a_thread_has_it(void) {
  check(child_loads(fork));
  pthread_t thread = begin(visit);
  check(child_loads(fork));
#ifndef __SANITIZE_THREAD__ /* it does not know of such a child */
  check(child_loads(fork_by_kernel));
#endif
  end(thread);
  check(loader_begin(BOTH_LOCKS));
  check(dlsym(RTLD_DEFAULT, "malloc"));
  loader_end();
}

int main(void) {
  test_found_only_while_it_is_free();
  test_a_callback_that_waits();
  test_within_a_callback();
  test_a_fork_while_a_thread_has_it();
  puts("ok");
  return 0;
}
