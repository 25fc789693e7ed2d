/* Where an observed process keeps its asyncio tasks, and which thread runs which event loop. Only the watcher's thread
 * calls these functions. */
#ifndef SCALENE_TRACE_WATCH_ASYNCIO_H
#define SCALENE_TRACE_WATCH_ASYNCIO_H

#include "shared/base.h"
#include "watch/reading/observation.h"
#include "watch/reading/remote.h"

#pragma GCC visibility push(hidden)

#define LOOPS 16
/* An event loop object and the thread that runs it. */
struct event_loop {
  uintptr_t loop;
  uint32_t thread;
};
/* What is known about the tasks of one process. */
struct asyncio {
  struct task_polls polls;
  struct kinds kinds;
  uintptr_t modules, module, tasks; /* addresses of sys.modules, asyncio.tasks and its set of tasks; 0 = not found */
  uintptr_t modules_used;           /* number of modules at the last search */
  int64_t scanned_ns;               /* when the modules were last searched */
  struct event_loop loops[LOOPS];
  uint32_t loop_turn;      /* the next entry of loops to replace, modulo LOOPS */
  int64_t loops_ns;        /* when to search again for the thread of an unknown loop */
  int coroutine_at;        /* offset of the coroutine in a task; 0 = unknown yet */
  int node_at;             /* 3.14: offset of the node that links the tasks; 0 = unknown yet */
  uint32_t listed, broken; /* tasks in lists at the last poll; polls whose lists were torn */
};

struct process; /* threads.h */

/* Returns the address of the process's dict of modules; 0 = not found. */
uintptr_t asyncio_modules(struct process *process, uintptr_t runtime);
/* Returns true if the address of the process's set of tasks is known. Else searches for it, at a limited rate;
 * `runtime` is the address of _PyRuntime. */
bool asyncio_find(struct process *process, uintptr_t runtime, int64_t now_ns);
/* Returns the id of the thread that runs this event loop; 0 = unknown, or no thread runs it. */
uint32_t asyncio_thread(struct process *process, uintptr_t loop, int64_t now_ns);
#define TASK_LISTS 16384
/* From 3.14 on: stores the addresses of the heads of the lists of tasks that are not empty, and returns their number. If
 * there are more than TASK_LISTS, the others are counted in unread_now. */
int asyncio_lists(struct process *process, uintptr_t runtime, uintptr_t *heads);
/* Returns the address of the task with this node in a list; 0 = it is not a task. */
uintptr_t asyncio_task_of(struct process *process, uintptr_t node);
/* Returns the offset of the coroutine in task objects; 0 = unknown. `task` is the address of a task, in which it is
 * searched if it is unknown. */
int asyncio_coroutine_at(struct process *process, uintptr_t task);

#pragma GCC visibility pop

#endif
