/* Detection of forked children: a child of fork, _Fork or raw clone gets its own process id in the spool before it
 * records anything. */
#ifndef SCALENE_TRACE_CORE_FORK_H
#define SCALENE_TRACE_CORE_FORK_H

#include <sys/types.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Registers `in_child`, which is called in each forked child before anything else is recorded there. Called once, at
 * load. Context: normal. */
void fork_watch(void (*in_child)(void));
/* Makes the calling process the one that the spool knows: at load, and in a forked child that is recorded.
 * Context: signal. */
void fork_begin_process(void);
/* Returns the process id that fork_begin_process stored. Context: signal. */
pid_t fork_own_pid(void);
/* Calls `in_child` if this process is a child that has not been detected yet. It runs at the start of every slow path,
 * because _Fork and raw clone run no fork handlers. Costs one load otherwise. Context: signal. */
void fork_check(void);
/* The handler for pthread_atfork. It also detects the child where the kernel lacks MADV_WIPEONFORK. Context: signal. */
void fork_in_child(void);
/* True in the process that the spool knows; false in a vfork child of it. Costs a system call. Context: signal. */
bool fork_is_recorded_process(void);

/* True in a child that shares its parent's memory (vfork, clone with CLONE_VM). Such a child may run with any
 * thread-local storage, or none: this function touches none, and what it guards must not either. Costs a system call.
 * Context: signal. */
bool fork_shares_memory(void);

/* False in a child with an empty block in place of its thread-local storage: in every thread that libc has set up, the
 * first word there is not 0. Context: signal. */
static inline bool fork_has_thread_storage(void) { return arch_thread_block() != 0; }

#pragma GCC visibility pop

#endif
