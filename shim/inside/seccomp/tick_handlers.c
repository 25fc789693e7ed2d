/* The handler of a tick ends with a system call, rt_sigreturn, which a seccomp filter for all threads may forbid. No code of
 * ours runs between the handler's own end and that call, so only the kernel knows whether a thread is past it: the
 * handler runs with all signals blocked, and rt_sigreturn restores the thread's mask. */
#include "inside/seccomp/tick_handlers.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shared/base.h"
#include "shared/clock.h"

/* Of a directory, as getdents64 writes it. */
struct entry {
  uint64_t inode;
  int64_t next;
  uint16_t size;
  uint8_t type;
  char name[];
};

static char entries[16384], status[16384];

/* Reads the status of a thread; false = it has ended. `tasks`: descriptor of the folder of threads. */
static bool read_status(int tasks, const char *thread) {
  char path[32];
  size_t length = strlen(thread);
  if (length > sizeof path - sizeof "/status") return false;
  memcpy(path, thread, length);
  memcpy(path + length, "/status", sizeof "/status");
  int file = (int)syscall(SYS_openat, tasks, path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  long got, used = 0;
  while (used < (long)sizeof status - 1 &&
         (got = syscall(SYS_read, file, status + used, sizeof status - 1 - (size_t)used)) > 0)
    used += got;
  syscall(SYS_close, file);
  status[used] = 0;
  return true;
}

/* Returns what follows a name in the status. */
static const char *after(const char *name) {
  const char *at = strstr(status, name);
  return at ? at + strlen(name) : "";
}

/* Our handler does not sleep. Threads that have blocked the signal for good nearly always do: helper threads of libc, which
 * it starts with all signals blocked, and threads of io_uring. */
static bool may_be_inside(int tasks, const char *thread, int signal) {
  if (!read_status(tasks, thread) || *after("\nState:\t") == 'S') return false;
  return strtoull(after("\nSigBlk:"), NULL, 16) >> (signal - 1) & 1;
}

static void wait_for(int tasks, const char *thread, int signal, int64_t until_ns) {
  struct timespec pause = {.tv_nsec = 200000};
  while (may_be_inside(tasks, thread, signal) && clock_now_ns() < until_ns) syscall(SYS_nanosleep, &pause, NULL);
}

void tick_handlers_finish(int signal, int64_t most_ns) {
  int64_t until_ns = clock_now_ns() + most_ns;
  long own = syscall(SYS_gettid), got;
  int tasks = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (tasks < 0) return;
  while ((got = syscall(SYS_getdents64, tasks, entries, sizeof entries)) > 0) {
    for (long at = 0; at < got;) {
      const struct entry *entry = (const void *)(entries + at);
      if (entry->name[0] != '.' && atol(entry->name) != own) wait_for(tasks, entry->name, signal, until_ns);
      at += entry->size;
    }
  }
  syscall(SYS_close, tasks);
}
