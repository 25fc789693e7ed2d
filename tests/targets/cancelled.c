/* Threads that are cancelled before they run, and first of all switch cancellation off: each must run all the same. */
#include <pthread.h>
#include <stdio.h>

static _Atomic int ran;

static void *run(void *unused) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  ran++;
  return unused;
}

int main(void) {
  for (int i = 0; i < 100; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
  }
  printf("%d\n", ran);
  return 0;
}
