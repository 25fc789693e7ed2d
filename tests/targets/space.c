/* Allocates in four threads, then prints its address space, and its locked memory after mlockall, in KiB. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* libc keeps the stacks of as many threads as were alive at once. */
static pthread_barrier_t together;

static void *allocate(void *unused) {
  pthread_barrier_wait(&together);
  for (int i = 0; i < 20000; i++) {
    char *volatile block = malloc(600);
    free(block);
  }
  return unused;
}

static long status_kib(const char *name) {
  char line[256];
  long value = -1;
  FILE *file = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, file)) {
    if (!strncmp(line, name, strlen(name))) value = strtol(strchr(line, ':') + 1, NULL, 10);
  }
  fclose(file);
  return value;
}

int main(void) {
  pthread_t threads[4];
  pthread_barrier_init(&together, NULL, 4);
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, allocate, NULL);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  long size = status_kib("VmSize");
  int locked = mlockall(MCL_CURRENT) == 0;
  printf("{\"size_kib\": %ld, \"locked\": %s, \"locked_kib\": %ld}\n", size, locked ? "true" : "false",
         status_kib("VmLck"));
  return 0;
}
