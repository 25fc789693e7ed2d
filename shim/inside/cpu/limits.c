/* The interposed functions that set limits. An event whose signal finds no room in the queue sends SIGIO instead, which
 * ends the program. So before the program lowers the limit on queued signals, events that it leaves no room for are
 * disabled. Their threads notice the silence and do without ticks until a higher limit is set (ticks.c). */
#undef _FORTIFY_SOURCE
#include <sys/resource.h>

#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/cpu/timers.h"
#include "shared/base.h"
#include "shared/saferead.h"
#include "shared/spool.h"

/* The two structures have the same layout. */
_Static_assert(sizeof(struct rlimit) == sizeof(struct rlimit64), "limits have 64 bits");

static bool concerns_us(pid_t pid, int resource, const void *given) {
  if (resource != RLIMIT_SIGPENDING || given == NULL || !recording()) return false;
  return fork_is_recorded_process() && (pid == 0 || pid == fork_own_pid());
}

/* True if events may have been disabled. */
static bool before_limit(pid_t pid, int resource, const void *given) {
  struct rlimit limit;
  if (!concerns_us(pid, resource, given)) return false;
  int error = errno;
  bool known = safe_read(&limit, given, sizeof limit);
  if (known) timers_limit_signals(limit.rlim_cur, false);
  errno = error;
  return known;
}

/* The limit in force counts: the call may have failed. */
static int after_limit(int result) {
  struct rlimit limit;
  int error = errno;
  if (getrlimit(RLIMIT_SIGPENDING, &limit) == 0) timers_limit_signals(limit.rlim_cur, true);
  errno = error;
  return result;
}

EXPORT int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit) {
  next_ensure();
  bool ours = before_limit(0, (int)resource, limit);
  int result = next.setrlimit(resource, limit);
  return ours ? after_limit(result) : result;
}

EXPORT int setrlimit64(__rlimit_resource_t resource, const struct rlimit64 *limit) {
  next_ensure();
  bool ours = before_limit(0, (int)resource, limit);
  int result = next.setrlimit64(resource, limit);
  return ours ? after_limit(result) : result;
}

EXPORT int prlimit(pid_t pid, __rlimit_resource_t resource, const struct rlimit *limit, struct rlimit *before) {
  next_ensure();
  bool ours = before_limit(pid, (int)resource, limit);
  int result = next.prlimit(pid, resource, limit, before);
  return ours ? after_limit(result) : result;
}

EXPORT int prlimit64(pid_t pid, __rlimit_resource_t resource, const struct rlimit64 *limit, struct rlimit64 *before) {
  next_ensure();
  bool ours = before_limit(pid, (int)resource, limit);
  int result = next.prlimit64(pid, resource, limit, before);
  return ours ? after_limit(result) : result;
}
