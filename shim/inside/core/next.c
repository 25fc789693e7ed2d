/* Looks up the libc functions that the shim interposes, and serves the memory that the loader requests during the
 * lookup. */
#include "inside/core/next.h"

#include <dlfcn.h>
#include <link.h>

#include "shared/base.h"
#include "shared/loss.h"
#include "shared/valgrind.h"

LASTING _Alignas(64) struct next_functions next;
LASTING enum memory_mode memory_mode;

/* Programs allocate before any constructor has run, and dlsym itself may allocate: these blocks come from `bootstrap`.
 * In front of each block stands the header that glibc writes for a block with its own mapping. So free() takes its slow
 * path, which recognizes the block, and malloc_usable_size() returns the right size. */
_Alignas(64) char bootstrap[BOOTSTRAP_BYTES];
static _Atomic size_t bootstrap_used;
static _Atomic int resolving;

void *bootstrap_alloc(size_t size, size_t alignment) {
  bool fits = size <= BOOTSTRAP_BYTES && alignment <= 4096;
  size = (size + 7) & ~(size_t)7;
  size_t head = (size + 16) | LIBC_MAPPED, need = sizeof head + alignment + size;
  size_t at = atomic_fetch_add(&bootstrap_used, fits && need <= BOOTSTRAP_BYTES ? need : 0);
  if (!fits || at + need > BOOTSTRAP_BYTES) {
    loss_add(LOSS_bootstrap_exhausted);
    errno = ENOMEM;
    return NULL;
  }
  uintptr_t block = (uintptr_t)bootstrap + at + sizeof head;
  block = (block + alignment - 1) & ~(uintptr_t)(alignment - 1);
  memcpy((void *)(block - sizeof head), &head, sizeof head);
  return (void *)block;
}

size_t bootstrap_size(const void *block) { return (next_libc_head(block) & ~(size_t)7) - 16; }

/* If malloc and malloc_usable_size come from different libraries, malloc_usable_size would read garbage. Sizes are
 * unknown then. */
static void check_same_owner(void) {
  Dl_info allocator, measure;
  if (!dladdr((void *)next.malloc, &allocator) || !dladdr((void *)next.malloc_usable_size, &measure) ||
      allocator.dli_fbase != measure.dli_fbase) {
    next.malloc_usable_size = NULL;
  }
}

/* Trust the sizes in front of blocks only if they agree with malloc_usable_size. No probe is large enough to get its
 * own mapping, because freeing such a block would raise libc's threshold for mappings. Valgrind replaces libc's malloc
 * without changing its symbols, and under it the bytes in front of a block must not be read. */
bool next_has_libc_headers(void) {
  static const size_t probes[] = {1, 24, 25, 200, 1000, 3000};
  enum { PROBES = sizeof probes / sizeof *probes };
  Dl_info allocator, libc;
  void *version = dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), *blocks[PROBES];
  bool agree = version && dladdr(version, &libc) && dladdr((void *)next.malloc, &allocator) &&
               libc.dli_fbase == allocator.dli_fbase && sizeof(size_t) == 8 && !under_valgrind();
  if (!agree) return false;
  for (size_t i = 0; i < PROBES; i++) {
    void *block = blocks[i] = next.malloc(probes[i]);
    agree = agree && block && !(next_libc_head(block) & LIBC_MAPPED) &&
            next_libc_bytes(next_libc_head(block)) == next.malloc_usable_size(block);
  }
  for (size_t i = 0; i < PROBES; i++) next.free(blocks[i]);
  return agree;
}

/* ---- callers inside the allocator or the shim ---- */

struct span {
  uintptr_t start, end;
};
static LASTING struct span allocators, own;
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

#ifndef EXPORTED_PREFIX /* a test gives the exported functions other names */
#define EXPORTED_PREFIX ""
#endif

/* True if the program's calls of `name` arrive elsewhere than in the shim. An executable at a fixed address may list a
 * function that it only calls, with the address of its own jump to it; such a symbol is undefined. */
static bool is_foreign(const char *name) {
  Dl_info image;
  const ElfW(Sym) *symbol = NULL;
  void *found = dlsym(RTLD_DEFAULT, name);
  if (!found || lies_in((uintptr_t)found, own)) return false;
  return !dladdr1(found, &image, (void **)&symbol, RTLD_DL_SYMENT) || !symbol || symbol->st_shndx != SHN_UNDEF;
}

/* libc's own allocator calls libc's internal mmap, which the shim does not see. Other mappings by libc are recognized
 * by the caller's address. */
static void find_own_callers(void) {
  own = (struct span){(uintptr_t)__ehdr_start, (uintptr_t)_end};
  dl_iterate_phdr(find_allocators, NULL);
}

/* Old programs call memcpy with overlapping memory, which its first version in glibc allowed. The shim exports one
 * memcpy for both versions, so it forwards to memmove. */
static void allow_overlap(void) {
  if (next.memmove) next.memcpy = next.memmove;
}

/* Resolvers of indirect functions may call the shim before the loader has relocated it. Then nothing that goes through
 * the global offset table can be used, and thread-local variables are at another address. */
static void *volatile const relocated = &next;

void next_resolve(void) {
  if (relocated != (void *)&next) return;
  if (atomic_exchange(&resolving, 1)) return;
  int saved_errno = errno;
#define INTERPOSED(result, name, arguments) next.name = (__typeof__(next.name))dlsym(RTLD_NEXT, #name);
#include "inside/core/interposed.h"
#undef INTERPOSED
  if (next.malloc && next.malloc_usable_size) check_same_owner();
  allow_overlap();
  find_own_callers();
  next.foreign_allocator = is_foreign(EXPORTED_PREFIX "malloc") || is_foreign(EXPORTED_PREFIX "realloc") ||
                           is_foreign(EXPORTED_PREFIX "free");
  next.resolved = true;
  if (memory_mode == MEMORY_EARLY) memory_mode = MEMORY_FORWARD;
  errno = saved_errno;
}
