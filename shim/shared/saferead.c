/* Reading memory that may not be there: process_vm_readv faults into an error, not a signal. The memory is the own
 * process's, or that of another which the watcher looks at.
 *
 * For each place that it reads, process_vm_readv looks up and pins a page. process_vm_writev to the own process does that
 * for where it writes alone, and copies from many places like any system call: a quarter of the time for sixteen. */
#include "shared/saferead.h"

#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/spool.h"
#include "shared/valgrind.h"

static pid_t target;
static bool own; /* is that this process? */
static bool refused;
/* process_vm_writev may be used: not under valgrind, as the padding of objects is not initialised. */
static bool gathers;

void safe_read_init(void) {
  target = (pid_t)syscall(SYS_getpid);
  own = true;
  int saved_errno = errno;
  uint64_t probe = 1, copy = 0;
  struct iovec to = {&copy, sizeof copy}, from = {&probe, sizeof probe};
  refused = syscall(SYS_process_vm_readv, target, &to, 1, &from, 1, 0) != (long)sizeof copy;
  if (spool && (spool->features & FEATURE_PLAIN_READS)) refused = true;
  gathers =
      !refused && !under_valgrind() && syscall(SYS_process_vm_writev, target, &from, 1, &to, 1, 0) == (long)sizeof copy;
  errno = saved_errno;
}

void safe_read_of(pid_t pid) {
  target = pid;
  own = refused = gathers = false;
}

bool safe_read_refused(void) { return refused; }

/* Bytes; < 0: errno says why. A process whose first thread has ended is not there under its number: then it is asked for
 * under the calling thread's. */
static long read_pieces(const struct iovec *to, const struct iovec *from, unsigned long count) {
  long got = syscall(SYS_process_vm_readv, target, to, 1, from, count, 0);
  if (got < 0 && errno == ESRCH && own) {
    got = syscall(SYS_process_vm_readv, syscall(SYS_gettid), to, 1, from, count, 0);
  }
  return got;
}

static bool plausible(uintptr_t address, size_t size) { return address >= 65536 && address < 0x7ffffffff000u - size; }

size_t safe_read_some(void *to, const void *from, size_t size) {
  if (!plausible((uintptr_t)from, size)) return 0;
  int saved_errno = errno;
  uintptr_t start = (uintptr_t)from;
  size_t first = 4096 - (start & 4095);
  if (first > size) first = size;
  if (refused) { /* the rest of this page is there */
    memcpy(to, from, first);
    return first;
  }
  struct iovec local = {to, size};
  struct iovec remote[2] = {{(void *)start, first}, {(void *)(start + first), size - first}};
  long got = read_pieces(&local, remote, size > first ? 2 : 1);
  errno = saved_errno;
  return got < 0 ? 0 : (size_t)got;
}

bool safe_read(void *to, const void *from, size_t size) {
  if (!plausible((uintptr_t)from, size)) return false;
  if (refused) {
    memcpy(to, from, size);
    return true;
  }
  int saved_errno = errno;
  struct iovec local = {to, size}, remote = {(void *)(uintptr_t)from, size};
  long got = read_pieces(&local, &remote, 1);
  errno = saved_errno;
  return got == (long)size;
}

/* It writes, so it asks who this is: a child of a clone that nobody told us of would write into its parent. Returns bytes;
 * < 0: errno says why. */
static long gather(const struct iovec *to, const struct iovec *from, unsigned long count) {
  return syscall(SYS_process_vm_writev, syscall(SYS_gettid), from, count, to, 1, 0);
}

bool safe_read_many(void *to, const uintptr_t *from, int count, size_t size, struct iovec *work) {
  struct iovec local = {to, (size_t)count * size};
  for (int i = 0; i < count; i++) {
    if (!plausible(from[i], size)) return false;
    work[i] = (struct iovec){(void *)from[i], size};
    if (refused) memcpy((char *)to + (size_t)i * size, (void *)from[i], size);
  }
  if (refused) return true;
  int saved_errno = errno;
  long got = gathers ? gather(&local, work, (unsigned long)count) : -1;
  if (got < 0 && !(gathers && errno == EFAULT))
    got = read_pieces(&local, work, (unsigned long)count); /* it was refused */
  errno = saved_errno;
  return got == (long)local.iov_len;
}

int safe_read_pieces(const struct iovec *to, const struct iovec *from, int count, size_t size) {
  unsigned long pieces = (unsigned long)count;
  long got = syscall(SYS_process_vm_readv, target, to, pieces, from, pieces, 0);
  return got < 0 ? 0 : (int)((size_t)got / size);
}
