/* A library that waits: in a thread of its own, and where it is called. With WRAPPED, it calls the poll of wrapped_poll.c
 * instead of libc's. */
#include <poll.h>
#include <pthread.h>
#include <string.h>

#ifdef WRAPPED
extern int wrapped_poll(struct pollfd *descriptors, nfds_t count, int ms);
#define poll wrapped_poll
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

void waiter_idles(void) {
  pthread_mutex_lock(&lock);
  for (;;) pthread_cond_wait(&never, &lock);
}

static void *run(void *unused) {
  waiter_idles();
  return unused;
}

int waiter_starts(void) {
  pthread_t thread;
  return pthread_create(&thread, NULL, run, NULL);
}

/* The size of the frame is known only when it runs. */
__attribute__((noinline)) int waiter_polls(int ms) {
  volatile char room[ms % 100 + 64];
  memset((char *)room, 1, sizeof room);
  return poll(NULL, 0, ms) + room[0];
}

__attribute__((noinline)) int waiter_is_called(int ms) { return waiter_polls(ms) + 1; }
