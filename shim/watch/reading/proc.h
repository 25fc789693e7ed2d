/* The kernel's information about a thread or process, from /proc. Only the watcher's thread calls these functions. */
#ifndef SCALENE_TRACE_WATCH_READING_PROC_H
#define SCALENE_TRACE_WATCH_READING_PROC_H

#include <dirent.h>
#include <sys/types.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* A thread's schedstat. It is exact while the thread is off the CPU; if the thread runs, run_ns is up to a kernel tick
 * old. */
struct schedule {
  int64_t run_ns;   /* time on the CPU */
  int64_t delay_ns; /* time runnable without a CPU, not including a delay that has not ended yet */
  uint64_t count;   /* number of times that it got the CPU */
};
/* The system call in which a thread is blocked. */
struct system_call {
  int32_t number;     /* -1 = blocked outside of a system call (a page fault) */
  uint64_t arguments; /* the first argument */
  uintptr_t sp, pc;   /* the thread's stack pointer and instruction pointer */
};
/* The state of a thread: it has gone, the kernel refuses the read, or it is running or blocked. */
enum call_state { CALL_GONE, CALL_REFUSED, CALL_RUNNING, CALL_BLOCKED };

/* Opens the thread's schedstat and returns the descriptor; -1 = it cannot be opened (errno says why; EMFILE also if too
 * few descriptors would remain for the recorder). */
int proc_open_schedule(pid_t pid, pid_t tid);
/* Reads an open schedstat. False = the thread has gone. */
bool proc_schedule(int fd, struct schedule *out);
/* Returns the thread's state, and stores its system call if it is blocked. `kept_fd`: -1, or what an earlier call for this
 * thread has left there, which the caller closes in the end. */
enum call_state proc_call(int *kept_fd, pid_t pid, pid_t tid, struct system_call *out);
/* Returns the state letter of /proc/PID/stat; 0 = unknown. */
char proc_state(pid_t pid, pid_t tid);
/* True if the process has ended or is exiting. */
bool proc_ended(pid_t pid);
/* Returns the CPU time of the whole process in ns, by one system call; -1 = the process has gone. */
int64_t proc_clock_ns(pid_t pid);
/* Returns the kernel time of a thread in ns, in the kernel's steps of 10 ms; -1 = it has gone. */
int64_t proc_system_ns(pid_t pid, pid_t tid);
/* Returns when a thread began (CLOCK_MONOTONIC), in the kernel's steps; -1 = it has gone. */
int64_t proc_started_ns(pid_t pid, pid_t tid);
/* CPU time that a process and its threads have used, and the children that it has waited for, in the kernel's steps. */
struct usage {
  int64_t own_ns, children_ns;
};
/* False = the process has gone. */
bool proc_usage(pid_t pid, struct usage *out);
/* How often a thread has left a CPU: to wait, or because another one got it. */
struct switches {
  uint64_t waits, preemptions;
};
/* False = unknown. */
bool proc_switches(pid_t pid, pid_t tid, struct switches *out);
/* Stores the kernel's name of a thread, zero padded; leaves it as it is if the thread has gone. */
void proc_name(pid_t pid, pid_t tid, char *name, size_t size);
/* Opens the list of the threads of a process, which stays that of this process; null = it has gone, or there are too few
 * descriptors. */
DIR *proc_tasks(pid_t pid);
/* Returns the number of threads in an open list; 0 = the process has gone. */
uint32_t proc_count(DIR *tasks);
/* Returns a descriptor of the process; -1 = there is none. */
int proc_pid_fd(pid_t pid);
/* True if all threads of the process have ended. */
bool proc_has_ended(int pid_fd);
/* Stores how a process has ended whose parent has not waited for it yet, as waitpid gives it. False = unknown. */
bool proc_zombie_status(pid_t pid, int *status);
/* Stores where the process has the program headers of its executable, and their number. False = unknown. */
bool proc_program_headers(pid_t pid, uintptr_t *headers, uintptr_t *count);
/* Stores the path by which the file that the process maps at `address` is found, though only with privileges, and its inode.
 * False = none. */
bool proc_file_at(pid_t pid, uintptr_t address, char *path, size_t size, unsigned long *inode);
/* Returns the address at which the process `pid` maps what this process maps at `address` from a file; 0 = nowhere,
 * or it cannot be determined. */
uintptr_t proc_shared_at(pid_t pid, const void *address);

#pragma GCC visibility pop

#endif
