/* Tasks of asyncio: where they are suspended, their names, and for how long. */
#ifndef SCALENE_TRACE_WATCH_TASKS_H
#define SCALENE_TRACE_WATCH_TASKS_H

#include "shared/base.h"
#include "watch/threads.h"

#pragma GCC visibility push(hidden)

/* ---- awaits.c: where tasks are suspended ---- */

#define AWAITS_BLOCK 256
enum task_state {
  TASK_GONE,   /* there is none, or its loop does not run */
  TASK_UNREAD, /* one that is not understood */
  TASK_MOVING, /* it ran while it was read */
  TASK_RUNNING,
  TASK_SUSPENDED
};
/* A task as it was met. */
struct task_observation {
  uintptr_t task, coroutine, name_object;
  uint64_t name_check; /* of a suspended one: differs where the name does */
  uint64_t stack;
  uint32_t thread;
  enum task_state state;
  bool truncated;
};
/* Looks at the tasks behind at most AWAITS_BLOCK weak references. */
void awaits_read(struct process *process, const uintptr_t *references, struct task_observation *observations, int count,
                 int64_t now_ns);

/* ---- names.c: names of tasks ---- */

#define NAME_HEAD 40  /* bytes of a name's object, at least, */
#define NAME_PEEK 104 /* and those that names_check looks at */
struct task_name {
  uint64_t prefix; /* hash of what is before the number, written to the spool; 0 = not known */
  int64_t number;  /* -1 = none */
};
/* `bytes`: the first NAME_PEEK of the object. */
uint64_t names_check(uintptr_t object, const char *bytes);
bool names_read(struct process *process, uintptr_t object, struct task_name *out);

/* ---- tasks.c: how long tasks are suspended ---- */

/* Looks at the tasks of the process if that is due; `all`: anyway. still: nothing of it has run since the last call. */
void tasks_poll(struct process *process, int64_t now_ns, bool still, bool all);
/* No more looks: what is known is written. */
void tasks_end(struct process *process, int64_t now_ns);

#pragma GCC visibility pop

#endif
