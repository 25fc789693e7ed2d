/* Whether the process is sealed: the shim makes no system call in it, because the program has set a seccomp filter that
 * may kill it for one. */
#ifndef SCALENE_TRACE_SEALED_SEALED_H
#define SCALENE_TRACE_SEALED_SEALED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define SEAL_PROCESS 1
#define SEAL_FOR_GOOD 2       /* the filter is in force */
#define SEAL_VFORK_CHILDREN 4 /* a vfork child has set a filter; a flag of its thread says which one */
extern _Atomic uint32_t seal_bits;

/* The slow path of sealed(). Context: signal. */
bool seal_holds(void);
/* True if the shim must make no system call. Context: signal. */
static inline bool sealed(void) {
  return __builtin_expect(atomic_load_explicit(&seal_bits, memory_order_relaxed) != 0, 0) && seal_holds();
}
/* Sections in which the shim makes system calls. The thread that seals the process waits until all are left. A section
 * must ask sealed() after it was entered, and is left with the value that seal_enter has returned. */
extern _Atomic uint32_t seal_sections, seal_generation;
#ifdef SHIM_ATTACHED
extern __thread uint32_t seal_depth; /* sections that the calling thread is in */
#endif
/* Enters a section. Context: signal. */
static inline uint32_t seal_enter(void) {
#ifdef SHIM_ATTACHED
  seal_depth++;
#endif
  uint32_t generation = atomic_load_explicit(&seal_generation, memory_order_relaxed);
  atomic_fetch_add(&seal_sections, 1);
  return generation;
}
/* Leaves it. Sections that the parent of this process had entered do not count. Context: signal. */
static inline void seal_leave(uint32_t generation) {
#ifdef SHIM_ATTACHED
  seal_depth--;
#endif
  if (generation == atomic_load_explicit(&seal_generation, memory_order_relaxed)) atomic_fetch_sub(&seal_sections, 1);
}
/* Forgets the sections of a forked child's parent. Context: signal. */
void seal_postfork_child(void);
/* True while a filter is being set, and in the vfork child that has set one: recording may continue later.
 * Context: signal. */
bool seal_may_end(void);
/* True if a filter is in force, for the process or for this vfork child. Context: signal. */
bool seal_is_in_force(void);
/* Seals the process before a filter is set, or undoes that after the filter was refused. Context: normal. */
void seal_process(bool begin);
/* Keeps the process sealed until it ends: the filter is in force. Context: normal. */
void seal_for_good(void);
/* Seals a vfork child, whose memory is its parent's, or undoes that. The thread that the child runs on has the flag.
 * Context: signal. */
void seal_vfork_child(bool begin);
/* Before a vfork child execs or ends: takes the flag from the thread; returns whether it had it. Context: signal. */
bool seal_end_vfork_child(void);

#pragma GCC visibility pop

#endif
