/* An executable with an allocator of its own, which hands out parts of one array. It has no reallocarray and no
 * free_sized: those are libc's. Every block that is freed or resized must be one of its own. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Alignas(16) char area[1 << 22];
static size_t used;

void free(void *block);

static void check(const void *block) {
  if (block && ((const char *)block < area || (const char *)block >= area + sizeof area)) {
    static const char text[] = "a block of another allocator\n";
    if (write(1, text, sizeof text - 1) < 0) _exit(2);
    _exit(1);
  }
}

/* As allocators with caches for each thread do, at the first block of all: the loader may ask for that. */
static void set_up(void) {
  static int is_set_up;
  static pthread_key_t key;
  pthread_condattr_t attributes;
  if (__atomic_exchange_n(&is_set_up, 1, __ATOMIC_RELAXED)) return;
  pthread_condattr_init(&attributes);
  if (pthread_key_create(&key, free) || pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)) _exit(5);
}

void *malloc(size_t size) {
  set_up();
  size_t need = 16 + ((size + 15) & ~(size_t)15);
  size_t at = __atomic_fetch_add(&used, need, __ATOMIC_RELAXED);
  if (at + need > sizeof area) return NULL;
  memcpy(area + at, &size, sizeof size);
  return area + at + 16;
}
void free(void *block) { check(block); }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *block, size_t size) {
  check(block);
  void *moved = malloc(size);
  size_t before = block ? *(size_t *)((char *)block - 16) : 0;
  if (moved && block) memcpy(moved, block, before < size ? before : size);
  return moved;
}

#pragma weak free_sized
#pragma weak free_aligned_sized
void free_sized(void *, size_t);
void free_aligned_sized(void *, size_t, size_t);

int main(void) {
  char *block = malloc(10);
  strcpy(block, "kept");
  for (size_t size = 100; size < 200000; size *= 3) {
    block = reallocarray(block, size, 2);
    check(block);
    if (!block || strcmp(block, "kept") != 0) return 3;
  }
  if (reallocarray(NULL, 3, 5) == NULL || reallocarray(block, (size_t)-1, 2) != NULL) return 4;
  char *line = NULL;
  size_t size = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && getline(&line, &size, file) > 0) check(line);
  if (free_sized) free_sized(malloc(5), 5); /* this libc may lack both */
  if (free_aligned_sized) free_aligned_sized(malloc(64), 16, 64);
  printf("%s, %s\n", block, file != NULL ? "read" : "not read");
  free(line);
  return 0;
}
