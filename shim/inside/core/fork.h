/* Which process is this? A child that came by fork, _Fork or raw clone is noticed here. */
#ifndef SCALENE_TRACE_CORE_FORK_H
#define SCALENE_TRACE_CORE_FORK_H

#include <sys/types.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* From now on `in_child` is called in each forked child, before anything else is recorded there. Context: normal. */
void fork_watch(void (*in_child)(void));
/* The calling process is the one that the spool knows. Context: signal. */
void fork_begin_process(void);
/* Its process id, as noted then. Context: signal. */
pid_t fork_own_pid(void);
/* Notices a child that came by _Fork or raw clone, which run no fork handlers. Cheap. Context: signal. */
void fork_check(void);
/* The fork handler: notices the child, also where the kernel has no MADV_WIPEONFORK. Context: signal. */
void fork_in_child(void);
/* Is this the process that the spool knows, rather than a vfork child of it? Context: signal. */
bool fork_is_recorded_process(void);

#pragma GCC visibility pop

#endif
