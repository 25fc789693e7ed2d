/* Reads of memory that may not be mapped, without a fault. Stacks and objects are read at arbitrary moments, so any
 * pointer in them may be invalid. */
#ifndef SCALENE_TRACE_SHARED_SAFEREAD_H
#define SCALENE_TRACE_SHARED_SAFEREAD_H

#include <sys/types.h>
#include <sys/uio.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Chooses how memory is read. Caches the pid, so a forked child must call it again. Context: signal. */
void safe_read_init(void);
/* From now on, all reads are of the process `pid`. If `challenge` is not 0, each read must prove that the memory
 * belongs to a process that has the spool mapped: `challenge` is the address of spool->challenge there. A random
 * number is stored in the spool and read back in the same system call, which reads all its pieces from one address
 * space. So nothing is read of a process that has taken over the pid, or of a setuid program that the process has
 * become by exec. Only the watcher calls it. Context: normal. */
void safe_read_of(pid_t pid, uintptr_t challenge);
/* True if the process that safe_read_of has chosen still has the spool mapped, or if reads need no proof.
 * Only the watcher calls it. Context: normal. */
bool safe_read_proves(void);
/* Copies `size` bytes; false = at least one of them is not readable. Preserves errno. Context: signal. */
bool safe_read(void *to, const void *from, size_t size);
/* Copies as many bytes as are readable, at most `size`, and returns their number. Preserves errno. Context: signal. */
size_t safe_read_some(void *to, const void *from, size_t size);
#define SAFE_READ_MANY 24
/* Copies `size` bytes from each of `count` (at most SAFE_READ_MANY) addresses, one after the other; false = at least
 * one is not readable. `work` has room for `count` entries. Makes two system calls, whatever `count` is, unless
 * process_vm_writev is refused. Context: signal. */
bool safe_read_many(void *to, const uintptr_t *from, int count, size_t size, struct iovec *work);
/* Copies `count` (at most SAFE_READ_PIECES) pieces, one after the other; false = at least one byte is not readable. Makes
 * as many system calls as safe_read_many. Context: signal. */
bool safe_read_all(void *to, const struct iovec *from, int count);
#define SAFE_READ_PIECES 256
/* Reads `count` (at most SAFE_READ_PIECES) pieces of `size` bytes and returns how many were read before the first that
 * is not readable. Only the watcher calls it. Context: normal. */
int safe_read_pieces(const struct iovec *to, const struct iovec *from, int count, size_t size);
/* True if process_vm_readv is refused here. All reads are plain then, and a bad address raises SIGSEGV.
 * Context: signal. */
bool safe_read_refused(void);

#pragma GCC visibility pop

#endif
