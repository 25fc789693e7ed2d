/* Seccomp filters of this process, by which the kernel may kill it for a system call. */
#ifndef SCALENE_TRACE_PROCESSES_FILTERS_H
#define SCALENE_TRACE_PROCESSES_FILTERS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Finds the functions of libc by which a program sets a filter. Called once, at load. Context: normal. */
void filters_init(void);
/* True if this image was started with a filter of which it is unknown whether it allows what the shim does. Only makes
 * calls that the loader has made before. `spool_path`: the spool, which is not mapped yet. Context: normal. */
bool filters_forbid_us(const char *spool_path);
/* True if this process, or the one that it was forked from, has set a filter since its image was loaded. Context: signal. */
bool filters_are_set(void);
/* Forgets that a thread of the parent was setting a filter. Context: normal. */
void filters_postfork_child(void);

#pragma GCC visibility pop

#endif
