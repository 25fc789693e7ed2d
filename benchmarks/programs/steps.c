/* Calls of interposed functions, each between two traps: a library for steps.py, traced by stepper.c. */
#include <stdlib.h>
#include <string.h>

#define CALLS 200
#define TRAP() __asm__ volatile("int3" ::: "memory")
#define REGIONS(call)                                                                                                  \
  for (int i = 0; i < CALLS; i++) {                                                                                    \
    TRAP();                                                                                                            \
    call;                                                                                                              \
    TRAP();                                                                                                            \
  }

static void *volatile kept[CALLS];

/* Some calls without traps go before, so that everything has been resolved and has begun. */
static void warm(void *(*allocate)(size_t), void (*release)(void *), size_t size) {
  for (int i = 0; i < CALLS; i++) kept[i] = allocate(size);
  for (int i = 0; i < CALLS; i++) release(kept[i]);
}

/* CALLS regions each of: malloc, free, calloc, realloc in place, and free again. */
void step_malloc(void) {
  warm(malloc, free, 48);
  REGIONS(kept[i] = malloc(48))
  REGIONS(free(kept[i]))
  REGIONS(kept[i] = calloc(1, 48))
  REGIONS(kept[i] = realloc(kept[i], 40))
  for (int i = 0; i < CALLS; i++) free(kept[i]);
}

/* CALLS regions each of: memcpy, memmove. */
void step_copies(void) {
  static char from[64], to[64];
  kept[0] = memcpy(to, from, sizeof to), kept[0] = memmove(to, from, sizeof to);
  REGIONS(kept[i] = memcpy(to, from, sizeof to))
  REGIONS(kept[i] = memmove(to, from, sizeof to))
}

/* CALLS regions each of: allocation and release, by Python's object allocator, whose functions are given. */
void step_objects(void *(*allocate)(size_t), void (*release)(void *), size_t size) {
  warm(allocate, release, size);
  REGIONS(kept[i] = allocate(size))
  REGIONS(release(kept[i]))
}
