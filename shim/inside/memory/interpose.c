/* The exported malloc family. Each function forwards the call, returns the pointer of the allocator below unchanged,
 * and counts the size that this allocator has given. */
#include "inside/memory/memory.h"

#include "formats/spool/spool.h"
#include "inside/core/next.h"
#include "inside/accounts/live.h"
#include "inside/memory/sampler.h"
#include "shared/base.h"

/* Counts a block that one of Python's allocators has requested. */
static APART void *counted_for_python(void *block, size_t size, size_t usable, int source) {
  this_memory.python_outside_pools += (int64_t)usable;
  memory_count_allocated(&this_memory, PYTHON, block, size, usable, source);
  return block;
}

static SLOW_PATH void *stopped(void *block, size_t size, size_t usable, int source) {
  memory_stop_at_allocated(NATIVE, block, size, usable, source, usable);
  return block;
}

static inline void *counted_as(void *block, size_t size, size_t usable, int source) {
  if (unlikely(this_memory.python_depth)) return counted_for_python(block, size, usable, source);
  if (unlikely((this_memory.stream[NATIVE].left -= (int64_t)usable) < 0)) return stopped(block, size, usable, source);
  return block;
}

/* Returns the usable bytes of a block. Only libc knows the size of a block with its own mapping. */
static inline size_t bytes_of(void *block) {
  size_t head = memory_mode == MEMORY_COUNT_LIBC ? next_libc_head(block) : LIBC_MAPPED;
  return likely(!(head & LIBC_MAPPED)) ? next_libc_bytes(head) : next.malloc_usable_size(block);
}

static inline void *counted(void *block, size_t size, int source) {
  return likely(block != NULL) ? counted_as(block, size, bytes_of(block), source) : NULL;
}

/* Counts a block with its own mapping. */
static APART void *counted_mapped(void *block, size_t size, int source) { return counted(block, size, source); }

/* Counts a block of libc's own allocator (MEMORY_COUNT_LIBC). */
static inline void *counted_libc(void *block, size_t size, int source) {
  if (unlikely(!block)) return NULL;
  size_t head = next_libc_head(block);
  if (unlikely(head & LIBC_MAPPED)) return counted_mapped(block, size, source);
  return counted_as(block, size, next_libc_bytes(head), source);
}

/* Returns true while libc is not ready; blocks come from bootstrap_alloc then (next.c). */
static bool early(void) {
  if (unlikely(!next.resolved)) next_resolve();
  return !next.resolved;
}
#define IS_LIBC likely(memory_mode == MEMORY_COUNT_LIBC)

static APART void *malloc_otherwise(size_t size) {
  if (memory_counts()) return counted(next.malloc(size), size, ALLOC_MALLOC);
  return early() ? bootstrap_alloc(size, 16) : next.malloc(size);
}

EXPORT HOT void *malloc(size_t size) {
  if (!IS_LIBC) return malloc_otherwise(size);
  return counted_libc(next.malloc(size), size, ALLOC_MALLOC);
}

static APART void *calloc_otherwise(size_t count, size_t size) {
  size_t bytes;
  if (memory_counts()) return counted(next.calloc(count, size), count * size, ALLOC_CALLOC);
  if (!early()) return next.calloc(count, size);
  return __builtin_mul_overflow(count, size, &bytes) ? NULL : bootstrap_alloc(bytes, 16);
}

EXPORT HOT void *calloc(size_t count, size_t size) {
  if (!IS_LIBC) return calloc_otherwise(count, size);
  return counted_libc(next.calloc(count, size), count * size, ALLOC_CALLOC);
}

static APART void free_for_python(void *block, size_t usable) {
  this_memory.python_outside_pools -= (int64_t)usable;
  memory_count_freed(&this_memory, PYTHON, usable);
  next.free(block);
}

static SLOW_PATH void free_and_stop(void *block, size_t usable) {
  memory_stop_at_freed(NATIVE, usable);
  next.free(block);
}

static inline void free_counted(void *block, size_t usable) {
  if (unlikely(this_memory.python_depth)) {
    free_for_python(block, usable);
  } else if (unlikely((this_memory.stream[NATIVE].free_left -= (int64_t)usable) < 0)) {
    free_and_stop(block, usable);
  } else {
    next.free(block);
  }
}

/* Handles the cases that are rare in free: null pointers, calls before libc is ready, modes that do not count,
 * allocators other than libc's, blocks that may be followed, and blocks with their own mapping. */
static APART void free_otherwise(void *block) {
  if (!block || bootstrap_owns(block) || early()) return;
  if (!memory_counts()) {
    next.free(block);
    return;
  }
  size_t usable = next.malloc_usable_size(block);
  if (live_maybe(block)) sampler_freed((uintptr_t)block);
  free_counted(block, usable);
}

EXPORT HOT void free(void *block) {
  if (unlikely(!IS_LIBC || !block)) {
    free_otherwise(block);
    return;
  }
  size_t head = next_libc_head(block);
  if (unlikely((head & LIBC_MAPPED) || live_maybe(block))) { /* blocks of bootstrap_alloc look mapped, see next.c */
    free_otherwise(block);
    return;
  }
  free_counted(block, next_libc_bytes(head));
}

/* Counts a call of C23's free functions, which few programs call. Returns false if there is nothing to forward. */
static bool counted_free(void *block) {
  if (!block || bootstrap_owns(block) || early()) return false;
  if (!memory_counts()) return true;
  size_t usable = bytes_of(block);
  if (live_maybe(block)) sampler_freed((uintptr_t)block);
  int which = this_memory.python_depth ? PYTHON : NATIVE;
  if (which == PYTHON) this_memory.python_outside_pools -= (int64_t)usable;
  memory_count_freed(&this_memory, which, usable);
  return true;
}

/* Many versions of libc lack both functions. free does the same there: the program's, which may be its own. */
void free_sized(void *, size_t);
EXPORT void free_sized(void *block, size_t size) {
  next_ensure();
  if (!next.free_sized) {
    free(block);
    return;
  }
  if (!counted_free(block)) return;
  next.free_sized(block, size);
}

void free_aligned_sized(void *, size_t, size_t);
EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size) {
  next_ensure();
  if (!next.free_aligned_sized) {
    free(block);
    return;
  }
  if (!counted_free(block)) return;
  next.free_aligned_sized(block, alignment, size);
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

static inline void *count_resized(void *result, size_t size, size_t before, int source) {
  struct memory_state *m = &this_memory;
  size_t after = result ? bytes_of(result) : 0;
  int which = m->python_depth ? PYTHON : NATIVE;
  if (which == PYTHON) m->python_outside_pools += (int64_t)after - (int64_t)before;
  if (unlikely(!result)) {
    memory_count_freed(m, which, before);
  } else {
    memory_count_resized(m, which, result, size, before, after, source);
  }
  return result;
}

/* Stops following the block before the call: after it, another thread may have got the address already. */
static APART void *resize_maybe_followed(void *block, size_t size, int source) {
  struct live_sample sample;
  bool followed = sampler_take((uintptr_t)block, &sample);
  size_t before = bytes_of(block);
  void *result = next.realloc(block, size);
  bool failed = !result && size;
  if (followed && failed) sampler_put_back((uintptr_t)block, &sample);
  if (followed && !failed) sampler_resized(&sample, result != NULL);
  return failed ? NULL : count_resized(result, size, before, source);
}

static inline void *resize(void *block, size_t size, int source) {
  if (block && live_maybe(block)) return resize_maybe_followed(block, size, source);
  size_t before = block ? bytes_of(block) : 0;
  void *result = next.realloc(block, size);
  return unlikely(!result && size) ? NULL : count_resized(result, size, before, source);
}

EXPORT void *realloc(void *block, size_t size) {
  if (unlikely(!memory_counts() || bootstrap_owns(block))) return realloc_uncounted(block, size);
  return resize(block, size, ALLOC_REALLOC);
}

/* libc's reallocarray calls the program's realloc, which may be its own: then the block is not libc's. */
EXPORT void *reallocarray(void *block, size_t count, size_t size) {
  size_t bytes;
  if (unlikely(next.foreign_allocator)) return next.reallocarray(block, count, size);
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  if (unlikely(!memory_counts() || bootstrap_owns(block))) return realloc_uncounted(block, bytes);
  return resize(block, bytes, ALLOC_REALLOCARRAY);
}

/* `aligned` points to a member of `next`, because early() may fill that member. */
static SLOW_PATH void *aligned_uncounted(void *(**aligned)(size_t, size_t), size_t alignment, size_t size) {
  return early() ? bootstrap_alloc(size, alignment) : (*aligned)(alignment, size);
}

EXPORT void *memalign(size_t alignment, size_t size) {
  if (!memory_counts()) return aligned_uncounted(&next.memalign, alignment, size);
  return counted(next.memalign(alignment, size), size, ALLOC_MEMALIGN);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
  if (!memory_counts()) return aligned_uncounted(&next.aligned_alloc, alignment, size);
  return counted(next.aligned_alloc(alignment, size), size, ALLOC_ALIGNED_ALLOC);
}

static SLOW_PATH int posix_memalign_early(void **out, size_t alignment, size_t size) {
  void *block = bootstrap_alloc(size, alignment);
  if (block) *out = block;
  return block ? 0 : ENOMEM;
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size) {
  if (!memory_counts() && early()) return posix_memalign_early(out, alignment, size);
  int error = next.posix_memalign(out, alignment, size);
  if (!error && memory_counts()) counted(*out, size, ALLOC_POSIX_MEMALIGN);
  return error;
}

EXPORT void *valloc(size_t size) {
  if (!memory_counts() && early()) return bootstrap_alloc(size, 4096);
  return memory_counts() ? counted(next.valloc(size), size, ALLOC_VALLOC) : next.valloc(size);
}

EXPORT void *pvalloc(size_t size) {
  if (!memory_counts() && early()) return bootstrap_alloc((size + 4095) & ~(size_t)4095, 4096);
  return memory_counts() ? counted(next.pvalloc(size), size, ALLOC_PVALLOC) : next.pvalloc(size);
}
