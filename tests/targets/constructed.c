/* A library whose constructor allocates SIZE bytes, and 2 more that it frees. */
#include <stdlib.h>

static void *volatile kept, *volatile freed;

__attribute__((constructor)) static void construct(void) {
  kept = malloc(SIZE);
  freed = malloc(SIZE + 2);
  free(freed);
}

int constructed(void) { return kept != NULL; }
