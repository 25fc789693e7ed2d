/* Which threads are watched, and which wait their time is charged to.
 *
 * The watcher is a thread of the recorder that observes from outside which threads of the recorded processes wait, and
 * where. It only reads: /proc, and memory by process_vm_readv. It never stops, signals or traces anything. Everything here
 * runs in that one thread, except scalene_watch_stop. docs/design/waits.md has the reasons. */
#ifndef SCALENE_TRACE_WATCH_THREADS_H
#define SCALENE_TRACE_WATCH_THREADS_H

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/stacks/pylayout.h"
#include "watch/asyncio.h"
#include "watch/reading/proc.h"

#pragma GCC visibility push(hidden)

/* A wait, or what has passed of it. Invariant: 0 <= facts.waited_ns <= facts.end_ns - facts.t_ns. */
struct wait {
  struct record_wait facts;   /* wait_class 0 = none */
  struct record_wait *record; /* where it is published; null = not yet */
};

enum condition { CONDITION_NEW, CONDITION_RUNNING, CONDITION_BLOCKED };

/* A thread, at the place of its entry on the thread table. Invariant, at a look that finds it blocked: charged_ns == time since
 * base_ns - time on the CPU - delay. So what no look has met is owed, and goes to the next wait that is met. */
struct watched {
  struct thread_entry entry; /* a copy; thread 0 = nothing is watched here */
  struct process *process;
  struct watched *next; /* of the same process */
  int schedule_fd;
  enum condition condition; /* at the last look */
  struct schedule seen;     /* then */
  int64_t polled_ns;        /* when that was */
  int64_t due_ns;           /* when to look again */
  int64_t blocked_ns;       /* since when it has not run */
  int64_t base_delay_ns;
  int64_t charged_ns;       /* waiting time given to waits so far */
  int64_t delay_charged_ns; /* the same of delays */
  struct wait wait, runnable;
  uint64_t stack;       /* the last one that was read */
  uintptr_t state;      /* its PyThreadState; 0 = not known */
  uint32_t state_tries; /* how often it was not found */
};

#define REFUSED 3
struct process {
  uint32_t id; /* 0 = free */
  pid_t pid;
  struct watched *threads;
  uint32_t count;
  uint32_t refusals; /* looks that the kernel has refused, one after the other; REFUSED: no more are taken */
  const struct python_layout *layout;
  bool layout_known;
  bool resting;        /* every thread was blocked at the last pass */
  int64_t clock_ns;    /* CPU time at the last pass */
  int64_t quiet_ns;    /* until when nothing is known to have run */
  int64_t idle_ns;     /* since when */
  int64_t refresh_ns;  /* when to look at the threads though nothing has run */
  int64_t searched_ns; /* when its thread states were last searched */
  struct asyncio asyncio;
};

/* The process of this thread may not be looked at: nobody tries again, and the loss is counted once, whoever finds out first.
 * One that has ended meanwhile cannot be looked at either, and is none. */
static inline void process_give_up(struct watched *thread) {
  struct process *process = thread->process;
  if (process->refusals < REFUSED && !proc_ended(process->pid)) loss_add(LOSS_waits_off);
  process->refusals = REFUSED;
}

/* Its entry is no longer what it was: the thread has ended, or takes its process to another image, whose memory may already be
 * what is read there. */
bool threads_left(const struct watched *thread);

/* Takes in what has changed on the thread table. */
void threads_update(int64_t now_ns);
/* Looks at every thread that is due; `all`: at all of them. */
void threads_poll(int64_t now_ns, bool all);
/* Takes a last look, and watches nobody until threads_resume; what passed in between is nobody's. */
void threads_pause(int64_t now_ns);
void threads_resume(int64_t now_ns);
/* How many processes there are, and since when all have been idle (now_ns if one is not). */
uint32_t threads_processes(void);
int64_t threads_idle_since(int64_t now_ns);

/* ---- account.c: whose waiting time is it ---- */

/* Time counts from the thread's start, or from `since_ns` if that is later. */
void account_begin(struct watched *thread, int64_t since_ns);
/* One look. false = the thread is gone. */
bool account_observe(struct watched *thread, int64_t period_ns);
/* The thread was blocked at the last look, and has not run since. */
void account_rest(struct watched *thread, int64_t t_ns);
/* The thread was blocked until `until_ns`, or ended as its entry says. */
void account_gone(struct watched *thread, int64_t until_ns);
void account_ended(struct watched *thread);

#pragma GCC visibility pop

#endif
