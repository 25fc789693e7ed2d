/* The watched threads and processes, and the accounting of their waiting time.
 *
 * The watcher is a thread of the recorder that observes from outside which threads of the recorded processes wait, and
 * where. It only reads: /proc, and the memory of the processes by process_vm_readv. It never stops, signals or traces
 * them. All code in watch/ runs in this one thread, except scalene_watch_stop, so it needs no locks.
 * docs/design/waits.md gives the reasons. */
#ifndef SCALENE_TRACE_WATCH_THREADS_H
#define SCALENE_TRACE_WATCH_THREADS_H

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/stacks/pylayout.h"
#include "watch/asyncio.h"
#include "watch/attached/attached.h"
#include "watch/greenlets/greenlets.h"
#include "watch/native/images.h"
#include "watch/native/sampled.h"
#include "watch/reading/labels.h"
#include "watch/reading/proc.h"
#include "watch/thread_names.h"

#pragma GCC visibility push(hidden)

/* A wait, as far as it was observed. Invariant: 0 <= facts.waited_ns <= facts.end_ns - facts.t_ns. */
struct wait {
  struct record_wait facts;   /* wait_class 0 = not a wait */
  struct record_wait *record; /* its published record; null = not published yet */
  uint64_t chunk;             /* spool_chunk() of that record */
  uintptr_t sp, pc;           /* registers of the thread when it was last observed there */
  uint64_t count;             /* schedule.count when it was first observed: the same = the thread has not run since */
  uint32_t torn_reads;        /* reads of its Python stack that have found it torn */
  bool has_stack;             /* it was read whole, from the thread's state */
  bool torn;                  /* or else it was found, but could not be read */
  bool mixed;                 /* it was observed with other registers before */
  bool put_off;               /* its native stack is to be read later */
  bool is_read;               /* its native stack was read with these registers, or cannot be read */
};

/* Of a thread that runs: what is still to be charged to its last wait. */
struct rest {
  bool is_open;
  int64_t most_ns, least_ns; /* it is not more, and most probably not less */
  int64_t ran_ns, run_ns;    /* when the thread was last observed running, and its time on the CPU by schedstat */
};

enum condition { CONDITION_NEW, CONDITION_RUNNING, CONDITION_BLOCKED };

/* A watched thread, at the index of its entry in the thread table. Invariant after a poll that found it blocked:
 * charged_ns == time since entry.start_ns - time on the CPU - delay. Time that no poll has observed is therefore owed,
 * and is charged to the next wait that is observed. */
struct watched {
  struct thread_entry entry; /* a checked copy of its entry; state 0 = no thread is watched here */
  struct process *process;
  struct watched *next;     /* the next thread of the same process */
  int schedule_fd, call_fd; /* its schedstat and syscall; -1 = not open */
  enum condition condition; /* found by the last poll */
  struct schedule seen;     /* its schedstat at the last poll */
  int64_t polled_ns;        /* time of the last poll */
  int64_t due_ns;           /* time of the next poll */
  int64_t blocked_ns;       /* when the current wait was first observed */
  int64_t base_delay_ns;    /* schedule.delay_ns when its account began */
  int64_t charged_ns;       /* waiting time charged to waits so far */
  int64_t delay_charged_ns; /* delay charged to runnable waits so far */
  struct wait wait, runnable;
  struct rest rest;
  uint64_t stack;       /* hash of the last stack that was read */
  uintptr_t state;      /* address of its PyThreadState; 0 = unknown */
  uint32_t state_tries; /* number of attempts to find the PyThreadState */
  int64_t python_ns;    /* when its interpreter became known, or it began if that is later */
  uint64_t name;        /* hash of its Python name as last written to the spool; 0 = none */
  uint32_t name_pass;   /* process.thread_names.pass when its name was last read */
};

/* Number of successive refusals after which a process is not read any more. */
#define REFUSED 3
#define GIVEN_UP 100 /* after which it is counted for an attached process, which is asked again all the same */
/* A recorded process with at least one watched thread. */
struct process {
  uint32_t id; /* 0 = free */
  pid_t pid;
  struct watched *threads;
  uint32_t count;
  uint32_t given_up; /* how often an attached process could not be read, one time after the other */
  uint32_t refusals; /* successive polls that the kernel has refused; REFUSED = the process is not polled any more */
  struct attached *attached; /* null = the recorder has started it, or one of its ancestors */
  uintptr_t challenge;       /* address of spool->challenge in its memory; 0 = reads need no proof */
  const struct python_layout *layout;
  struct python_layout published; /* the layout, if its interpreter publishes one */
  uint64_t runtime;               /* thread_entry.runtime that the layout was chosen for; 0 = none was chosen */
  bool resting;                   /* every thread was blocked at the last pass */
  int64_t clock_ns;               /* CPU time at the last pass */
  int64_t quiet_ns;               /* none of its threads has run from idle_ns ... */
  int64_t idle_ns;                /* ... until quiet_ns */
  int64_t refresh_ns;             /* when to extend the waits of its threads although none has run */
  int64_t searched_ns;            /* when its thread states were last searched for */
  int tid_place; /* offset of a thread's id from Python's ident, in an attached process; 0 = it was not found yet */
  struct asyncio asyncio;
  struct label_source labels;
  struct greenlets greenlets;
  struct thread_names thread_names;
  struct remote_images images;
  struct sampled_code code;
  int64_t native_debt_ns; /* CPU time that its native stacks have taken until native_ns, less what was granted */
  int64_t native_ns;
};

/* Stops reading the process of this thread for good, and counts the loss once. A process that has ended cannot be read
 * either, but that is not a loss. An attached process is asked again. */
static inline void process_give_up(struct watched *thread) {
  struct process *process = thread->process;
  if (process->attached) { /* it is calling exec, or was seen before its memory was there */
    process->runtime = 0;
    if (++process->given_up == GIVEN_UP && !proc_ended(process->pid)) loss_add(LOSS_waits_off);
    return;
  }
  if (process->refusals < REFUSED && !proc_ended(process->pid)) loss_add(LOSS_waits_off);
  process->refusals = REFUSED;
}

/* Returns the id by which the memory of the thread's process is read. Once its first thread has ended, the pid does not lead
 * there any more; a recorded process must be read by it all the same, as it proves that it is recorded. */
static inline pid_t process_reads_by(const struct watched *thread) {
  return thread->process->attached ? thread->entry.tid : thread->entry.pid;
}

/* True if the thread's entry has changed: the thread has ended, or its process calls exec. The memory that is read may
 * then already belong to the next image. */
bool threads_left(const struct watched *thread);

/* Returns the index of the thread's entry in the thread table. */
uint32_t threads_index(const struct watched *thread);
/* Of a thread in an attached process, Python's ident or Thread was found. */
void threads_set_ident(struct watched *thread, uint64_t ident);
void threads_set_python_thread(struct watched *thread, uintptr_t object);

/* Reads the changes of the thread table: begins to watch new threads, and closes the accounts of those that have
 * ended. */
void threads_update(int64_t now_ns);
/* Polls every thread that is due; `all`: every thread. `now_ns` is CLOCK_MONOTONIC, here and below. */
void threads_poll(int64_t now_ns, bool all);
/* Polls every thread that has begun in this pass, which began at `now_ns`. */
void threads_poll_new(int64_t now_ns);
/* Writes the ticks of attached threads that events_wait has found sampled. */
void threads_take_samples(void);
/* Polls all threads a last time and stops watching them until threads_resume. */
void threads_pause(int64_t now_ns);
/* Watches all threads of the table again. The time of the pause is charged to no wait. */
void threads_resume(int64_t now_ns);
/* Returns the number of watched processes. */
uint32_t threads_processes(void);
/* Returns when a thread was last found to have begun, or to wait after it had run. */
int64_t threads_steady_since(void);
/* Returns since when all of them have been idle, that is, when one was last found not to be idle; now_ns if there are
 * none. */
int64_t threads_idle_since(int64_t now_ns);

/* ---- account.c: which wait a thread's time is charged to ---- */

/* Begins the account of a thread. Its time counts from the thread's start, or from `since_ns` if that is later. */
void account_begin(struct watched *thread, int64_t since_ns);
/* True if a poll of the thread finds nothing new as long as it does not run. */
bool account_rests(const struct watched *thread);
/* Polls the thread once; `period_ns` is the pause between passes. False = the thread does not exist any more. */
bool account_observe(struct watched *thread, int64_t period_ns);
/* Extends the wait of a thread that was blocked at the last poll and has not run since then, until `t_ns`. */
void account_rest(struct watched *thread, int64_t t_ns);
/* Charges the rest of the last wait of a thread that runs, whose next wait will not be observed. */
void account_settle(struct watched *thread);
/* Ends the account of a thread that is not polled any more: its last wait is settled, and what was not read of it is a loss. */
void account_forget(struct watched *thread);
/* Closes the account of a thread that has gone without ending its entry (it was killed). If it was blocked, it was so
 * until `until_ns`. */
void account_gone(struct watched *thread, int64_t until_ns);
/* Closes the account of a thread that has ended, with the times in its entry. */
void account_ended(struct watched *thread);

#pragma GCC visibility pop

#endif
