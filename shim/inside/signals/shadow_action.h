/* The shadow action: the action that the program has set for our signal, as sigaction() would report it without us. */
#ifndef SCALENE_TRACE_SIGNALS_SHADOW_ACTION_H
#define SCALENE_TRACE_SIGNALS_SHADOW_ACTION_H

#include <signal.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Stores the current shadow action in `out`. Context: signal. */
void shadow_action_read(struct sigaction *out);
/* Replaces the shadow action, and stores the previous one in `before`. Context: signal. */
void shadow_action_write(const struct sigaction *action, struct sigaction *before);
/* Changes an action to what the kernel and libc would report after it was set. Context: signal. */
void shadow_action_normalize(struct sigaction *action);
/* Copies the fields that libc fills in when it reports an action; the others keep their value. Context: signal. */
void shadow_action_report(struct sigaction *out, const struct sigaction *action);
/* True if the action is a function, not SIG_DFL or SIG_IGN. Context: signal. */
bool shadow_is_function(const struct sigaction *action);
/* Stores the restorer that libc reports for an installed handler. Called once, after ours is installed.
 * Context: normal. */
void shadow_note_restorer(void);

#pragma GCC visibility pop

#endif
