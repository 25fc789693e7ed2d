/* Four threads and a forked child that allocate, resize and free. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *nothing) {
  char *blocks[200];
  for (int round = 0; round < 50; round++) {
    for (int i = 0; i < 200; i++) blocks[i] = memset(malloc(100 + 37 * i), 1, 100);
    for (int i = 0; i < 200; i++) free(realloc(blocks[i], 5000));
  }
  return nothing;
}

int main(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, NULL);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  if (fork() == 0) {
    work(NULL);
    _exit(0);
  }
  return wait(NULL) == -1;
}
