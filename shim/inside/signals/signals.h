/* A signal that the program cannot see, steal, block or die of. */
#ifndef SCALENE_TRACE_SIGNALS_SIGNALS_H
#define SCALENE_TRACE_SIGNALS_SIGNALS_H

#include <pthread.h>
#include <signal.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* The handler of ticks. info is the kernel's; context is a ucontext_t. Returns false when the signal is not one of
 * ours (somebody sent that number): signals.c then does what the program asked for with it. Context: signal. */
typedef bool signals_handler(siginfo_t *info, void *context);
/* Installs the handler for our signal, remembering what was there as the program's. 0 = ok. Context: normal. */
int signals_install(signals_handler *handler);
/* Our number; 0 = not installed. Context: signal. */
int signals_number(void);
/* Called at the start of a thread (and at load for the main thread): takes the inherited block of our signal as the
 * thread's shadow block, and unblocks the signal. Context: normal. */
void signals_thread_start(void);
/* Before and after a failed exec: the mask that the new image inherits is the one the program asked for.
 * Context: signal (vfork child). */
void signals_before_exec(void);
void signals_after_failed_exec(void);
/* The shadow block of the calling thread. A new thread starts with that of its creator, or with the mask that its
 * attributes name (null = none). Context: signal. */
bool signals_shadow_blocked(void);
void signals_set_shadow_blocked(bool blocked);
bool signals_inherited_blocked(const pthread_attr_t *attributes);
/* The calling thread is the only one of a new process: nothing is pending in it. Context: signal. */
void signals_postfork_child(void);

#pragma GCC visibility pop

#endif
