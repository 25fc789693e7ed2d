/* Processes that were started without the recorder and are observed from outside alone. Nothing runs inside them, so the
 * watcher writes what the shim would have written: their starts and ends, those of their threads, the entries of these in the
 * thread table, and CPU ticks. docs/design/attach.md gives the reasons.
 *
 * Only the watcher's thread calls these functions, except for attached_request. */
#ifndef SCALENE_TRACE_WATCH_ATTACHED_ATTACHED_H
#define SCALENE_TRACE_WATCH_ATTACHED_ATTACHED_H

#include <dirent.h>
#include <sys/types.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/evidence/evidence.h"
#include "shared/native/image.h"
#include "shared/spool.h"
#include "watch/reading/proc.h"

#pragma GCC visibility push(hidden)

#define NO_LEAD INT64_MIN

/* A thread of an attached process. Times are in ns, CPU times those of its schedstat. */
struct attached_thread {
  struct attached_thread *next, *next_in_bucket; /* of the same process; with the same hash */
  struct attached *process;
  pid_t tid;
  uint32_t id;          /* in the recording */
  uint32_t entry;       /* its index in the thread table; SPOOL_THREAD_TABLE = the table was full */
  uint32_t listing;     /* process.listing when it was last found alive */
  int64_t lead;         /* how much oftener it has got a CPU than left one, while it has one; NO_LEAD = unknown */
  struct switches left; /* when that was last asked; */
  bool preempted; /* it has left the CPU more often because another one got it than to wait, since the time before */
  int64_t learned_ns; /* when that was last seen of a thread that waits */
  int64_t owed_ns;    /* time in which it was found running, but that no tick stands for yet */
  int64_t cpu_start_ns;
  int64_t run_ns;             /* CPU time when it was last observed, */
  int64_t paused_ns;          /* and what of it was used while the recording was paused */
  int64_t system_seen_ns;     /* kernel time, in the kernel's steps of 10 ms: when it was last observed, */
  int64_t system_ns;          /* what of it was charged, */
  int64_t system_start_ns;    /* and what it was at the beginning */
  int64_t system_run_ns;      /* run_ns when system_seen_ns was read, if the event samples the kernel */
  struct thread_event *event; /* null = its ticks come from polls */
  uint64_t stack;             /* stack and flags of its last tick */
  uint32_t flags;
  char name[16];
};

/* Returns the CPU time of the thread since its recording began, without pauses. */
static inline int64_t attached_used_ns(const struct attached_thread *thread) {
  return thread->run_ns - thread->cpu_start_ns - thread->paused_ns;
}

/* A process, from its attaching or from its exec to its end or to the next exec; and until nobody refers to it. */
struct attached {
  struct attached *next;
  uint32_t users; /* that refer to it: attached_find */
  bool ends, gone;
  bool polled; /* at least one of its threads has no event */
  bool grows;  /* it has threads that are to be begun */
  struct record_process_start start;
  struct thread_entry python; /* what is known of its interpreter, in the fields of an entry that say so */
  struct image_source source; /* list 0 = there is none */
  struct spool_writer writer;
  struct attached_thread *threads;
  DIR *tasks; /* its threads, in /proc; follows the process even if another one gets its pid */
  int pid_fd;
  uint32_t count, listing;
  int64_t listed_ns, named_ns;
  struct usage usage_start, usage;   /* when it was attached to, and as last read */
  int64_t ended_ns, ended_system_ns; /* CPU time of its threads that have ended, and the kernel's part */
  int64_t children_ns;               /* of its attached children that have ended, with their children */
};

/* Asks for a process to be attached to. `start`: its start record, followed by the texts that belong to it; thread, t_ns and
 * parent are filled in later. `python`: when the process began (start_ns), and of its interpreter: python_version, runtime,
 * runtime_bytes, code_type, and as `images` an address in the interpreter's code; all 0 if it has none. A process with that pid that is attached already has called
 * exec. False = there is no memory. May be called from any thread. */
bool attached_request(const struct record_process_start *start, const char *texts, const struct thread_entry *python);
/* Takes the next request, for the caller to free; null = there is none. */
struct request *attached_next_request(void);

/* Begins what was asked for, follows which threads there are, and ends threads and processes that have ended; `all`:
 * also where it is only seldom that one thread ends and another begins in between. */
void attached_update(bool all);
/* Begins the threads that attached_update has found in known processes. True = there are new ones. A pass does this after
 * its polls: it takes a while, and a thread often waits for one that it has just begun. Polls that come later whenever a
 * wait has begun would make that wait shorter, and the wait before longer. */
bool attached_begin_threads(void);
/* The recording is paused, or `ends`: charges what was used since the last ticks. `now_ns` is CLOCK_MONOTONIC. */
void attached_settle(int64_t now_ns, bool ends);
/* The recording goes on after a pause: what was used in it is charged to nobody. */
void attached_resume(void);
/* True if there is any. */
bool attached_any(void);
/* Returns the process of this id and pid, which stays until attached_release; null = it is not an attached one. */
struct attached *attached_find(uint32_t process, pid_t pid);
/* The caller refers to it no more. Does nothing for null. */
void attached_release(struct attached *process);
/* Returns the thread `id` in this entry of the thread table; null = it is not one of an attached process. */
struct attached_thread *attached_thread_at(uint32_t entry, uint32_t id);

struct request {
  struct request *next;
  struct record_process_start start;
  struct thread_entry python;
  char texts[]; /* start.exe_bytes + start.argv_bytes */
};

/* ---- ticks.c: which stack a thread's CPU time is charged to ---- */

/* Reads the stack of a thread, and stores its hash and TICK_* flags. False = it could not be read consistently. */
typedef bool (*attached_reader)(void *context, uint64_t *stack, uint32_t *flags);
/* What a poll of the thread has found. `ready`: it was running, or ready to; `passed_ns`: time since the pass before. */
struct attached_poll {
  struct schedule schedule;
  int schedule_fd;
  bool ready;
  int64_t passed_ns;
};
/* A thread that has a CPU gets a tick with the stack that it has now, which `read` reads. */
void attached_charge(struct attached_thread *thread, const struct attached_poll *poll, attached_reader read,
                     void *context);
/* What was read of a sampled thread. */
struct attached_stack {
  uint64_t hash;  /* of its Python stack; 0 = none */
  uint32_t flags; /* TICK_NO_PYTHON, TICK_GC, TICK_TORN */
  uint8_t opcodes[TICK_OPCODES];
};
struct ring_sample;
struct attached_sampler {
  /* Reads the Python stack that the thread has now. */
  void (*read_python)(void *context, struct attached_stack *out);
  /* Finds what the native stack of the sample says. False = nothing is known. */
  bool (*read_native)(void *context, const struct ring_sample *sample, struct native_evidence *out);
  /* Corrects the Python stack to the moment of the sample, as far as that is known. */
  void (*go_back)(void *context, const struct ring_sample *sample, const struct native_evidence *native,
                  struct attached_stack *out);
};
/* The thread was sampled by its event: writes a tick. */
void attached_sample(struct attached_thread *thread, const struct attached_sampler *by, void *context);
/* The thread or the recording ends, or is paused. */
void attached_charge_rest(struct attached_thread *thread, int64_t now_ns);

/* ---- records.c: what is written for an attached process ---- */

void attached_write_start(struct attached *process, const char *texts, int64_t now_ns);
/* The end of its image. `how`: END_EXEC, END_UNKNOWN; `used_ns`, `system_ns`: CPU time of its threads, and the kernel's part. */
void attached_write_end(struct attached *process, uint32_t how, int64_t used_ns, int64_t system_ns, int64_t now_ns);
/* How the process `child` of this one has ended; `status` as waitpid gives it. */
void attached_write_reaped(struct attached *process, pid_t child, int status, int64_t now_ns);
void attached_write_thread_start(const struct attached_thread *thread, int64_t now_ns);
void attached_write_thread_end(const struct attached_thread *thread, int64_t now_ns);
/* A tick that stands for what the thread is owed. `flags`: TICK_*. */
void attached_write_tick(struct attached_thread *thread, uint64_t stack, uint32_t flags, int64_t now_ns);
/* A tick that is complete but for the thread and its CPU time. */
void attached_write_sample(struct attached_thread *thread, struct record_tick *tick);
/* The process writes nothing more: its chunk is closed. */
void attached_close_writer(struct attached *process);

#pragma GCC visibility pop

#endif
