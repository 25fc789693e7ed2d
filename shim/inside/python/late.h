/* An interpreter that is loaded after the program has started. */
#ifndef SCALENE_TRACE_PYTHON_LATE_H
#define SCALENE_TRACE_PYTHON_LATE_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Sets the functions that are called when an interpreter was found late, and when one may be starting again, and begins to
 * look for them. Called once, at load. Context: normal. */
void late_watch(void (*found)(void), void (*starts_again)(void));
/* The program has looked up `function` by a name that begins as Python's do. Context: normal. */
void late_looked_up(const void *function);
/* True if late_looked_up is to be called for that name. Context: normal. */
bool late_is_wanted(const char *name);
/* Begins a call of the interpreter's functions; false = it must not be made, because dlclose may unmap them.
 * Context: signal. */
bool late_enter(void);
/* Ends such a call. Context: signal. */
void late_leave(void);
/* Before dlclose: waits until no such call is being made, and returns whether late_after_close must be called.
 * Context: normal. */
bool late_before_close(void);
/* After dlclose: forgets the interpreter if it is gone. Context: normal. */
void late_after_close(void);
/* Forgets what other threads of the parent were doing. Context: signal. */
void late_postfork_child(void);
/* The calling thread has a Python thread state: counts a loss if the late interpreter's calls do not arrive in the shim.
 * Context: signal. */
void late_runs(void);
/* When the process exits: counts a loss if an interpreter runs that was not found. Context: normal. */
void late_end(void);

#pragma GCC visibility pop

#endif
