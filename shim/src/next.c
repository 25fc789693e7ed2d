/* The functions that ours stand in front of, and the memory that the loader asks for while we look them up. */
#include "shim.h"

#include <dlfcn.h>
#include <string.h>

struct next_functions next;

/* Programs allocate before any constructor has run, and dlsym itself may: those blocks come from here. */
_Alignas(64) char bootstrap[BOOTSTRAP_BYTES];
static _Atomic size_t bootstrap_used;
static _Atomic int resolving;

void *bootstrap_alloc(size_t size, size_t alignment) {
  size_t need = sizeof(size_t) + alignment + size;
  if (size > BOOTSTRAP_BYTES || alignment > 4096) need = BOOTSTRAP_BYTES + 1;
  size_t at = atomic_fetch_add(&bootstrap_used, need <= BOOTSTRAP_BYTES ? need : 0);
  if (need > BOOTSTRAP_BYTES || at + need > BOOTSTRAP_BYTES) {
    loss_add(LOSS_bootstrap_exhausted);
    errno = ENOMEM;
    return NULL;
  }
  uintptr_t block = (uintptr_t)bootstrap + at + sizeof(size_t);
  block = (block + alignment - 1) & ~(uintptr_t)(alignment - 1);
  memcpy((void *)(block - sizeof(size_t)), &size, sizeof size);
  return (void *)block;
}

size_t bootstrap_size(const void *block) {
  size_t size;
  memcpy(&size, (const char *)block - sizeof size, sizeof size);
  return size;
}

/* malloc_usable_size of another allocator than malloc's would read garbage: then sizes are unknown. */
static void check_same_owner(void) {
  Dl_info allocator, measure;
  if (!dladdr((void *)next.malloc, &allocator) || !dladdr((void *)next.malloc_usable_size, &measure) ||
      allocator.dli_fbase != measure.dli_fbase) {
    next.malloc_usable_size = NULL;
  }
}

void next_resolve(void) {
  if (atomic_exchange(&resolving, 1)) return;
  int saved_errno = errno;
#define INTERPOSED(result, name, arguments) next.name = (__typeof__(next.name))dlsym(RTLD_NEXT, #name);
#include "interposed.h"
#undef INTERPOSED
  if (next.malloc && next.malloc_usable_size) check_same_owner();
  next.resolved = true;
  if (memory_mode == MEMORY_EARLY) memory_mode = MEMORY_FORWARD;
  errno = saved_errno;
}
