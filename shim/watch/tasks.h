/* Tasks of asyncio, and greenlets: where they are suspended, for how long, and their names. Only the watcher's thread calls these
 * functions. */
#ifndef SCALENE_TRACE_WATCH_TASKS_H
#define SCALENE_TRACE_WATCH_TASKS_H

#include "shared/base.h"
#include "watch/reading/observation.h"
#include "watch/threads.h"

#pragma GCC visibility push(hidden)

/* ---- awaits.c: where tasks are suspended ---- */

/* Reads `count` (at most TASKS_AT_ONCE) tasks. `references` are their addresses, or those of weak references to them. */
void awaits_read(struct process *process, const uintptr_t *references, struct task_observation *observations, int count,
                 int64_t now_ns);

/* ---- names.c: names of tasks ---- */

#define NAME_PEEK 104 /* bytes of the object that names_check uses */
struct task_name {
  uint64_t prefix; /* hash of the text before the number, which is in the spool; 0 = unknown */
  int64_t number;  /* -1 = none */
};
/* Returns a hash that changes if another object becomes the name, or the beginning of its text changes. `bytes` holds
 * the first NAME_PEEK bytes of the name's object. */
uint64_t names_check(uintptr_t object, const char *bytes);
/* Reads the name and writes its text to the spool if it is new. False = it cannot be read. */
bool names_read(struct process *process, uintptr_t object, struct task_name *out);
/* The same for a greenlet: the name that the program has given to it, else that of its class. */
void names_of_greenlet(struct process *process, const struct task_observation *greenlet, struct task_name *out);

/* ---- tasks.c: how long tasks are suspended ---- */

/* Polls the tasks of the process if they are due; `all`: even if not. `still`: the process has not run since the last
 * call. */
void tasks_poll(struct process *process, int64_t now_ns, bool still, bool all);
/* Closes the accounts of all tasks of the process, which is not polled any more. */
void tasks_end(struct process *process, int64_t now_ns);
/* Publishes what is known of suspended tasks of all processes, whatever is due. */
void tasks_publish(void);

#pragma GCC visibility pop

#endif
