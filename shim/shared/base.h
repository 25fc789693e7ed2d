/* What every file of the shim and of the watcher includes: the compiler's macros, and the rules that all files follow.
 *
 * Rules for the code that runs inside the program:
 * - It fails open: when something is missing, the program continues unrecorded and the loss is counted.
 * - From inside malloc or a signal handler, no Python function is called that takes the GIL, allocates or changes
 *   reference counts.
 * - No lock is taken that a signal handler or a forked child could wait for.
 * - Every interposed call is forwarded to the next symbol, and neither its result nor errno is changed.
 *
 * The comment of a prototype names the context that the function may run in. "Context: signal": in our signal handler,
 * inside malloc or in a vfork child, so it must be async-signal-safe, allocate nothing and use little stack.
 * "Context: malloc": inside an allocator, so it must neither allocate nor lock. "Context: normal": anywhere else.
 * tests/test_shim_rules.py checks the bodies. Reasons: docs/design/survival.md, docs/design/memory.md. */
#ifndef SCALENE_TRACE_BASE_H
#define SCALENE_TRACE_BASE_H

#if !defined(__x86_64__) || defined(__ILP32__) || !defined(__linux__)
#error "scalene-trace supports Linux on x86-64 only: it decodes call instructions and reads registers of that processor"
#endif

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The shim stands in front of memcpy: its own copies must not count as copies of the program. */
static inline void *shim_copy(void *to, const void *from, size_t size) {
  for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
  return to;
}
#define memcpy(to, from, size)                                                                                         \
  (__builtin_constant_p(size) ? __builtin_memcpy(to, from, size) : shim_copy(to, from, size))

#define EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define SLOW_PATH __attribute__((cold, noinline))
#define APART __attribute__((noinline)) /* so that its caller saves no register */
#define HOT __attribute__((hot))        /* what every allocation and free runs lies together */
#define THREAD_LOCAL __thread

/* Headers put their declarations between `#pragma GCC visibility push(hidden)` and `pop`: without it the compiler would
 * reach variables and functions of other files through the global offset table. */

#endif
