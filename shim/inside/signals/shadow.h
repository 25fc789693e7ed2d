/* The shadow: what the program sees of our signal. signals.c keeps it; sigexports.c reports it to the program. */
#ifndef SCALENE_TRACE_SIGNALS_SHADOW_H
#define SCALENE_TRACE_SIGNALS_SHADOW_H

#include <signal.h>
#include <time.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Returns the set as bits: bit n - 1 = signal n. Context: signal. */
uint64_t signals_set_bits(const sigset_t *set);
/* Stores such bits in the set. Context: signal. */
void signals_set_store(sigset_t *set, uint64_t bits);
/* Copies a set without our signal; true = our signal was a member. Context: signal. */
bool signals_strip(sigset_t *to, const sigset_t *from);
/* Adds our signal to the set, or removes it. Context: signal. */
void signals_report(sigset_t *set, bool member);
/* Sets the shadow block of the calling thread; returns the previous one. Context: signal. */
bool signals_swap_block(bool blocked);
/* State of the outer call that waits with another mask. Such calls nest if a signal handler makes one. */
struct signals_call {
  bool in_call, after_call;
};
/* Sets the shadow block for a call that waits with another mask, and stores the previous state in `outer`.
 * Context: signal. */
void signals_begin_call(struct signals_call *outer, bool blocked);
/* Restores the shadow block after the call, and the state of the outer call. Context: signal. */
void signals_end_call(const struct signals_call *outer);
/* True if a held signal would be delivered to this thread if it unblocked our signal. Context: signal. */
bool signals_held(void);
/* True in a sealed process if the calling thread has blocked our signal, and the kernel does not know it yet.
 * Context: signal. */
bool signals_owes_block(void);
/* The thread's real mask is what the program has asked for. Context: signal. */
void signals_paid_block(void);
/* True in a vfork child. Context: signal. */
bool signals_in_vfork_child(void);
/* sigaction() of our signal: reads and sets the shadow action. Returns 0, or -1 with errno set. Context: signal. */
int signals_shadow_action(const struct sigaction *action, struct sigaction *before);
/* sigtimedwait(), for sets that may contain our signal. Context: normal. */
int signals_wait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout);

#pragma GCC visibility pop

#endif
