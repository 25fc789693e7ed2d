/* The names that Python's threading module gives the watched threads, which may change at any moment. Only the watcher's
 * thread calls these functions. */
#ifndef SCALENE_TRACE_WATCH_THREAD_NAMES_H
#define SCALENE_TRACE_WATCH_THREAD_NAMES_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* When the names of the threads of a process are read. */
struct thread_names {
  int64_t polled_ns;   /* when names were last read, */
  int64_t cost_ns;     /* and the CPU time that one of them took */
  int64_t rows_ns;     /* pause for the names that were written then */
  int64_t share;       /* reading them may take 1/share of a core; 0 = none was read yet */
  uint32_t pass;       /* number of times that all of them were read, or are being read */
  bool under_way;      /* names of this pass remain to be read */
  bool behind;         /* the process has run since the pass began */
  uintptr_t active;    /* address of threading._active, if its threads were not seen to begin; 0 = unknown */
  int64_t searched_ns; /* when it was last searched for */
};

struct process; /* threads.h */
/* Reads names of the process's threads if they are due, and writes those that have changed. `still`: the process has not
 * run since the last call; `all`: read all of them now. */
void thread_names_poll(struct process *process, int64_t now_ns, bool still, bool all);

#pragma GCC visibility pop

#endif
