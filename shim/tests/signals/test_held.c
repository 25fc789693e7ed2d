/* held.c: the order of signals, their target threads, a full store, and four threads that add and take at the same
 * time. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "inside/signals/held.h"
#include "shared/base.h"
#include "tests/check.h"

static siginfo_t signal_with(int value) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  info.si_value.sival_int = value;
  return info;
}

static bool add(int value, int32_t thread) {
  siginfo_t info = signal_with(value);
  return held_add(&info, thread);
}

/* Returns the value taken; -1 = there was none. */
static int take(int32_t thread) {
  siginfo_t info;
  return held_take(thread, &info) ? info.si_value.sival_int : -1;
}

static void oldest_first_and_only_ones_own(void) {
  check(!held_any(7) && take(7) == -1);
  check(add(1, 0) && add(2, 8) && add(3, 7) && add(4, 0));
  check(held_any(7) && held_any(8) && held_any(9));
  check(take(7) == 1 && take(7) == 3 && take(9) == 4 && take(7) == -1);
  check(!held_any(7) && held_any(8) && take(8) == 2 && !held_any(8));
}

static void a_full_store_drops_what_comes_last(void) {
  int kept = 0;
  while (add(kept, 0)) kept++;
  check(kept == 32 && take(1) == 0 && add(99, 0) && !add(100, 0));
  for (int i = 1; i < kept; i++) check(take(1) == i);
  check(take(1) == 99 && take(1) == -1);
}

static void it_can_be_emptied(void) {
  check(add(1, 0) && add(2, 5));
  held_discard();
  check(!held_any(5) && take(5) == -1);
  check(add(3, 0));
  held_postfork_child();
  check(!held_any(5) && add(4, 0) && take(5) == 4);
}

enum { THREADS = 4, ROUNDS = 20000 };
static _Atomic int64_t put_in, taken_out;

static void *shuffle(void *given) {
  int32_t thread = (int32_t)(intptr_t)given;
  for (int value = 1; value <= ROUNDS; value++) {
    if (add(value, value % 3 == 0 ? thread : 0)) atomic_fetch_add(&put_in, value);
    int got = take(thread);
    if (got != -1) atomic_fetch_add(&taken_out, got);
  }
  for (int got = take(thread); got != -1; got = take(thread)) atomic_fetch_add(&taken_out, got);
  return NULL;
}

static void nothing_is_lost_or_taken_twice(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) check(pthread_create(&threads[i], NULL, shuffle, (void *)(intptr_t)(i + 1)) == 0);
  for (int i = 0; i < THREADS; i++) check(pthread_join(threads[i], NULL) == 0);
  check(put_in > 0 && put_in == taken_out && !held_any(1));
}

int main(void) {
  oldest_first_and_only_ones_own();
  a_full_store_drops_what_comes_last();
  it_can_be_emptied();
  nothing_is_lost_or_taken_twice();
  printf("ok\n");
  return 0;
}
