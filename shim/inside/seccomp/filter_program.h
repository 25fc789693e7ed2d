/* The program of a seccomp filter, in the language of classic BPF. */
#ifndef SCALENE_TRACE_SECCOMP_FILTER_PROGRAM_H
#define SCALENE_TRACE_SECCOMP_FILTER_PROGRAM_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* True if the filter (a struct sock_fprog) allows every system call that the shim makes, whatever its arguments. Some of
 * them may also fail. False if it cannot be read. Not to be called by two threads at once. Context: normal. */
bool filter_allows_us(const void *filter);

#pragma GCC visibility pop

#endif
