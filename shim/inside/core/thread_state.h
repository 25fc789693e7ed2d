/* What is known of the calling thread. */
#ifndef SCALENE_TRACE_CORE_THREAD_STATE_H
#define SCALENE_TRACE_CORE_THREAD_STATE_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

struct thread_state {
  uint32_t id;    /* 0 = not registered */
  uint32_t ended; /* its end record is written */
  int32_t tid;
  uint32_t table_entry; /* its entry of the thread table, from 1; 0 = none */
  uint32_t engine;      /* ENGINE_* */
  int32_t perf_fd;      /* -1 = none */
  int32_t perf_was;     /* the one before, whose last signal may still be on its way; -1 = none */
  int32_t perf_slot;    /* where descriptors.c lists the descriptor */
  int32_t user_timer;   /* POSIX timer ids, -1 = none: user time (engine posix), */
  int32_t kernel_timer; /* kernel time (both engines) */
  int64_t cpu_start_ns; /* clock and usage when recording of this thread began */
  int64_t user_start_ns;
  int64_t system_start_ns;
  int64_t system_seen_ns;      /* kernel time already looked at */
  int64_t user_system_seen_ns; /* engine posix: kernel time at the last user tick */
  int64_t user_carry_ns;       /* engine posix: weight of ticks that fell on kernel time */
  int64_t next_user_ns;        /* engine posix: CPU time of the next tick */
  int64_t perf_user_ns;        /* user time at the last perf tick */
  int64_t mean_ns;             /* the interval that the running period was drawn under: what its tick stands for */
  bool standing;               /* the recording is paused, and this thread has noticed */
  bool perf_spent, user_spent; /* the timer fired meanwhile and was not set again */
  int64_t unseen_cpu_ns;       /* clock and usage of the thread's pauses; while standing, less the clocks at the */
  int64_t unseen_user_ns;      /* beginning of this one */
  int64_t unseen_system_ns;
  uint64_t random;
};
extern THREAD_LOCAL struct thread_state this_thread;

/* Makes the calling thread known, unless it is: a thread that nobody saw begin. Context: malloc. */
void thread_ensure(void);
/* What thread_ensure calls. Context: normal. */
void thread_set_begin(void (*begin)(bool from_now));
/* How many threads are recorded, at least 1. Context: signal. */
int threads_live(void);
/* One more (1) or less (-1). Context: signal. */
void threads_count(int change);
/* None is left: a forked child has none of its parent's. Context: signal. */
void threads_count_none(void);

#pragma GCC visibility pop

#endif
