/* The ends of children, from the results of the process's own waits. wait, waitpid and wait3 are wait4 with fewer
 * arguments, in libc too, so they become the same system call with one argument more. */
#include "inside/processes/reaped.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/processes/filters.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/sealed/sealed.h"
#include "shared/spool.h"

#define UNKNOWN (-1)

static int64_t in_ns(struct timeval time) { return (int64_t)time.tv_sec * 1000000000 + (int64_t)time.tv_usec * 1000; }

/* `usage`: null = unknown. */
static struct record_reaped *begin(pid_t pid, uint32_t status, const struct rusage *usage) {
  struct record_reaped *record = spool_claim(1);
  if (!record) return NULL;
  record->thread = this_thread.id;
  record->t_ns = clock_now_ns();
  record->pid = pid;
  record->status = status;
  record->user_ns = usage ? in_ns(usage->ru_utime) : UNKNOWN;
  record->system_ns = usage ? in_ns(usage->ru_stime) : UNKNOWN;
  record->peak_rss_bytes = usage ? (int64_t)usage->ru_maxrss * 1024 : UNKNOWN;
  return record;
}

void reaped_write_own(void) {
  struct rusage own, children;
  bool known = !getrusage(RUSAGE_SELF, &own) && !getrusage(RUSAGE_CHILDREN, &children);
  struct record_reaped *record = known ? begin(0, 0, &own) : NULL;
  if (!record) return;
  record->user_ns += in_ns(children.ru_utime);
  record->system_ns += in_ns(children.ru_stime);
  spool_publish(record, RECORD_REAPED, 1);
}

static void write_reaped(pid_t pid, uint32_t status, const struct rusage *usage) {
  if (!recording() || !fork_has_thread_storage()) return;
  int saved_errno = errno;
  fork_check();
  struct record_reaped *record = recording() && fork_is_recorded_process() ? begin(pid, status, usage) : NULL;
  if (record) spool_publish(record, RECORD_REAPED, 1);
  errno = saved_errno;
}

/* A filter may look at the arguments of a system call. Where the process has set one, the calls are as the program makes
 * them. */
static pid_t wait_for(pid_t which, int *status, int options, struct rusage *usage) {
  struct rusage own_usage;
  int own_status = 0;
  if (!sealed() && !filters_are_set()) {
    if (!status) status = &own_status;
    if (!usage) usage = &own_usage;
  }
  next_ensure();
  pid_t pid = next.wait4(which, status, options, usage);
  if (pid > 0 && status && (WIFEXITED(*status) || WIFSIGNALED(*status))) write_reaped(pid, (uint32_t)*status, usage);
  return pid;
}

/* ---- exported ---- */

EXPORT pid_t wait(int *status) { return wait_for(-1, status, 0, NULL); }
EXPORT pid_t __wait(int *status) { return wait_for(-1, status, 0, NULL); }
EXPORT pid_t waitpid(pid_t which, int *status, int options) { return wait_for(which, status, options, NULL); }
EXPORT pid_t __waitpid(pid_t which, int *status, int options) { return wait_for(which, status, options, NULL); }
EXPORT pid_t wait3(int *status, int options, struct rusage *usage) { return wait_for(-1, status, options, usage); }
EXPORT pid_t wait4(pid_t which, int *status, int options, struct rusage *usage) {
  return wait_for(which, status, options, usage);
}

EXPORT int waitid(idtype_t type, id_t which, siginfo_t *info, int options) {
  next_ensure();
  int result = next.waitid(type, which, info, options);
  if (result || !info || !info->si_pid || options & WNOWAIT) return result;
  bool exited = info->si_code == CLD_EXITED, killed = info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED;
  uint32_t status = (uint32_t)info->si_status & 255;
  if (exited || killed) write_reaped(info->si_pid, exited ? status << 8 : status, NULL);
  return result;
}
