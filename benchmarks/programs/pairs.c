/* Loops over allocators and copies, timed. A library for pairs.py. Compiled so that no call is left out or inlined. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *volatile keep;

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* Nanoseconds for a pair of malloc and free of `size` bytes, mean of `count`. */
double malloc_pair_ns(size_t size, long count) {
  double start = now_ns();
  for (long i = 0; i < count; i++) {
    keep = malloc(size);
    free(keep);
  }
  return (now_ns() - start) / (double)count;
}

/* The same for Python's object allocator, whose two functions are given. The caller holds the GIL. */
double object_pair_ns(void *(*allocate)(size_t), void (*release)(void *), size_t size, long count) {
  double start = now_ns();
  for (long i = 0; i < count; i++) {
    keep = allocate(size);
    release(keep);
  }
  return (now_ns() - start) / (double)count;
}

/* Nanoseconds for a memcpy of `size` bytes (up to 64 KiB), mean of `count`. */
double memcpy_ns(size_t size, long count) {
  static char from[1 << 16], to[1 << 16];
  double start = now_ns();
  for (long i = 0; i < count; i++) keep = memcpy(to, from, size);
  return (now_ns() - start) / (double)count;
}
