/* A library whose indirect function is resolved before anything that is preloaded has been relocated; its resolver copies
 * and allocates. With -DPROGRAM: the program that calls it. */
#include <stdlib.h>
#include <string.h>

#ifdef PROGRAM
int answer(void);
int main(void) { return answer() == 42 ? 0 : 1; }
#else
static char copied[64];
volatile size_t size = 16;

static int implementation(void) { return copied[0] + 1; }

static void *resolve(void) {
  char source[64] = {41};
  char *block = malloc(size);
  memcpy(copied, source, size);
  memmove(copied + 1, copied, size);
  free(block);
  return implementation;
}
static int indirect(void) __attribute__((ifunc("resolve")));
int answer(void) { return indirect(); }
#endif
