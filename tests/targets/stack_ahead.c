/* Lowers its stack pointer by more than the stack has grown, and works there without touching the new part. */
#include <alloca.h>

static volatile unsigned long steps;

int main(void) {
  volatile char *far = alloca(400000);
  (void)far;
  for (unsigned long i = 0; i < 100000000; i++) steps++;
  return steps == 0;
}
