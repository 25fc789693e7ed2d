/* The exported malloc family. Sizes are what the allocator below says it gave; the pointer is its own. */
#include "shim.h"

#include <string.h>

/* Inside one of Python's allocators. */
static __attribute__((noinline)) void *counted_for_python(void *block, size_t size, size_t usable, int source) {
  this_memory.python_outside_pools += (int64_t)usable;
  memory_count_allocated(&this_memory, PYTHON, block, size, usable, source);
  return block;
}

static inline void *counted(void *block, size_t size, int source) {
  struct memory_state *m = &this_memory;
  if (unlikely(!block)) return NULL;
  size_t usable = next.malloc_usable_size(block);
  if (unlikely(m->python_depth)) return counted_for_python(block, size, usable, source);
  memory_count_allocated(m, NATIVE, block, size, usable, source);
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
  return counted(next.malloc(size), size, ALLOC_MALLOC);
}

static SLOW_PATH void *calloc_uncounted(size_t count, size_t size) {
  size_t bytes;
  if (!early()) return next.calloc(count, size);
  return __builtin_mul_overflow(count, size, &bytes) ? NULL : bootstrap_alloc(bytes, 16);
}

EXPORT void *calloc(size_t count, size_t size) {
  if (!COUNTING) return calloc_uncounted(count, size);
  return counted(next.calloc(count, size), count * size, ALLOC_CALLOC);
}

static SLOW_PATH void free_uncounted(void *block) {
  if (block && !early() && !bootstrap_owns(block)) next.free(block);
}

static __attribute__((noinline)) void free_for_python(void *block, size_t usable) {
  this_memory.python_outside_pools -= (int64_t)usable;
  memory_count_freed(&this_memory, PYTHON, usable);
  next.free(block);
}

EXPORT void free(void *block) {
  if (unlikely(!COUNTING || !block || bootstrap_owns(block))) {
    free_uncounted(block);
    return;
  }
  struct memory_state *m = &this_memory;
  size_t usable = next.malloc_usable_size(block);
  if (live_maybe(block)) sampler_freed((uintptr_t)block);
  if (unlikely(m->python_depth)) {
    free_for_python(block, usable);
    return;
  }
  memory_count_freed(m, NATIVE, usable);
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

/* A followed block is taken out before the call: after it, its address may be somebody else's already. */
static inline void *resize(void *block, size_t size, int source) {
  struct memory_state *m = &this_memory;
  struct live_sample sample;
  bool followed = block && live_maybe(block) && sampler_take((uintptr_t)block, &sample);
  size_t before = block ? next.malloc_usable_size(block) : 0;
  void *result = next.realloc(block, size);
  if (unlikely(!result && size)) {
    if (followed) sampler_put_back((uintptr_t)block, &sample);
    return NULL;
  }
  if (followed) sampler_resized(&sample, result != NULL);
  size_t after = result ? next.malloc_usable_size(result) : 0;
  int which = m->python_depth ? PYTHON : NATIVE;
  if (which == PYTHON) m->python_outside_pools += (int64_t)after - (int64_t)before;
  if (result) {
    memory_count_resized(m, which, result, size, before, after, source);
  } else {
    memory_count_freed(m, which, before);
  }
  return result;
}

EXPORT void *realloc(void *block, size_t size) {
  if (unlikely(!COUNTING || bootstrap_owns(block))) return realloc_uncounted(block, size);
  return resize(block, size, ALLOC_REALLOC);
}

EXPORT void *reallocarray(void *block, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  if (unlikely(!COUNTING || bootstrap_owns(block))) return realloc_uncounted(block, bytes);
  return resize(block, bytes, ALLOC_REALLOCARRAY);
}

/* aligned: a member of `next`, which may be filled only by early(). */
static SLOW_PATH void *aligned_uncounted(void *(**aligned)(size_t, size_t), size_t alignment, size_t size) {
  return early() ? bootstrap_alloc(size, alignment) : (*aligned)(alignment, size);
}

EXPORT void *memalign(size_t alignment, size_t size) {
  if (!COUNTING) return aligned_uncounted(&next.memalign, alignment, size);
  return counted(next.memalign(alignment, size), size, ALLOC_MEMALIGN);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
  if (!COUNTING) return aligned_uncounted(&next.aligned_alloc, alignment, size);
  return counted(next.aligned_alloc(alignment, size), size, ALLOC_ALIGNED_ALLOC);
}

static SLOW_PATH int posix_memalign_early(void **out, size_t alignment, size_t size) {
  void *block = bootstrap_alloc(size, alignment);
  if (block) *out = block;
  return block ? 0 : ENOMEM;
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size) {
  if (!COUNTING && early()) return posix_memalign_early(out, alignment, size);
  int error = next.posix_memalign(out, alignment, size);
  if (!error && COUNTING) counted(*out, size, ALLOC_POSIX_MEMALIGN);
  return error;
}

EXPORT void *valloc(size_t size) {
  if (!COUNTING && early()) return bootstrap_alloc(size, 4096);
  return COUNTING ? counted(next.valloc(size), size, ALLOC_VALLOC) : next.valloc(size);
}

EXPORT void *pvalloc(size_t size) {
  if (!COUNTING && early()) return bootstrap_alloc((size + 4095) & ~(size_t)4095, 4096);
  return COUNTING ? counted(next.pvalloc(size), size, ALLOC_PVALLOC) : next.pvalloc(size);
}
