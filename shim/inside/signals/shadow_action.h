/* The action that the program has set for our signal. */
#ifndef SCALENE_TRACE_SIGNALS_SHADOW_ACTION_H
#define SCALENE_TRACE_SIGNALS_SHADOW_ACTION_H

#include <signal.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Reads the action; replaces it, and says which was there before. Context: signal. */
void shadow_action_read(struct sigaction *out);
void shadow_action_write(const struct sigaction *action, struct sigaction *before);
/* Makes of an action what the kernel and libc would report after it was set. Context: signal. */
void shadow_action_normalize(struct sigaction *action);
/* Fills what libc fills of a report. Context: signal. */
void shadow_action_report(struct sigaction *out, const struct sigaction *action);
/* Is it a function, rather than SIG_DFL or SIG_IGN? Context: signal. */
bool shadow_is_function(const struct sigaction *action);
/* Remembers what libc reports as the restorer of an installed handler. Context: normal. */
void shadow_note_restorer(void);

#pragma GCC visibility pop

#endif
