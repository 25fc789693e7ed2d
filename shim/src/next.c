/* The functions that ours stand in front of, and the memory that the loader asks for while we look them up. */
#include "shim.h"

#include <dlfcn.h>
#include <link.h>
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

/* ---- whose calls are not the program's ---- */

struct span {
  uintptr_t start, end;
};
static struct span allocators, own;
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static int find_allocators(struct dl_phdr_info *image, size_t size, void *unused) {
  (void)size, (void)unused;
  struct span found = {~(uintptr_t)0, 0};
  for (int i = 0; i < image->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &image->dlpi_phdr[i];
    uintptr_t start = image->dlpi_addr + segment->p_vaddr, end = start + segment->p_memsz;
    if (segment->p_type != PT_LOAD) continue;
    if (start < found.start) found.start = start;
    if (end > found.end) found.end = end;
  }
  if ((uintptr_t)next.malloc < found.start || (uintptr_t)next.malloc >= found.end) return 0;
  allocators = found;
  return 1;
}

static bool lies_in(uintptr_t address, struct span span) { return address >= span.start && address < span.end; }

bool next_is_allocators(const void *address) {
  return lies_in((uintptr_t)address, allocators) || lies_in((uintptr_t)address, own);
}

/* libc's own allocator maps its memory without passing here; what else libc maps is told by the caller's address too. */
static void find_own_callers(void) {
  own = (struct span){(uintptr_t)__ehdr_start, (uintptr_t)_end};
  dl_iterate_phdr(find_allocators, NULL);
}

/* Old programs call memcpy where memory overlaps, which its first version allowed; here both are one function. */
static void allow_overlap(void) {
#if defined(__x86_64__)
  if (next.memmove) next.memcpy = next.memmove;
#endif
}

/* Resolvers of indirect functions may call us before the loader has relocated us: then nothing that goes through the
 * global offset table can be used, and thread-local variables are somewhere else. */
static void *volatile const relocated = &next;

void next_resolve(void) {
  if (relocated != (void *)&next) return;
  if (atomic_exchange(&resolving, 1)) return;
  int saved_errno = errno;
#define INTERPOSED(result, name, arguments) next.name = (__typeof__(next.name))dlsym(RTLD_NEXT, #name);
#include "interposed.h"
#undef INTERPOSED
  if (next.malloc && next.malloc_usable_size) check_same_owner();
  allow_overlap();
  find_own_callers();
  next.resolved = true;
  if (memory_mode == MEMORY_EARLY) memory_mode = MEMORY_FORWARD;
  errno = saved_errno;
}
