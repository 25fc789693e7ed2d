/* Clocks of the kernel, as int64 nanoseconds. A clock that cannot be read is 0. */
#include "shared/clock.h"

#include <sys/resource.h>
#include <time.h>

#include "shared/base.h"

static clock_function *read_by = clock_gettime;

void clock_read_by(clock_function *function) { read_by = function; }

static int64_t read_clock(clockid_t clock) {
  struct timespec now;
  if (read_by(clock, &now)) return 0;
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_now_ns(void) { return read_clock(CLOCK_MONOTONIC); }

int64_t clock_thread_cpu_ns(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

static int64_t timeval_ns(struct timeval t) { return (int64_t)t.tv_sec * 1000000000 + (int64_t)t.tv_usec * 1000; }

void clock_thread_usage(int64_t *user_ns, int64_t *system_ns) {
  struct rusage usage;
  *user_ns = *system_ns = 0;
  if (getrusage(RUSAGE_THREAD, &usage)) return;
  *user_ns = timeval_ns(usage.ru_utime);
  *system_ns = timeval_ns(usage.ru_stime);
}
