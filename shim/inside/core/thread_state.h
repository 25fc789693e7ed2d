/* The state of the calling thread that several folders use: its ids, its timers and its clocks. */
#ifndef SCALENE_TRACE_CORE_THREAD_STATE_H
#define SCALENE_TRACE_CORE_THREAD_STATE_H

#include "shared/base.h"
#include "shared/objects/thread_name.h"

#pragma GCC visibility push(hidden)

/* What the last ticks of a short interval have cost (cpu/cost.c), in ns of the thread's CPU time. */
struct tick_cost {
  int64_t due_ns;          /* when the next tick is due; 0 = unknown */
  int64_t handlers_ns;     /* time in their handlers */
  int64_t least_beyond_ns; /* the least time that one came after it was due */
  int64_t before_ns;       /* what one of the window before has cost; 0 = there was none */
  int64_t ticks;
};

struct thread_state {
  uint32_t id;    /* 0 = not registered */
  uint32_t ended; /* 1 = its end record is written */
  int32_t tid;
  uint32_t table_entry; /* its entry in the thread table, from 1; 0 = none */
  uint32_t engine;      /* ENGINE_* */
  int32_t perf_fd;      /* -1 = none */
  int32_t old_perf_fd;  /* the previous, closed event, whose last signal may still be queued; -1 = none */
  int32_t perf_slot;    /* index of perf_fd in descriptors.c */
  int32_t fault_fd;     /* event of page faults (faults.c); -1 = none */
  int32_t old_fault_fd; /* as old_perf_fd */
  int32_t fault_slot;
  int32_t user_timer;   /* POSIX timer id for user time (engine posix); -1 = none */
  int32_t kernel_timer; /* POSIX timer id for kernel time (both engines); -1 = none */
  int64_t cpu_start_ns; /* clock and usage when the recording of this thread began */
  int64_t user_start_ns;
  int64_t system_start_ns;
  int64_t system_seen_ns;      /* kernel time that samples account for */
  int64_t user_system_seen_ns; /* engine posix: kernel time at the last user tick */
  int64_t user_carry_ns;       /* engine posix: weight of ticks that arrived during kernel time */
  int64_t next_user_ns;        /* engine posix: CPU time of the next tick */
  int64_t perf_user_ns;        /* user time at the last perf tick; -1 = to be filled in */
  int64_t mean_ns;             /* mean interval that the running period was drawn from: the weight of its tick */
  struct tick_cost tick_cost;
  bool paused;       /* this thread has noticed that the recording is paused */
  int64_t ask_at_ns; /* CPU time of the thread at which it asks again whether the recording is paused */
  bool perf_expired; /* the timer fired during the pause and was not set again */
  bool user_expired;
  uint32_t scarcities;   /* timers_scarcities() before this thread lost its timer */
  int64_t paused_cpu_ns; /* clock and usage of this thread's pauses; during a pause, minus the clocks at its start */
  int64_t paused_user_ns;
  int64_t paused_system_ns;
  uint64_t random;
  void *fault_pages;     /* the mapping of fault_fd, in which the kernel writes addresses */
  uint64_t fault_period; /* the drawn number of faults until the event fires, and the mean that it was drawn from */
  uint64_t fault_mean;
  int64_t fault_ns;          /* when it last fired */
  uint32_t fault_scarcities; /* timers_scarcities() before it was tried */
  bool faults_tried;         /* it was opened or refused */
  bool faults_expired;       /* it fired during a pause and was not set again */
  uintptr_t python_thread;   /* address of the Thread object that began it; 0 = unknown, or not begun by Python */
  uint64_t name;             /* hash of the Thread's name as last written to the spool; 0 = none */
  struct thread_name_seen name_seen;
  uint32_t session; /* memory_session when it was registered */
};
extern THREAD_LOCAL struct thread_state this_thread;

/* A part of the thread's C stack that is mapped as far as it is in use: from the stack pointer, if it lies inside,
 * up to `high`. 0 = unknown, in a thread whose start was not observed. */
struct thread_stack {
  uintptr_t low, high;
};
extern THREAD_LOCAL struct thread_stack this_stack;
/* True if the bytes lie in the calling thread's C stack and are mapped. False if the thread runs on another stack
 * than the one it began with. Context: malloc. */
static inline bool thread_stack_holds(uintptr_t address, size_t bytes) {
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  return here >= this_stack.low && address > here && address < this_stack.high && bytes <= this_stack.high - address;
}
/* The program's first thread calls it with an address at the upper end of its stack. Context: normal. */
void thread_stack_of_first(uintptr_t high);
/* A thread that was started with a stack of that size calls it first. Context: normal. */
void thread_stack_begin(size_t bytes);
/* Registers the calling thread unless it is registered: a thread whose start was not observed. Context: malloc. */
void thread_ensure(void);
/* Sets the function that thread_ensure calls. Called once, at load. Context: normal. */
void thread_set_begin(void (*begin)(bool from_now));
/* Returns the number of recorded threads that are alive, at least 1. Context: signal. */
int threads_live(void);
/* Adds `change` (1 or -1) to the number of recorded threads. Context: signal. */
void threads_count(int change);
/* Sets the number of recorded threads to 0: a forked child has none of its parent's threads. Context: signal. */
void threads_count_none(void);

#pragma GCC visibility pop

#endif
