/* The watcher: a thread of the recorder that looks from outside which threads of the recorded processes wait, and where.
 *
 * It only reads: /proc, and memory by process_vm_readv. It never stops, signals or traces anything. Everything here runs
 * in that one thread, but for scalene_watch_stop. docs/design/waits.md has the reasons. */
#ifndef SCALENE_TRACE_WATCH_H
#define SCALENE_TRACE_WATCH_H

#include "pylayout.h"
#include "shim.h"

#pragma GCC visibility push(hidden)

/* ---- proc.c: what the kernel tells of a thread ---- */

/* A thread's schedstat. Exact while the thread is off the CPU; of one that runs it is up to a tick old. */
struct schedule {
  int64_t run_ns;
  int64_t delay_ns; /* runnable but not running, without a delay that is not over */
  uint64_t count;   /* how often it got the CPU */
};
/* What a thread is blocked in. */
struct system_call {
  int32_t number;     /* -1 = blocked outside of system calls (a page fault) */
  uint64_t arguments; /* the first of them */
};
enum answer { ANSWER_GONE, ANSWER_REFUSED, ANSWER_RUNNING, ANSWER_BLOCKED };

int proc_open_schedule(pid_t pid, pid_t tid); /* -1 = gone, or no descriptor to be had */
bool proc_schedule(int fd, struct schedule *out);
enum answer proc_call(pid_t pid, pid_t tid, struct system_call *out);
char proc_state(pid_t pid, pid_t tid); /* as in /proc/PID/stat; 0 = not known */
bool proc_ended(pid_t pid);            /* or is just ending */
/* CPU time of the whole process, without asking its threads one by one. -1 = gone. */
int64_t proc_clock_ns(pid_t pid);

/* Is the file that is mapped at `address` here mapped there, too? Also true where that cannot be told. */
bool proc_shares_file(pid_t pid, const void *address);

/* ---- threads.c: what is watched ---- */

/* A wait, or what has passed of it. Invariant: 0 <= facts.waited_ns <= facts.end_ns - facts.t_ns. */
struct wait {
  struct record_wait facts;   /* wait_class 0 = none */
  struct record_wait *record; /* where it is published; null = not yet */
};

enum condition { CONDITION_NEW, CONDITION_RUNNING, CONDITION_BLOCKED };

/* A thread, at the place of its entry on the board. Invariant, at a look that finds it blocked: charged_ns == time since
 * base_ns - time on the CPU - delay. So what no look has met is owed, and goes to the next wait that is met. */
struct watched {
  struct board_entry entry; /* a copy; thread 0 = nothing is watched here */
  struct process *process;
  struct watched *next; /* of the same process */
  int schedule_fd;
  enum condition condition; /* at the last look */
  struct schedule seen;     /* then */
  int64_t looked_ns;        /* when that was */
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

/* ---- remote.c: Python objects of another process ---- */

enum kind {
  KIND_OTHER,
  KIND_DICT,
  KIND_SET,
  KIND_STR,
  KIND_INT,
  KIND_REFERENCE,
  KIND_TASK,
  KIND_HOLDER, /* of the running event loop */
  KIND_COROUTINE,
  KIND_GENERATOR,
  KIND_ASYNC_GENERATOR,
  KIND_WRAPPER /* stands for the object that it holds first */
};
#define KINDS 64
/* The types that were met in a process. */
struct kinds {
  uint32_t count; /* more than KINDS: some were replaced */
  struct {
    uintptr_t type;
    enum kind kind;
  } known[KINDS];
};

/* ---- asyncio.c: where a process keeps its tasks ---- */

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
  bool sampled, met;                                 /* was shift ever above 0; did the last look meet tasks */
  uint32_t pass;                                     /* counts looks */
  uint32_t unread, unread_now, crowded, crowded_now; /* the most of a look so far, and of this one */
  int64_t looked_ns, due_ns;
  bool behind; /* the process has run since the last look */
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

/* Takes in what has changed on the board. */
void threads_update(int64_t now_ns);
/* Looks at every thread that is due; `all`: at all of them. */
void threads_look(int64_t now_ns, bool all);
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
bool account_look(struct watched *thread, int64_t period_ns);
/* The thread was blocked at the last look, and has not run since. */
void account_rest(struct watched *thread, int64_t t_ns);
/* The thread was blocked until `until_ns`, or ended as its entry says. */
void account_gone(struct watched *thread, int64_t until_ns);
void account_ended(struct watched *thread);

/* ---- stack.c: the Python stack of a thread of another process ---- */

/* Hash of its innermost node, 0 = none; false = torn. The caller sees to it that the thread does not run meanwhile;
 * `moving`: it may, so the innermost frame must be the same before and after. */
bool stack_read(struct watched *thread, bool moving, uint64_t *hash);
/* Everything that is read from here on is of the thread's process. false = nothing of its Python is known. */
bool stack_aim(struct watched *thread);
/* Its PyThreadState, searched for where it is not known yet; 0 = there is none. */
uintptr_t stack_state(struct watched *thread, int64_t now_ns);

/* ---- remote.c: Python objects of another process (the one that stack_aim aimed at) ---- */

uintptr_t remote_at(const char *bytes, int offset);
uintptr_t remote_word(uintptr_t address); /* 0 = not readable */
/* `size` bytes from each of `count` addresses, one behind the other; zeros where they cannot be read. */
void remote_read_each(char *to, const uintptr_t *from, int count, size_t size);
enum kind remote_kind(struct kinds *kinds, uintptr_t type);
size_t remote_instance_bytes(uintptr_t type);
/* The value of a key that is a str of at most 32 characters; 0 = none. */
uintptr_t remote_find(struct kinds *kinds, uintptr_t dict, const char *name);
uintptr_t remote_first_attribute(struct kinds *kinds, uintptr_t object);
uintptr_t remote_main_interpreter(uintptr_t runtime);

/* ---- asyncio.c ---- */

/* Is it known where the process has its tasks? Searched for now and then. */
bool asyncio_find(struct process *process, uintptr_t runtime, int64_t now_ns);
/* The thread that runs this event loop; 0 = none is known to. */
uint32_t asyncio_thread(struct process *process, uintptr_t loop, int64_t now_ns);
/* Where a task has its coroutine; 0 = not known. */
int asyncio_coroutine_at(struct process *process, uintptr_t task);

/* ---- awaits.c: where tasks are suspended ---- */

#define AWAITS_BLOCK 256
enum sighting {
  SIGHT_GONE,   /* there is none, or its loop does not run */
  SIGHT_UNREAD, /* one that is not understood */
  SIGHT_MOVING, /* it ran while it was read */
  SIGHT_RUNNING,
  SIGHT_SUSPENDED
};
/* A task as it was met. */
struct sight {
  uintptr_t task, coroutine, name_object;
  uint64_t name_check; /* of a suspended one: differs where the name does */
  uint64_t stack;
  uint32_t thread;
  enum sighting state;
  bool truncated;
};
/* Looks at the tasks behind at most AWAITS_BLOCK weak references. */
void awaits_read(struct process *process, const uintptr_t *references, struct sight *sights, int count, int64_t now_ns);

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
void tasks_look(struct process *process, int64_t now_ns, bool still, bool all);
/* No more looks: what is known is written. */
void tasks_end(struct process *process, int64_t now_ns);

#pragma GCC visibility pop

#endif
