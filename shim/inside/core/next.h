/* The functions of libc that ours stand in front of. */
#ifndef SCALENE_TRACE_CORE_NEXT_H
#define SCALENE_TRACE_CORE_NEXT_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/types.h>
#include <threads.h>
#include <time.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* One pointer per line of interposed.h. Null only before next_resolve() and for what libc lacks. */
struct next_functions {
#define INTERPOSED(result, name, arguments) result(*name) arguments;
#include "inside/core/interposed.h"
#undef INTERPOSED
  bool resolved;
};
extern struct next_functions next;
/* Fills `next` by dlsym(RTLD_NEXT). Idempotent. Context: malloc (the loader may allocate: served by bootstrap). */
void next_resolve(void);
static inline void next_ensure(void) {
  if (unlikely(!next.resolved)) next_resolve();
}
/* Allocations that arrive while next_resolve() runs. Context: malloc. */
void *bootstrap_alloc(size_t size, size_t alignment);
#define BOOTSTRAP_BYTES 65536
extern char bootstrap[BOOTSTRAP_BYTES];
static inline bool bootstrap_owns(const void *block) {
  return (uintptr_t)block - (uintptr_t)bootstrap < BOOTSTRAP_BYTES;
}
size_t bootstrap_size(const void *block);
/* What glibc's allocator writes in front of a block that it hands out (its malloc.c, struct malloc_chunk): the size of
 * the chunk, with flags in its three lowest bits. */
#define LIBC_MAPPED ((size_t)2) /* it has a mapping of its own: then other rules hold */
static inline size_t next_libc_head(const void *block) {
  return __atomic_load_n((const size_t *)block - 1, __ATOMIC_RELAXED); /* flags of it are its neighbours' to change */
}
static inline size_t next_libc_bytes(size_t head) { return (head & ~(size_t)7) - sizeof head; }
/* Does the address lie in the library that malloc comes from, where that is not libc, or in ours? Context: malloc. */
bool next_is_allocators(const void *address);
/* Does libc's own allocator hand out malloc's blocks, with their sizes in front (memory_mode)? Context: normal. */
bool next_has_libc_headers(void);

/* What our malloc family does: before libc is ready, forwarding only, counting, and counting blocks of libc's own
 * allocator, whose sizes stand in front of them. next_resolve() ends the first; memory_init() begins to count. */
enum memory_mode { MEMORY_EARLY, MEMORY_FORWARD, MEMORY_COUNT, MEMORY_COUNT_LIBC };
extern enum memory_mode memory_mode;
static inline bool memory_counts(void) { return likely(memory_mode >= MEMORY_COUNT); }

#pragma GCC visibility pop

#endif
