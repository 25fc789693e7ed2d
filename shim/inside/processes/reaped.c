/* The ends of children, from the results of the process's own waits. wait, waitpid and wait3 are wait4 with fewer
 * arguments, in libc too, so they become the same system call with one argument more. */
#include "inside/processes/reaped.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/spool.h"

#define UNKNOWN (-1)
/* By how much the sums of the kernel and of the waits may differ: the times of a wait are whole microseconds. */
#define TOLERANCE_NS 1000000
#define TOLERANCE_EACH_NS 4000

static _Atomic int64_t seen_ns; /* what the recorded children have used, and what was used before the image began */
static _Atomic int64_t seen;    /* how many they are */

static int64_t in_ns(struct timeval time) { return (int64_t)time.tv_sec * 1000000000 + (int64_t)time.tv_usec * 1000; }

static int64_t used_ns(const struct rusage *usage) { return in_ns(usage->ru_utime) + in_ns(usage->ru_stime); }

static int64_t children_ns(void) {
  struct rusage usage;
  return getrusage(RUSAGE_CHILDREN, &usage) ? 0 : used_ns(&usage);
}

void reaped_begin(void) {
  atomic_store(&seen_ns, children_ns());
  atomic_store(&seen, 0);
}

void reaped_check(void) {
  int64_t unseen_ns = children_ns() - atomic_load(&seen_ns);
  if (unseen_ns > TOLERANCE_NS + atomic_load(&seen) * TOLERANCE_EACH_NS) reaped_unseen();
}

/* `usage`: null = unknown. */
static void write_reaped(pid_t pid, uint32_t status, const struct rusage *usage) {
  if (!recording() || !fork_has_thread_storage()) return;
  int saved_errno = errno;
  fork_check();
  struct record_reaped *record = recording() && fork_is_recorded_process() ? spool_claim(1) : NULL;
  errno = saved_errno;
  if (!record) return;
  record->thread = this_thread.id;
  record->t_ns = clock_now_ns();
  record->pid = pid;
  record->status = status;
  record->user_ns = usage ? in_ns(usage->ru_utime) : UNKNOWN;
  record->system_ns = usage ? in_ns(usage->ru_stime) : UNKNOWN;
  record->peak_rss_bytes = usage ? (int64_t)usage->ru_maxrss * 1024 : UNKNOWN;
  spool_publish(record, RECORD_REAPED, 1);
  if (usage) atomic_fetch_add(&seen_ns, used_ns(usage));
  atomic_fetch_add(&seen, 1);
}

void reaped_unseen(void) { write_reaped(0, 0, NULL); }

static pid_t wait_for(pid_t which, int *status, int options, struct rusage *usage) {
  struct rusage own_usage;
  int own_status = 0;
  if (!status) status = &own_status;
  if (!usage) usage = &own_usage;
  next_ensure();
  pid_t pid = next.wait4(which, status, options, usage);
  if (pid > 0 && (WIFEXITED(*status) || WIFSIGNALED(*status))) write_reaped(pid, (uint32_t)*status, usage);
  return pid;
}

/* ---- exported ---- */

EXPORT pid_t wait(int *status) { return wait_for(-1, status, 0, NULL); }
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
