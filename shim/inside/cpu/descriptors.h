/* The list of the file descriptors of perf events, so that a forked child can close those of its parent. */
#ifndef SCALENE_TRACE_CPU_DESCRIPTORS_H
#define SCALENE_TRACE_CPU_DESCRIPTORS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Limits the list to a quarter of RLIMIT_NOFILE, and to 2,048 entries. Called once, at load. Context: normal. */
void descriptors_init(void);
/* Lists a descriptor and returns its index; -1 = the limit is reached. Context: signal. */
int32_t descriptors_add(int fd);
/* Frees the entry at that index; -1 is ignored. Context: signal. */
void descriptors_remove(int32_t slot);
/* Disables every listed event that is still ours, or enables it again for its remaining overflow. Context: normal. */
void descriptors_enable(bool enabled);
/* Empties the list and closes those descriptors that are still ours. Called in a forked child. Context: signal. */
void descriptors_close_inherited(void);

#pragma GCC visibility pop

#endif
