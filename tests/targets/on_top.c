/* A library that is preloaded before all others, as profilers are. Its malloc calls libc when it is called first, and its
 * constructor puts allocators around Python's. on_top() does so again wherever another allocator is on top. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>

struct allocator {
  void *context;
  void *(*malloc)(void *, size_t);
  void *(*calloc)(void *, size_t, size_t);
  void *(*realloc)(void *, void *, size_t);
  void (*free)(void *, void *);
};
typedef void access_function(int, struct allocator *);

enum { MEM = 1, OBJ, DOMAINS };
static struct allocator before[DOMAINS];

void *__libc_malloc(size_t);

void *malloc(size_t size) {
  static int is_set_up;
  if (!__atomic_exchange_n(&is_set_up, 1, __ATOMIC_RELAXED)) signal(SIGXCPU, SIG_IGN);
  return __libc_malloc(size);
}

#define OWN(domain)                                                                                                    \
  static void *malloc_##domain(void *context, size_t size) {                                                           \
    return context = before[domain].context, before[domain].malloc(context, size);                                     \
  }                                                                                                                    \
  static void *calloc_##domain(void *context, size_t count, size_t size) {                                             \
    return context = before[domain].context, before[domain].calloc(context, count, size);                              \
  }                                                                                                                    \
  static void *realloc_##domain(void *context, void *block, size_t size) {                                             \
    return context = before[domain].context, before[domain].realloc(context, block, size);                             \
  }                                                                                                                    \
  static void free_##domain(void *context, void *block) {                                                              \
    context = before[domain].context, before[domain].free(context, block);                                             \
  }
OWN(MEM)
OWN(OBJ)

__attribute__((constructor)) void on_top(void) {
  struct allocator own[DOMAINS] = {[MEM] = {NULL, malloc_MEM, calloc_MEM, realloc_MEM, free_MEM},
                                   [OBJ] = {NULL, malloc_OBJ, calloc_OBJ, realloc_OBJ, free_OBJ}};
  access_function *get = (access_function *)dlsym(RTLD_DEFAULT, "PyMem_GetAllocator");
  access_function *set = (access_function *)dlsym(RTLD_DEFAULT, "PyMem_SetAllocator");
  for (int domain = MEM; get && set && domain < DOMAINS; domain++) {
    struct allocator now;
    get(domain, &now);
    if (now.malloc == own[domain].malloc) continue;
    before[domain] = now;
    set(domain, &own[domain]);
  }
}
