/* Deadlines of CLOCK_MONOTONIC for a call that waits, and is repeated. */
#ifndef SCALENE_TRACE_SIGNALS_DEADLINE_H
#define SCALENE_TRACE_SIGNALS_DEADLINE_H

#include <time.h>

#include "shared/base.h"

static inline struct timespec deadline_left(const struct timespec *deadline) {
  struct timespec now, left;
  clock_gettime(CLOCK_MONOTONIC, &now);
  left.tv_sec = deadline->tv_sec - now.tv_sec;
  left.tv_nsec = deadline->tv_nsec - now.tv_nsec;
  if (left.tv_nsec < 0) {
    left.tv_sec--;
    left.tv_nsec += 1000000000;
  }
  return left.tv_sec < 0 ? (struct timespec){0, 0} : left;
}

static inline void deadline_after(struct timespec *deadline, const struct timespec *timeout) {
  const time_t forever_s = INT32_MAX;
  clock_gettime(CLOCK_MONOTONIC, deadline);
  deadline->tv_sec += timeout == NULL || timeout->tv_sec > forever_s ? forever_s : timeout->tv_sec;
  deadline->tv_nsec += timeout == NULL ? 0 : timeout->tv_nsec;
  if (deadline->tv_nsec >= 1000000000) {
    deadline->tv_sec++;
    deadline->tv_nsec -= 1000000000;
  }
}

#endif
