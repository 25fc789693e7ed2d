/* Deadlines of CLOCK_MONOTONIC: a call that waits is repeated after our own signals, with the rest of its timeout. */
#ifndef SCALENE_TRACE_SIGNALS_DEADLINE_H
#define SCALENE_TRACE_SIGNALS_DEADLINE_H

#include <time.h>

#include "shared/base.h"

/* Returns the time until the deadline; 0 if it has passed. Context: signal. */
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

/* Stores the time at which the timeout, which begins now, ends. Null means a timeout of INT32_MAX seconds, and longer
 * ones are cut to that. Context: signal. */
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
