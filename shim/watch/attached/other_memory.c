/* Writes to the memory of another process that others change, too. */
#include <sched.h>
#include <sys/uio.h>

#include "shared/base.h"
#include "shared/clock.h"

#define MOST_PIECES 8
#define MOST_COMPARED 16384
#define MOST_LOOKS 50
#define QUICK_NS 10000 /* a look that took longer was interrupted, or has waited for the process: it is old */

/* Writes pieces to the process, one after the other, unless what is in it has changed. `places` has an address and a size for
 * each piece, first of `compared` ones, whose `expected` bytes follow each other, then of `written` ones, with `data`. Returns 0;
 * 1 = something has changed, or may have, and nothing was written; -1 with errno. Between the look and the write, one or two microseconds
 * go by: it begins a time slice, and is repeated if it was interrupted. */
EXPORT int scalene_write_unless_changed(pid_t pid, const uint64_t *places, int compared, const char *expected,
                                        int written, char *data) {
  struct iovec piece[MOST_PIECES];
  static char now[MOST_COMPARED];
  size_t bytes[2] = {0, 0};
  errno = EINVAL;
  if (written < 1 || compared + written > MOST_PIECES) return -1;
  for (int i = 0; i < compared + written; i++) {
    piece[i] = (struct iovec){(void *)(uintptr_t)places[2 * i], places[2 * i + 1]};
    bytes[i >= compared] += places[2 * i + 1];
  }
  if (bytes[0] > sizeof now) return -1;
  struct iovec look = {now, bytes[0]}, write = {data, bytes[1]};
  for (int i = 0; compared; i++) {
    if (i == MOST_LOOKS) return 1;
    sched_yield();
    int64_t began_ns = clock_now_ns();
    if (process_vm_readv(pid, &look, 1, piece, (unsigned long)compared, 0) != (ssize_t)bytes[0]) return -1;
    if (memcmp(now, expected, bytes[0]) != 0) return 1;
    if (clock_now_ns() - began_ns <= QUICK_NS) break;
  }
  return process_vm_writev(pid, &write, 1, piece + compared, (unsigned long)written, 0) == (ssize_t)bytes[1] ? 0 : -1;
}
