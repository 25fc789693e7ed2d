/* The exported malloc family. Sizes are what the allocator below says it gave; the pointer is its own. */
#include "shim.h"

#include <string.h>

static inline void *counted(void *block) {
  if (likely(block != NULL)) memory_count_allocated(next.malloc_usable_size(block));
  return block;
}

/* Not counting: either libc is not ready (bootstrap blocks, see next.c) or memory is not recorded. */
static SLOW_PATH bool early(void) {
  next_resolve();
  return !next.resolved;
}
#define COUNTING likely(memory_mode == MEMORY_COUNT)

static SLOW_PATH void *malloc_uncounted(size_t size) { return early() ? bootstrap_alloc(size, 16) : next.malloc(size); }

EXPORT void *malloc(size_t size) {
  if (!COUNTING) return malloc_uncounted(size);
  return counted(next.malloc(size));
}

static SLOW_PATH void *calloc_uncounted(size_t count, size_t size) {
  size_t bytes;
  if (!early()) return next.calloc(count, size);
  return __builtin_mul_overflow(count, size, &bytes) ? NULL : bootstrap_alloc(bytes, 16);
}

EXPORT void *calloc(size_t count, size_t size) {
  if (!COUNTING) return calloc_uncounted(count, size);
  return counted(next.calloc(count, size));
}

static SLOW_PATH void free_uncounted(void *block) {
  if (block && !early() && !bootstrap_owns(block)) next.free(block);
}

EXPORT void free(void *block) {
  if (unlikely(!COUNTING || !block || bootstrap_owns(block))) {
    free_uncounted(block);
    return;
  }
  memory_count_freed(next.malloc_usable_size(block));
  next.free(block);
}

static SLOW_PATH void *move_from_bootstrap(void *block, size_t size) {
  size_t before = bootstrap_size(block);
  void *moved = malloc(size);
  if (moved) memcpy(moved, block, before < size ? before : size);
  return moved;
}

static SLOW_PATH void *realloc_uncounted(void *block, size_t size) {
  if (bootstrap_owns(block)) return move_from_bootstrap(block, size);
  return early() ? bootstrap_alloc(size, 16) : next.realloc(block, size);
}

static void count_resized(size_t before, size_t after) {
  if (after > before) memory_count_allocated(after - before);
  if (after < before) memory_count_freed(before - after);
}

EXPORT void *realloc(void *block, size_t size) {
  if (unlikely(!COUNTING || bootstrap_owns(block))) return realloc_uncounted(block, size);
  size_t before = block ? next.malloc_usable_size(block) : 0;
  void *result = next.realloc(block, size);
  if (result) {
    count_resized(before, next.malloc_usable_size(result));
  } else if (size == 0) {
    count_resized(before, 0);
  }
  return result;
}

EXPORT void *reallocarray(void *block, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  return realloc(block, bytes);
}

/* aligned: a member of `next`, which may be filled only by early(). */
static SLOW_PATH void *aligned_uncounted(void *(**aligned)(size_t, size_t), size_t alignment, size_t size) {
  return early() ? bootstrap_alloc(size, alignment) : (*aligned)(alignment, size);
}

EXPORT void *memalign(size_t alignment, size_t size) {
  if (!COUNTING) return aligned_uncounted(&next.memalign, alignment, size);
  return counted(next.memalign(alignment, size));
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
  if (!COUNTING) return aligned_uncounted(&next.aligned_alloc, alignment, size);
  return counted(next.aligned_alloc(alignment, size));
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size) {
  if (!COUNTING && early()) return (*out = bootstrap_alloc(size, alignment)) ? 0 : ENOMEM;
  int error = next.posix_memalign(out, alignment, size);
  if (!error && COUNTING) counted(*out);
  return error;
}

EXPORT void *valloc(size_t size) {
  if (!COUNTING && early()) return bootstrap_alloc(size, 4096);
  return COUNTING ? counted(next.valloc(size)) : next.valloc(size);
}

EXPORT void *pvalloc(size_t size) {
  if (!COUNTING && early()) return bootstrap_alloc((size + 4095) & ~(size_t)4095, 4096);
  return COUNTING ? counted(next.pvalloc(size)) : next.pvalloc(size);
}
