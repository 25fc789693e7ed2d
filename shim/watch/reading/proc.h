/* What the kernel tells of a thread of another process. */
#ifndef SCALENE_TRACE_WATCH_READING_PROC_H
#define SCALENE_TRACE_WATCH_READING_PROC_H

#include <sys/types.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* A thread's schedstat. Exact while the thread is off the CPU; of one that runs it is up to a tick old. */
struct schedule {
  int64_t run_ns;
  int64_t delay_ns; /* runnable but not running, without a delay that is not over */
  uint64_t count;   /* how often it got the CPU */
};
/* What a thread is blocked in. */
struct system_call {
  int32_t number;     /* -1 = blocked outside of system calls (a page fault) */
  uint64_t arguments; /* the first of them */
};
enum call_state { CALL_GONE, CALL_REFUSED, CALL_RUNNING, CALL_BLOCKED };

int proc_open_schedule(pid_t pid, pid_t tid); /* -1 = gone, or no descriptor to be had */
bool proc_schedule(int fd, struct schedule *out);
enum call_state proc_call(pid_t pid, pid_t tid, struct system_call *out);
char proc_state(pid_t pid, pid_t tid); /* as in /proc/PID/stat; 0 = not known */
bool proc_ended(pid_t pid);            /* or is just ending */
/* CPU time of the whole process, without asking its threads one by one. -1 = gone. */
int64_t proc_clock_ns(pid_t pid);

/* Is the file that is mapped at `address` here mapped there, too? Also true where that cannot be told. */
bool proc_shares_file(pid_t pid, const void *address);

#pragma GCC visibility pop

#endif
