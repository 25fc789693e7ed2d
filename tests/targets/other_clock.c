/* A library that is preloaded, as libfaketime is: the monotonic clock of the process is a day behind the kernel's. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
  long result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && clock == CLOCK_MONOTONIC) now->tv_sec -= 86400;
  return (int)result;
}
