/* Reading memory that may not be there. */
#ifndef SCALENE_TRACE_SHARED_SAFEREAD_H
#define SCALENE_TRACE_SHARED_SAFEREAD_H

#include <sys/types.h>
#include <sys/uio.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Decides how reads are done; must run again in a forked child (the pid is cached). Context: signal. */
void safe_read_init(void);
/* Reads are of this process from now on. Only for the watcher. Context: normal. */
void safe_read_of(pid_t pid);
/* Copies size bytes; false when any of them is not readable. errno is kept. Context: signal. */
bool safe_read(void *to, const void *from, size_t size);
/* Copies as much as is readable, up to size; returns the count. Context: signal. */
size_t safe_read_some(void *to, const void *from, size_t size);
/* Copies `size` bytes from each of `count` (at most SAFE_READ_MANY) addresses, one behind the other; false when any is
 * not readable. Two system calls, however many they are. Context: signal. */
#define SAFE_READ_MANY 24
bool safe_read_many(void *to, const uintptr_t *from, int count, size_t size, struct iovec *work);
/* How many pieces of `size` bytes could be read, up to the first that could not. Only for the watcher. Context: normal. */
int safe_read_pieces(const struct iovec *to, const struct iovec *from, int count, size_t size);
/* Are they plain reads, as the kernel refuses others? Context: signal. */
bool safe_read_refused(void);

#pragma GCC visibility pop

#endif
