/* Reads of memory that may not be mapped. process_vm_readv reports a bad address as an error; a plain read would raise
 * SIGSEGV in the program. The memory is that of this process or, in the watcher, that of an observed process.
 *
 * process_vm_readv looks up and pins a page for each piece that it reads. process_vm_writev to the own process does so
 * only for the destination, and copies from the sources like any system call: sixteen pieces take a quarter of the
 * time. */
#include "shared/saferead.h"

#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/sealed/sealed.h"
#include "shared/spool.h"
#include "shared/valgrind.h"

static pid_t target;
static bool own; /* target is this process */
static bool refused;
/* process_vm_writev may be used. It is not under valgrind, which would report the uninitialised padding of objects. */
static bool gathers;
static uintptr_t challenge_at; /* 0 = reads need no proof */

void safe_read_init(void) {
  target = (pid_t)syscall(SYS_getpid);
  own = true;
  int saved_errno = errno;
  uint64_t probe = 1, copy = 0;
  struct iovec to = {&copy, sizeof copy}, from = {&probe, sizeof probe};
  refused = syscall(SYS_process_vm_readv, target, &to, 1, &from, 1, 0L) != (long)sizeof copy;
  if (spool && (spool->features & FEATURE_PLAIN_READS)) refused = true;
  gathers = !refused && !under_valgrind() &&
            syscall(SYS_process_vm_writev, target, &from, 1, &to, 1, 0L) == (long)sizeof copy;
  errno = saved_errno;
}

void safe_read_of(pid_t pid, uintptr_t challenge) {
  target = pid;
  challenge_at = challenge;
  own = refused = gathers = false;
}

bool safe_read_refused(void) { return refused; }

/* ---- reads with a proof (the watcher's) ---- */

/* Returns a number that no process can predict; 0 = there is none. */
static uint64_t next_challenge(void) {
  static uint64_t numbers[64];
  static unsigned left;
  if (!left) {
    if (syscall(SYS_getrandom, numbers, sizeof numbers, 0) != (long)sizeof numbers) return 0;
    left = sizeof numbers / sizeof *numbers;
  }
  return numbers[--left];
}

/* Like process_vm_readv. The number is the first piece, so that it is compared as it was at the beginning of the read.
 * A process could pass only by copying it, within that moment, to the same address in the memory of the program that it
 * wants to have read. */
static APART long read_proven(const struct iovec *to, unsigned long to_count, const struct iovec *from,
                              unsigned long count) {
  struct iovec local[1 + SAFE_READ_PIECES], remote[1 + SAFE_READ_PIECES];
  uint64_t asked = next_challenge(), answer = 0;
  errno = ESRCH;
  if (!asked || !spool || to_count > SAFE_READ_PIECES || count > SAFE_READ_PIECES) return -1;
  atomic_store((_Atomic uint64_t *)&spool->challenge, asked);
  local[0] = (struct iovec){&answer, sizeof answer};
  remote[0] = (struct iovec){(void *)challenge_at, sizeof answer};
  for (unsigned long i = 0; i < to_count; i++) local[i + 1] = to[i];
  for (unsigned long i = 0; i < count; i++) remote[i + 1] = from[i];
  long got = syscall(SYS_process_vm_readv, target, local, to_count + 1, remote, count + 1, 0L);
  if (got < (long)sizeof answer) return -1;
  if (answer == asked) return got - (long)sizeof answer;
  for (unsigned long i = 0; i < to_count; i++) memset(to[i].iov_base, 0, to[i].iov_len);
  return -1;
}

bool safe_read_proves(void) { return !challenge_at || read_proven(NULL, 0, NULL, 0) == 0; }

/* Returns the number of bytes read, or < 0 with errno set. After the first thread of the process has ended, the pid no
 * longer leads to its memory (ESRCH), so the read is repeated with the id of the calling thread. */
static long read_own(const struct iovec *to, const struct iovec *from, unsigned long count) {
  long got = syscall(SYS_process_vm_readv, target, to, 1, from, count, 0L);
  if (got < 0 && errno == ESRCH && own) {
    got = syscall(SYS_process_vm_readv, syscall(SYS_gettid), to, 1, from, count, 0L);
  }
  return got;
}

/* Fails in a sealed process. */
static long read_pieces(const struct iovec *to, const struct iovec *from, unsigned long count) {
  if (unlikely(challenge_at)) return read_proven(to, 1, from, count);
  uint32_t section = seal_enter();
  long got = sealed() ? -1 : read_own(to, from, count);
  seal_leave(section);
  return got;
}

static bool plausible(uintptr_t address, size_t size) {
  return address >= 65536 && address < ARCH_HIGHEST_ADDRESS - size;
}

size_t safe_read_some(void *to, const void *from, size_t size) {
  if (!plausible((uintptr_t)from, size)) return 0;
  int saved_errno = errno;
  uintptr_t start = (uintptr_t)from;
  size_t first = 4096 - (start & 4095);
  if (first > size) first = size;
  if (refused) { /* a plain read: only the rest of this page is certain to be mapped */
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

/* Copies the pieces by process_vm_writev into the calling thread's own process. Returns the number of bytes, or < 0
 * with errno set. It must not use the cached pid: in the child of a clone that the shim did not see, that is the
 * parent's, and the call would overwrite the parent's memory. */
static long gather(const struct iovec *to, const struct iovec *from, unsigned long count) {
  uint32_t section = seal_enter();
  long got = sealed() ? -1 : syscall(SYS_process_vm_writev, syscall(SYS_gettid), from, count, to, 1, 0L);
  seal_leave(section);
  return got;
}

static bool all_plausible(const struct iovec *from, int count, size_t *bytes) {
  *bytes = 0;
  for (int i = 0; i < count; *bytes += from[i++].iov_len)
    if (!plausible((uintptr_t)from[i].iov_base, from[i].iov_len)) return false;
  return true;
}

bool safe_read_all(void *to, const struct iovec *from, int count) {
  struct iovec local = {to, 0};
  if (!all_plausible(from, count, &local.iov_len)) return false;
  if (refused) {
    for (int i = 0; i < count; to = (char *)to + from[i++].iov_len) memcpy(to, from[i].iov_base, from[i].iov_len);
    return true;
  }
  int saved_errno = errno;
  long got = gathers ? gather(&local, from, (unsigned long)count) : -1;
  if (got < 0 && !(gathers && errno == EFAULT))
    got = read_pieces(&local, from, (unsigned long)count); /* refused, not unreadable */
  errno = saved_errno;
  return got == (long)local.iov_len;
}

bool safe_read_many(void *to, const uintptr_t *from, int count, size_t size, struct iovec *work) {
  for (int i = 0; i < count; i++) work[i] = (struct iovec){(void *)from[i], size};
  return safe_read_all(to, work, count);
}

int safe_read_pieces(const struct iovec *to, const struct iovec *from, int count, size_t size) {
  unsigned long pieces = (unsigned long)count;
  long got = challenge_at ? read_proven(to, pieces, from, pieces)
                          : syscall(SYS_process_vm_readv, target, to, pieces, from, pieces, 0L);
  return got < 0 ? 0 : (int)((size_t)got / size);
}
