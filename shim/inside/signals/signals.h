/* The tick signal: a signal that the program cannot see, receive, block or be killed by. */
#ifndef SCALENE_TRACE_SIGNALS_SIGNALS_H
#define SCALENE_TRACE_SIGNALS_SIGNALS_H

#include <pthread.h>
#include <signal.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* The handler of ticks. `info` is the kernel's; `context` is a ucontext_t. Returns false if the signal is not a tick:
 * another sender used the number, and signals.c then does what the program has asked for. Context: signal. */
typedef bool signals_handler(siginfo_t *info, void *context);
/* Installs the handler for our signal, and keeps the present action as the program's. 0 = success, else an errno.
 * Called once, at load. Context: normal. */
int signals_install(signals_handler *handler);
/* Returns the number of our signal; 0 = not installed. Context: signal. */
int signals_number(void);
/* Adopts the inherited block of our signal as the thread's shadow block, and unblocks the signal. Called at the start
 * of each thread, and at load for the main thread. Context: normal. */
void signals_thread_start(void);
/* Sets the real mask and action to the shadow, so that the new image inherits what the program has asked for.
 * Context: signal (vfork child). */
void signals_before_exec(void);
/* Restores the real mask and action after exec has failed, or in the parent after a spawn. Context: signal. */
void signals_after_failed_exec(void);
/* Makes the program's own action and mask the real ones, before the process is sealed: calls of the program are only
 * forwarded then. traced: a tracer may hold ticks, so that our signal is ignored where the program's action is the
 * default. Context: normal. */
void signals_seal(bool traced);
/* Undoes signals_seal. Context: normal. */
void signals_unseal(void);
/* True if the program has blocked our signal in the calling thread. Context: signal. */
bool signals_shadow_blocked(void);
/* Sets the shadow block of the calling thread. A new thread calls it with the value of signals_inherited_blocked.
 * Context: signal. */
void signals_set_shadow_blocked(bool blocked);
/* Returns the shadow block of a thread that the calling thread is about to create: that of the mask in `attributes`, or
 * its own (also if `attributes` is null). Context: signal. */
bool signals_inherited_blocked(const pthread_attr_t *attributes);
/* Makes the calling thread the only one of a new process, in which no signal is pending. Context: signal. */
void signals_postfork_child(void);

#pragma GCC visibility pop

#endif
