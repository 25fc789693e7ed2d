/* A library that begins a thread when it is asked for an attribute. */
#include <pthread.h>
#include <unistd.h>

static void *rest(void *nothing) {
  usleep(20000);
  return nothing;
}

/* Returns 1, also if there is no thread. */
int begin(void *object) {
  pthread_t thread;
  (void)object;
  if (pthread_create(&thread, NULL, rest, NULL) == 0) pthread_detach(thread);
  return 1;
}
