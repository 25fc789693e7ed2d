/* The libc functions that the shim interposes ("next" because the symbol lookup continues behind the shim), and what is
 * known of the allocator that they lead to. */
#ifndef SCALENE_TRACE_CORE_NEXT_H
#define SCALENE_TRACE_CORE_NEXT_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* One pointer per entry of interposed.h. Null before next_resolve(), and for functions that this libc lacks. */
struct next_functions {
#define INTERPOSED(result, name, arguments) result(*name) arguments;
#include "inside/core/interposed.h"
#undef INTERPOSED
  bool resolved;
  bool foreign_allocator; /* the executable, or a library before the shim, has a malloc, realloc or free of its own */
};
extern struct next_functions next;
/* Fills `next` by dlsym(RTLD_NEXT). Later calls, and calls while one runs, do nothing. The loader may allocate
 * meanwhile; bootstrap_alloc serves it. Context: malloc. */
void next_resolve(void);
/* Fills `next` unless that has happened. Exported functions call it before they use `next`. */
static inline void next_ensure(void) {
  if (unlikely(!next.resolved)) next_resolve();
}
/* Returns a zeroed block for an allocation that arrives before next_resolve() is done; null = the bootstrap area is
 * full (counted, errno = ENOMEM). Context: malloc. */
void *bootstrap_alloc(size_t size, size_t alignment);
#define BOOTSTRAP_BYTES 65536
extern char bootstrap[BOOTSTRAP_BYTES];
/* True for a block of bootstrap_alloc. Such a block is never freed. */
static inline bool bootstrap_owns(const void *block) {
  return (uintptr_t)block - (uintptr_t)bootstrap < BOOTSTRAP_BYTES;
}
/* Returns the bytes of a block of bootstrap_alloc. */
size_t bootstrap_size(const void *block);
/* The header that glibc's allocator writes in front of each block (struct malloc_chunk in its malloc.c): the size of
 * the chunk, with flags in the three lowest bits. */
#define LIBC_MAPPED ((size_t)2) /* flag: the block has its own mapping, and its size follows other rules */
/* Returns the header in front of a block. The load is atomic because neighbouring blocks change flags in it. */
static inline size_t next_libc_head(const void *block) {
  return __atomic_load_n((const size_t *)block - 1, __ATOMIC_RELAXED);
}
/* Returns the usable bytes of a block with that header, for blocks without their own mapping. */
static inline size_t next_libc_bytes(size_t head) { return (head & ~(size_t)7) - sizeof head; }
/* True if the address lies in the library that defines malloc, or in the shim. Context: malloc. */
bool next_is_allocators(const void *address);
/* True if libc's own allocator serves malloc and writes sizes in front of its blocks, as MEMORY_COUNT_LIBC requires.
 * Context: normal. */
bool next_has_libc_headers(void);

/* What the interposed malloc family does. next_resolve() ends MEMORY_EARLY, and memory_init() starts the counting. */
enum memory_mode {
  MEMORY_EARLY,     /* libc is not ready: blocks come from bootstrap_alloc */
  MEMORY_FORWARD,   /* calls are only forwarded */
  MEMORY_COUNT,     /* blocks are counted with malloc_usable_size */
  MEMORY_COUNT_LIBC /* blocks are counted with the size that libc's own allocator writes in front of them */
};
extern enum memory_mode memory_mode;
/* True if allocations are counted. */
static inline bool memory_counts(void) { return likely(memory_mode >= MEMORY_COUNT); }

#pragma GCC visibility pop

#endif
