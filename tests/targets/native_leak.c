/* A library that keeps what it allocates, in a function that Python code does not see, beside blocks that it frees. */
#include <stdlib.h>
#include <string.h>

#define MOST 100000
void *kept_blocks[MOST];
int kept;

__attribute__((noinline)) static void keep(void *block) { kept_blocks[kept++ % MOST] = block; }

__attribute__((noinline)) static void grow_table(size_t size) {
  char *block = malloc(size);
  if (!block) return;
  memset(block, 1, size);
  keep(block);
}

void leak_some(size_t size) {
  grow_table(size);
  char *other = malloc(2 * size);
  if (other) memset(other, 2, 2 * size);
  free(other);
  kept += 0;
}
