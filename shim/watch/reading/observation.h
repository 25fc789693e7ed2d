/* What one poll has observed of a task: of asyncio, or a greenlet. */
#ifndef SCALENE_TRACE_WATCH_READING_OBSERVATION_H
#define SCALENE_TRACE_WATCH_READING_OBSERVATION_H

#include "shared/base.h"

#define TASKS_AT_ONCE 256 /* tasks that are read at once */
enum task_state {
  TASK_GONE,   /* it does not count: the reference is dead, or no thread runs the task's loop */
  TASK_UNREAD, /* a task or coroutine of an unknown type */
  TASK_MOVING, /* it ran while it was being read */
  TASK_RUNNING,
  TASK_SUSPENDED
};
struct task_observation {
  uintptr_t task;        /* address of the object */
  uintptr_t coroutine;   /* that of its coroutine; of a greenlet: of its C++ object */
  uintptr_t name_object; /* that of its name; of a greenlet: of its dict of attributes */
  uintptr_t context;     /* of a task: that of its context */
  uintptr_t stack_start; /* of a suspended greenlet: an address on the C stack of its thread */
  uint64_t name_check;   /* of a suspended task: changes if the name changes */
  uint64_t stack;        /* hash of its innermost node; 0 = none */
  uint32_t thread;       /* id of the thread that runs its loop */
  enum task_state state;
  bool truncated;
  bool alone; /* it stands only for itself, even if one task stands for several */
  bool fresh; /* only a search of everything has found it, so it may have been there since the last one */
};

/* How the tasks of one kind are polled in one process. */
struct task_polls {
  uint32_t shift;                                    /* one task in 1 << shift is observed, */
  double weight;                                     /* and stands for this many */
  bool sampled, observed;                            /* shift was above 0 at some time; the last poll found tasks */
  bool rare;                                         /* some of their polls were far apart */
  uint32_t pass;                                     /* number of polls so far */
  uint32_t unread, unread_now, crowded, crowded_now; /* losses: the most in one poll so far, and those in this poll */
  int64_t polled_ns, due_ns;                         /* when the tasks were last polled, and when they are due again */
  int64_t burst_ns;                                  /* CPU time that polls may use at once */
  int64_t paid_until_ns;                             /* end of the time whose allowance of CPU time is used up */
  int64_t apart_ns;                                  /* CPU time of this poll that has a budget of its own */
  int64_t searched_ns;                               /* of greenlets: when everything was last searched for them */
  bool behind;                                       /* the process has run since the last poll */
};

#endif
