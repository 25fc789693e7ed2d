/* An executable whose malloc counts calls and passes them on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int calls;

void *malloc(size_t size) {
  static void *(*below)(size_t);
  if (!below) below = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
  calls += size == 1 << 20;
  return below(size);
}

int main(void) {
  for (int i = 0; i < 100; i++) {
    char *volatile block = malloc(1 << 20);
    block[0] = 1;
    free(block);
  }
  printf("%d\n", calls);
  return 0;
}
