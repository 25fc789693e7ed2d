/* Start and end of threads: an interposed pthread_create observes the start, the destructor of a thread-specific key
 * the end. */
#include "inside/processes/threads.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/cpu/descriptors.h"
#include "inside/cpu/ticks.h"
#include "inside/cpu/timers.h"
#include "inside/cuda/calls.h"
#include "inside/copies/copies.h"
#include "inside/memory/memory.h"
#include "inside/memory/residency.h"
#include "inside/native/images.h"
#include "inside/processes/thread_table.h"
#include "inside/python/python.h"
#include "inside/signals/signals.h"
#include "inside/stacks/frames.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/objects/thread_name.h"
#include "shared/random.h"
#include "shared/saferead.h"
#include "shared/sealed/sealed.h"
#include "shared/spool.h"

#define FIRST_KEYS 32 /* libc allocates nothing for these */
static pthread_key_t end_key;
static void give_starts_of_parent(void);

/* ---- begin and end ---- */

/* The thread that starts another one, its Python stack then, and the Thread object that it starts (0 = none). */
struct starter {
  uint64_t stack;
  uint32_t thread;
  uintptr_t python_thread;
};

static void write_start(struct starter starter) {
  struct record_thread_start *record = spool_claim(1);
  if (!record) return;
  record->stack = starter.stack;
  record->starter = starter.thread;
  record->thread = this_thread.id;
  record->t_ns = clock_now_ns();
  record->cpu_start_ns = this_thread.cpu_start_ns;
  record->engine = this_thread.engine;
  record->tid = this_thread.tid;
  spool_publish(record, RECORD_THREAD_START, 1);
}

/* The thread starts during a pause: its usage so far belongs to the pause. */
static void begin_paused(struct thread_state *t) {
  t->paused = true;
  residency_note_pause();
  t->paused_cpu_ns = -t->cpu_start_ns;
  t->paused_user_ns = -t->user_start_ns;
  t->paused_system_ns = -t->system_start_ns;
}

/* Writes the name that Python's threading module has for the thread, unless it was written before. */
static void write_name(bool may_begin) {
  struct thread_state *t = &this_thread;
  if (!t->python_thread || !python_layout || safe_read_refused()) return;
  thread_name_update(python_layout, t->id, t->python_thread, (uint64_t)pthread_self(), may_begin, &t->name,
                     &t->name_seen, NULL, NULL);
}

static void begin_thread(bool from_now, struct starter starter) {
  struct thread_state *t = &this_thread;
  if (t->id || t->ended || !recording()) return;
  int saved_errno = errno;
  memset(t, 0, sizeof *t);
  t->perf_fd = t->old_perf_fd = t->perf_slot = t->user_timer = t->kernel_timer = -1;
  t->fault_fd = t->old_fault_fd = t->fault_slot = -1;
  t->perf_user_ns = -1;
  t->id = spool_new_thread();
  t->tid = (int32_t)syscall(SYS_gettid);
  t->random = random_seed(t->tid);
  if (from_now) {
    t->cpu_start_ns = clock_thread_cpu_ns();
    clock_thread_usage(&t->user_start_ns, &t->system_start_ns);
  }
  t->system_seen_ns = t->user_system_seen_ns = t->system_start_ns;
  if (spool->paused) begin_paused(t);
  pthread_setspecific(end_key, (void *)1); /* one of the first keys, for which libc allocates nothing */
  threads_count(1);
  timers_arm();
  write_start(starter);
  t->python_thread = starter.python_thread;
  write_name(true);
  thread_table_begin();
  errno = saved_errno;
}

void threads_begin(bool from_now) { begin_thread(from_now, (struct starter){0, 0, 0}); }

void threads_write_end(void) {
  struct thread_state *t = &this_thread;
  int64_t user_ns, system_ns;
  struct record_thread_end *record = t->id && recording() ? spool_claim(1) : NULL;
  if (!record) return;
  clock_thread_usage(&user_ns, &system_ns);
  if (t->paused) ticks_add_paused_usage(1);
  record->thread = t->id;
  record->t_ns = clock_now_ns();
  record->cpu_ns = clock_thread_cpu_ns() - t->cpu_start_ns - t->paused_cpu_ns;
  record->user_ns = user_ns - t->user_start_ns - t->paused_user_ns;
  record->system_ns = system_ns - t->system_start_ns - t->paused_system_ns;
  if (t->paused) ticks_add_paused_usage(-1);
  memset(record->name, 0, sizeof record->name);
  syscall(SYS_prctl, PR_GET_NAME, record->name, 0, 0, 0);
  spool_publish(record, RECORD_THREAD_END, 1);
}

static void record_end(void) {
  memory_thread_end();
  copies_thread_end();
  cuda_calls_thread_end();
  timers_disarm();
  write_name(false);
  threads_write_end();
  thread_table_end();
}

void threads_end(void) {
  struct thread_state *t = &this_thread;
  if (!t->id || t->ended) return;
  t->ended = 1;
  threads_count(-1);
  uint32_t section = seal_enter();
  if (!sealed()) record_end();
  seal_leave(section);
}

void threads_forget(void) {
  if (!sealed()) descriptors_close_inherited();
  threads_count_none();
  memset(&this_thread, 0, sizeof this_thread);
  this_thread.perf_fd = this_thread.old_perf_fd = this_thread.user_timer = this_thread.kernel_timer = -1;
  this_thread.fault_fd = this_thread.old_fault_fd = -1;
}

void threads_postfork_child(void) {
  threads_forget();
  give_starts_of_parent();
  threads_begin(false);
}

/* Destructors run in rounds. Ours asks for two more rounds, so that what other destructors free is still counted. */
static void end_destructor(void *round) {
  if ((intptr_t)round < 3 && pthread_setspecific(end_key, (void *)((intptr_t)round + 1)) == 0) return;
  threads_end();
}

/* Takes the last of the first keys. A libc that the program loads into another namespace (dlmopen) has a table of
 * keys of its own, and begins with the first one, but the values of both are in the same place: it would find ours. */
static int create_end_key(void) {
  pthread_key_t lower[FIRST_KEYS];
  int count = 0, error = pthread_key_create(&end_key, end_destructor);
  while (!error && end_key < FIRST_KEYS - 1 && count < FIRST_KEYS) {
    lower[count++] = end_key;
    error = pthread_key_create(&end_key, end_destructor);
  }
  while (count > 0) pthread_key_delete(lower[--count]);
  return error;
}

int threads_init(void) {
  thread_set_begin(threads_begin);
  descriptors_init();
  return create_end_key();
}

/* ---- start ---- */

struct start {
  void *(*run)(void *);
  int (*run_c11)(void *);
  void *argument;
  struct starter starter;
  size_t stack_bytes; /* of the thread's C stack; 0 = unknown */
  bool blocked;       /* shadow block that the thread inherits from its creator or its attributes */
};

/* Mostly not from malloc: freeing such a block would be the first use of malloc in the new thread, which gives it an
 * arena of its own. */
#define STARTS 64
static struct start starts[STARTS];
static _Atomic bool start_taken[STARTS];

static struct start *take_start(void) {
  for (int i = 0; i < STARTS; i++) {
    if (!atomic_load_explicit(&start_taken[i], memory_order_relaxed) && !atomic_exchange(&start_taken[i], true))
      return &starts[i];
  }
  return next.malloc(sizeof(struct start));
}

static void give_start(struct start *start) {
  if (start >= starts && start < starts + STARTS) {
    atomic_store(&start_taken[start - starts], false);
  } else {
    next.free(start);
  }
}

/* The threads that would take them do not exist in a forked child. */
static void give_starts_of_parent(void) {
  for (int i = 0; i < STARTS; i++) atomic_store(&start_taken[i], false);
}

static bool is_interpreters(uintptr_t address) {
  struct image image;
  return images_find(address, &image) && image.pc_class == PC_INTERPRETER;
}

/* What Thread.start calls may free an object whose library begins a thread of its own. `run`: the thread's function.
 * `caller`: who calls pthread_create; another library may stand in between. */
static bool is_pythons(void *(*run)(void *), const void *caller) {
  return is_interpreters((uintptr_t)run) || is_interpreters((uintptr_t)caller);
}

static struct starter this_starter(void *(*run)(void *), const void *caller) {
  uint32_t section = seal_enter();
  int saved_errno = errno;
  fork_check();
  struct starter starter = {0, this_thread.id, 0};
  if (!sealed() && recording()) {
    starter.stack = frames_current();
    starter.python_thread = run ? frames_thread_started() : 0;
    if (starter.python_thread && !is_pythons(run, caller)) starter.python_thread = 0;
  }
  errno = saved_errno;
  seal_leave(section);
  return starter;
}

/* Returns the size of the C stack that a thread with these attributes will have; 0 = unknown. */
static size_t stack_bytes_of(const pthread_attr_t *attributes) {
  pthread_attr_t defaults;
  size_t bytes = 0;
  if (attributes) return pthread_attr_getstacksize(attributes, &bytes) ? 0 : bytes;
  if (pthread_attr_init(&defaults)) return 0;
  if (pthread_attr_getstacksize(&defaults, &bytes)) bytes = 0;
  pthread_attr_destroy(&defaults);
  return bytes;
}

static struct start *new_start(void *(*run)(void *), int (*run_c11)(void *), void *argument,
                               const pthread_attr_t *attributes, const void *caller) {
  struct start *start = recording() ? take_start() : NULL;
  if (!start) return NULL;
  bool blocked = signals_inherited_blocked(attributes);
  *start = (struct start){run, run_c11, argument, this_starter(run, caller), stack_bytes_of(attributes), blocked};
  return start;
}

static struct start begin_in_thread(void *given) {
  struct start start = *(struct start *)given;
  give_start(given);
  thread_stack_begin(start.stack_bytes);
  fork_check();
  uint32_t section = seal_enter();
  signals_set_shadow_blocked(start.blocked);
  signals_thread_start();
  begin_thread(false, start.starter);
  seal_leave(section);
  return start;
}

static void *run_thread(void *given) {
  struct start start = begin_in_thread(given);
  return start.run(start.argument);
}

static int run_thread_c11(void *given) {
  struct start start = begin_in_thread(given);
  return start.run_c11(start.argument);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
  next_ensure();
  struct start *start = new_start(run, NULL, argument, attributes, __builtin_return_address(0));
  if (!start) return next.pthread_create(thread, attributes, run, argument);
  int error = next.pthread_create(thread, attributes, run_thread, start);
  if (error) give_start(start);
  return error;
}

EXPORT int thrd_create(thrd_t *thread, int (*run)(void *), void *argument) {
  next_ensure();
  struct start *start = new_start(NULL, run, argument, NULL, NULL);
  if (!start) return next.thrd_create(thread, run, argument);
  int error = next.thrd_create(thread, run_thread_c11, start);
  if (error != thrd_success) give_start(start);
  return error;
}
