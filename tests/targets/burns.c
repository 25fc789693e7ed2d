/* A program without Python that uses the CPU for half a second, in a function that another one calls. */
#include <time.h>

static volatile unsigned long turns;

__attribute__((noinline)) static void burn(clock_t end) {
  while (clock() < end) {
    for (int i = 0; i < 100000; i++) turns++;
  }
}

__attribute__((noinline)) static void outer(void) {
  burn(clock() + CLOCKS_PER_SEC / 2);
  turns++;
}

int main(void) {
  outer();
  return 0;
}
