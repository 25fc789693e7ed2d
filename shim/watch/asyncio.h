/* Where a process keeps its tasks, and which thread runs which event loop. */
#ifndef SCALENE_TRACE_WATCH_ASYNCIO_H
#define SCALENE_TRACE_WATCH_ASYNCIO_H

#include "shared/base.h"
#include "watch/reading/remote.h"

#pragma GCC visibility push(hidden)

#define LOOPS 16
struct event_loop {
  uintptr_t loop;
  uint32_t thread;
};
struct asyncio {
  struct kinds kinds;
  uintptr_t modules, module, tasks; /* the dict of modules, asyncio.tasks in it, and its set of tasks; 0 = not found */
  uintptr_t modules_used;           /* how many modules there were at the last scan */
  int64_t scanned_ns;
  struct event_loop loops[LOOPS];
  uint32_t loop_turn;
  int64_t loops_ns;                                  /* when to search again for a loop's thread */
  int coroutine_at;                                  /* offset in a task; 0 = not known yet */
  uint32_t shift;                                    /* one task in 1 << shift is looked at, */
  double weight;                                     /* and stands for so many */
  bool sampled, observed;                            /* was shift ever above 0; did the last look meet tasks */
  uint32_t pass;                                     /* counts looks */
  uint32_t unread, unread_now, crowded, crowded_now; /* the most of a look so far, and of this one */
  int64_t polled_ns, due_ns;
  bool behind; /* the process has run since the last look */
};

struct process; /* threads.h */

/* Is it known where the process has its tasks? Searched for now and then. */
bool asyncio_find(struct process *process, uintptr_t runtime, int64_t now_ns);
/* The thread that runs this event loop; 0 = none is known to. */
uint32_t asyncio_thread(struct process *process, uintptr_t loop, int64_t now_ns);
/* Where a task has its coroutine; 0 = not known. */
int asyncio_coroutine_at(struct process *process, uintptr_t task);

#pragma GCC visibility pop

#endif
