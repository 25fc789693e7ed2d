/* The common header of the shim and the watcher: macros for the compiler, and the rules that all files follow.
 *
 * Rules of the code that runs inside the program:
 * - It fails open: if something is missing, the program continues unrecorded and the loss is counted.
 * - From inside malloc or a signal handler, no Python function is called that takes the GIL, allocates or changes
 *   reference counts.
 * - No lock is taken that a signal handler or a forked child could wait for.
 * - Every interposed call is forwarded to the next symbol, and neither its result nor errno is changed.
 *
 * The comment of a prototype names the context that the function may run in. "Context: signal": in our signal handler,
 * inside malloc or in a vfork child, so it must be async-signal-safe, allocate nothing and use little stack.
 * "Context: malloc": inside an allocator, so it must neither allocate nor lock. "Context: normal": anywhere else. Tests
 * check the bodies of the functions against these contexts. Reasons: docs/design/survival.md, docs/design/memory.md. */
#ifndef SCALENE_TRACE_BASE_H
#define SCALENE_TRACE_BASE_H

/* First, since it refuses other processors, and since it defines _GNU_SOURCE. */
#include "shared/arch/arch.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shared/libc/musl.h"
#include "shared/sealed/lasting.h"

/* The shim interposes memcpy, so its own copies would be counted as copies of the program. Copies of a constant size
 * become inline instructions; for the others, shim_copy copies byte by byte. `volatile` keeps the compiler from turning
 * its loop into a call of memcpy. */
static inline void *shim_copy(void *to, const void *from, size_t size) {
  for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
  return to;
}
#define memcpy(to, from, size)                                                                                         \
  (__builtin_constant_p(size) ? __builtin_memcpy(to, from, size) : shim_copy(to, from, size))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define SLOW_PATH __attribute__((cold, noinline))
#define APART __attribute__((noinline)) /* not inlined, so that its caller need not save registers */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define HOT __attribute__((hot)) /* code of every allocation and free: the linker places it together */
#define THREAD_LOCAL __thread

/* Headers put their declarations between `#pragma GCC visibility push(hidden)` and `pop`. Without it, the compiler
 * would access variables and functions of other files through the global offset table. */

#endif
