/* Tests kernel_clock.c: in a program whose clock_gettime is not libc's, as libfaketime's is not. */
#include "inside/core/kernel_clock.h"

#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>

#include "shared/clock.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "tests/check.h"

#define DAY_NS 86400000000000

static struct spool_header header = {.features = FEATURE_OTHER_CLOCK};
struct spool_header *spool = &header;

int clock_gettime(clockid_t clock, struct timespec *now) {
  long failed = syscall(SYS_clock_gettime, clock, now);
  now->tv_sec += 86400;
  return (int)failed;
}

static int64_t real_ns(clockid_t clock) {
  struct timespec now;
  check(syscall(SYS_clock_gettime, clock, &now) == 0);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int main(void) {
  safe_read_init();
  kernel_clock_ensure();
  check(clock_now_ns() - real_ns(CLOCK_MONOTONIC) > DAY_NS / 2);
  header.features = 0;
  kernel_clock_ensure();
  if (!getauxval(AT_SYSINFO_EHDR)) return 0; /* as under valgrind: there is no other clock */
  for (int i = 0; i < 1000; i++) {
    int64_t before = real_ns(CLOCK_MONOTONIC), now = clock_now_ns();
    check(before <= now && now <= real_ns(CLOCK_MONOTONIC));
    before = real_ns(CLOCK_THREAD_CPUTIME_ID), now = clock_thread_cpu_ns();
    check(before <= now && now <= real_ns(CLOCK_THREAD_CPUTIME_ID));
  }
  return 0;
}
