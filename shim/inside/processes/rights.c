/* The interposed functions that change the user. A recorder with root's rights opens files that the recorded program names,
 * for their source text, and must not do so for a process that has given up these rights. It cannot see every process in
 * time, and a process that was taken over may write anything into the spool. So a process announces in a file, which its
 * next user cannot write, whom it becomes, before it does so.
 *
 * All of it may run in a vfork child. Plain system calls, because libc's functions are cancellation points, and no state
 * of the program changes, errno included. */
#include "inside/processes/rights.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/next.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/sealed/sealed.h"
#include "shared/spool.h"

#define NAME "rights"
#define UNCHANGED ((uid_t) - 1)

static char path[PATH_MAX + sizeof NAME];   /* empty if the recorder has no more rights than its user */
static _Atomic uid_t announced = UNCHANGED; /* so that a server that changes its user for each request writes one row */

void rights_init(const char *spool_path) {
  const char *name = strrchr(spool_path, '/');
  size_t length = name ? (size_t)(name + 1 - spool_path) : 0;
  if (length >= PATH_MAX || !(spool->features & FEATURE_RIGHTS)) return;
  memcpy(path, spool_path, length);
  strcpy(path + length, NAME);
}

static bool append(uid_t user) {
  struct rights_row row = {user, (uint32_t)syscall(SYS_getegid)};
  int fd =
      (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return false;
  bool written = syscall(SYS_write, fd, &row, sizeof row) == sizeof row;
  syscall(SYS_close, fd);
  return written;
}

static void announce(uid_t user) {
  next_ensure();
  if (!spool || path[0] == '\0') return; /* after the end of the recording, its trace is still to be written */
  if (user == UNCHANGED || user == atomic_load(&announced)) return;
  if (sealed()) {
    loss_add(LOSS_rights_unannounced);
    return;
  }
  if (user == (uid_t)syscall(SYS_geteuid)) return;
  int error = errno;
  if (append(user)) {
    atomic_store(&announced, user);
  } else if (syscall(SYS_geteuid) == 0) { /* else it has been announced, or the call will be refused */
    loss_add(LOSS_rights_unannounced);
  }
  errno = error;
}

/* ---- exported ---- */

EXPORT int setuid(uid_t user) {
  announce(user);
  return next.setuid(user);
}

EXPORT int seteuid(uid_t user) {
  announce(user);
  return next.seteuid(user);
}

EXPORT int setreuid(uid_t real, uid_t effective) {
  announce(real);
  announce(effective);
  return next.setreuid(real, effective);
}

EXPORT int setresuid(uid_t real, uid_t effective, uid_t saved) {
  announce(real);
  announce(effective);
  announce(saved);
  return next.setresuid(real, effective, saved);
}

EXPORT int setfsuid(uid_t user) {
  announce(user);
  return next.setfsuid(user);
}
