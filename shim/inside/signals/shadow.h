/* What the program is told of our signal: between signals.c, which keeps it, and sigexports.c, which tells it. */
#ifndef SCALENE_TRACE_SIGNALS_SHADOW_H
#define SCALENE_TRACE_SIGNALS_SHADOW_H

#include <signal.h>
#include <time.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Context: signal. */
uint64_t signals_set_word(const sigset_t *set); /* bit n - 1 = signal n */
void signals_set_store(sigset_t *set, uint64_t word);
bool signals_strip(sigset_t *to, const sigset_t *from); /* copies without our signal; true = it was a member */
void signals_report(sigset_t *set, bool member);        /* makes our signal a member, or none */
bool signals_swap_block(bool blocked);                  /* sets the block; returns the one before */
/* Around a call that waits with another mask. Context: signal. */
struct signals_call {
  bool in_call, after_call;
};
void signals_begin_call(struct signals_call *outer, bool blocked);
void signals_end_call(const struct signals_call *outer);
bool signals_held(void);  /* a signal waits that this thread would get if open */
bool signals_guest(void); /* in a vfork child */
int signals_shadow_action(const struct sigaction *action, struct sigaction *before); /* sigaction of our signal */
/* sigtimedwait. Context: normal. */
int signals_wait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout);

#pragma GCC visibility pop

#endif
