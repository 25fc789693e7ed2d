/* Begins and ends the recording of memory in a process that runs already. */
#include "inside/attached/attached.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/accounts/live.h"
#include "inside/arenas/arenas.h"
#include "inside/attached/loader.h"
#include "inside/core/fork.h"
#include "inside/core/kernel_clock.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/events/events.h"
#include "inside/memory/memory.h"
#include "inside/memory/pyalloc.h"
#include "inside/python/python.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/random.h"
#include "shared/saferead.h"
#include "shared/sealed/sealed.h"
#include "shared/spool.h"
#include "shared/table/entries.h"

enum { OFF, ON, BETWEEN };
static LASTING _Atomic int state;
static LASTING bool was_used;        /* variables have been changed since the library was loaded */
static LASTING _Atomic bool wrapped; /* Python's allocators are ours */
static LASTING bool watches_forks;
static LASTING _Atomic int64_t check_ns; /* when the recorder is looked for again */
/* Never deleted: a thread that ends may be in end_thread at any time, when the program already has its number for a key of
 * its own. */
static LASTING pthread_key_t end_key;
static LASTING bool has_end_key;

#define CHECK_NS 250000000
#define MOST_STILL_NS 10000000000
#define MOST_WAIT_NS 1000000000

/* ---- threads ---- */

static bool is_own_entry(const struct thread_entry *entry, int32_t tid) {
  return atomic_load(entries_state((struct thread_entry *)entry)) == ENTRY_LIVE && entry->tid == tid &&
         entry->process == spool_process();
}

/* Returns the id that the watcher has given to the thread. A thread that it has not seen yet takes an entry, which the
 * watcher finds then (watch/attached). */
static uint32_t id_of(int32_t tid) {
  uint32_t end = atomic_load((_Atomic uint32_t *)&spool->table_end);
  for (uint32_t i = 0; i < end && i < SPOOL_THREAD_TABLE; i++) {
    if (is_own_entry(entries_at(i), tid)) return entries_at(i)->thread;
  }
  uint32_t index = entries_take(), id = spool_new_thread();
  if (index == SPOOL_THREAD_TABLE) return id;
  struct thread_entry *entry = entries_at(index);
  *entry = (struct thread_entry){.state = ENTRY_FILLING,
                                 .process = spool_process(),
                                 .thread = id,
                                 .pid = fork_own_pid(),
                                 .tid = tid,
                                 .python_version = python_layout ? python_version : 0,
                                 .runtime = python_symbols.runtime,
                                 .runtime_bytes = python_symbols.runtime_bytes,
                                 .code_type = python_symbols.code_type,
                                 .start_ns = clock_now_ns(),
                                 .cpu_start_ns = clock_thread_cpu_ns(),
                                 .pid_namespace = spool_pid_namespace()};
  entries_begin(index);
  entries_changed();
  return id;
}

static void begin_thread(bool from_now) {
  struct thread_state *t = &this_thread;
  (void)from_now;
  if ((t->session == memory_session && (t->id || t->ended)) || !recording()) return;
  int saved_errno = errno;
  memset(t, 0, sizeof *t);
  t->perf_fd = t->old_perf_fd = t->fault_fd = t->old_fault_fd = t->user_timer = t->kernel_timer = -1;
  t->session = memory_session;
  t->tid = (int32_t)syscall(SYS_gettid);
  t->id = id_of(t->tid);
  t->random = random_seed(t->tid);
  if (has_end_key) pthread_setspecific(end_key, (void *)1);
  threads_count(1);
  errno = saved_errno;
}

/* Destructors run in rounds. Ours asks for two more rounds, so that what other destructors free is still counted. */
static void end_thread(void *round) {
  struct thread_state *t = &this_thread;
  if ((intptr_t)round < 3 && pthread_setspecific(end_key, (void *)((intptr_t)round + 1)) == 0) return;
  uint32_t section = seal_enter();
  if (recording() && t->session == memory_session && t->id && !t->ended) {
    t->ended = 1;
    threads_count(-1);
    memory_thread_end();
  }
  seal_leave(section);
}

/* ---- the end ---- */

/* Waits until no thread is inside of the shim; false = that takes too long. */
static bool let_others_finish(void) {
  struct timespec pause = {.tv_nsec = 200000};
  int64_t until_ns = clock_now_ns() + MOST_WAIT_NS;
  while (atomic_load(&seal_sections) > 0 && clock_now_ns() < until_ns) syscall(SYS_nanosleep, &pause, NULL);
  return atomic_load(&seal_sections) == 0;
}

static void unwrap(void) {
  if (atomic_load(&wrapped) && pyalloc_unwrap()) atomic_store(&wrapped, false);
}

bool attached_is_on(void) { return atomic_load(&state) == ON; }

/* `has_lock`: the caller has the loader's lock, or both. They are given back: others may wait for them, and a thread that is
 * waited for here may be stopped by one of these. */
static void leave(bool has_gil, bool has_lock) {
  int on = ON, saved_errno = errno;
  bool was_on = atomic_compare_exchange_strong(&state, &on, BETWEEN);
  if (was_on) {
    memory_mode = MEMORY_FORWARD;
    seal_process(true);
    if (has_gil) unwrap();
    if (has_lock) slots_lead_back();
  }
  if (has_lock) loader_end();
  errno = saved_errno;
  if (!was_on) return;
  let_others_finish();
  events_end();
  spool_finish_chunk();
  spool_close();
  atomic_store(&state, OFF);
  errno = saved_errno;
}

/* Waits for other visits of ours, which are short. */
static bool take_loader(enum loader_locks locks) {
  struct timespec pause = {.tv_nsec = 200000};
  for (int i = 0; i < 20; i++) {
    if (loader_begin(locks)) return true;
    syscall(SYS_nanosleep, &pause, NULL);
  }
  return false;
}

void attached_leave(bool has_gil) { leave(has_gil, take_loader(LIST_LOCK)); }

/* A process that has become another user may not signal it. */
static bool recorder_has_gone(void) { return syscall(SYS_kill, spool->recorder_pid, 0) == -1 && errno == ESRCH; }

/* A process that nobody has waited for still has its pid, and another one may get it. So the recorder's watcher says when it
 * was last awake. What counts is how often that was found unchanged: the whole machine may stand still. */
static bool recorder_stands_still(void) {
  static int64_t last_ns;
  static _Atomic int times;
  int64_t awake_ns = atomic_load((_Atomic int64_t *)&spool->watcher_ns);
  if (awake_ns != last_ns) atomic_store(&times, 0);
  last_ns = awake_ns;
  return atomic_fetch_add(&times, 1) > MOST_STILL_NS / CHECK_NS;
}

/* The recorder may have been killed, or have found no thread that would run a script for it. */
static bool is_over(int64_t now_ns) {
  int64_t due_ns = atomic_load(&check_ns);
  if (!recording()) return true;
  if (now_ns < due_ns || !atomic_compare_exchange_strong(&check_ns, &due_ns, now_ns + CHECK_NS)) return false;
  if (recorder_has_gone()) return true;
  if (!recorder_stands_still()) return false;
  loss_add(LOSS_attached_memory_ended);
  return true;
}

/* If the loader's lock is taken, the next stop ends the recording. A child that shares its parent's memory changes nothing of
 * it. */
static void end_at_stop(bool has_gil) {
  if (fork_is_recorded_process() && loader_begin(LIST_LOCK)) leave(has_gil, true);
}

static void at_stop(bool has_gil) {
  int saved_errno = errno;
  if (attached_is_on()) {
    int64_t now_ns = clock_now_ns();
    if (is_over(now_ns)) {
      end_at_stop(has_gil);
    } else {
      slots_refresh(now_ns);
    }
  } else if (has_gil && atomic_load(&state) == OFF) {
    unwrap();
  }
  errno = saved_errno;
}

/* The memory of children is not recorded. Slots lead here for good, and calls go on to libc. */
static void begin_in_child(void) {
  seal_postfork_child();
  loader_postfork_child();
  if (atomic_load(&state) == OFF) return;
  if (recording() && (spool->features & FEATURE_CHILDREN)) loss_add(LOSS_attached_memory_children);
  memory_mode = MEMORY_FORWARD;
  seal_process(true);
  spool_close();
  atomic_store(&state, OFF);
}

__attribute__((destructor)) static void at_exit(void) {
  if (atomic_load(&state) != ON || !fork_is_recorded_process()) return;
  memory_thread_end();
  memory_write_heap();
  attached_leave(false);
}

/* ---- the beginning ---- */

static uint32_t find_process(pid_t pid) {
  uint32_t end = atomic_load((_Atomic uint32_t *)&spool->table_end);
  for (uint32_t i = 0; i < end && i < SPOOL_THREAD_TABLE; i++) {
    const struct thread_entry *entry = entries_at(i);
    if (atomic_load(entries_state((struct thread_entry *)entry)) == ENTRY_LIVE && entry->pid == pid)
      return entry->process;
  }
  return 0;
}

/* The footprint when memory is recorded from now on. */
static void write_start(int64_t total, int64_t python) {
  struct record_process_start *record = spool_claim(1);
  if (!record) return;
  *record = (struct record_process_start){.head = record->head,
                                          .thread = this_thread.id,
                                          .t_ns = clock_now_ns(),
                                          .pid = fork_own_pid(),
                                          .cause = START_OF_MEMORY,
                                          .pid_namespace = (uint32_t)spool_pid_namespace(),
                                          .footprint_bytes = total,
                                          .python_footprint_bytes = python};
  spool_publish(record, RECORD_PROCESS_START, 1);
}

static void count_older(void) {
  int64_t pools = arenas_used_bytes(), native = older_native_bytes();
  memory_begin_with(pools + native, pools);
  write_start(pools + native, pools);
}

/* Makes the library as it was when it was loaded. Returns why that cannot be, null = it was done. */
static const char *renew(void) {
  if (!was_used) {
    if (!pristine_keep()) return "memory";
  } else {
    if (atomic_load(&wrapped)) unwrap();
    if (atomic_load(&wrapped)) return "covered";
    if (!let_others_finish()) return "busy";
    live_release();
    arenas_release();
    pristine_restore();
  }
  was_used = true;
  return NULL;
}

/* Returns what is missing for a recording, null = nothing. */
static const char *find_all(void) {
  next_ensure();
  filters_watch();
  if (!slots_are_libcs() || !next_has_libc_headers()) return "allocator";
  next.foreign_allocator = false;
  safe_read_init();
  if (safe_read_refused()) return "reads";
  python_init();
  if (!python_layout || python_layout->object_header || !python_symbols.data.start) return "layout";
  return pyalloc_can_wrap() ? NULL : "covered";
}

/* A child that is forked before the end of this must not record as its parent, so it is known first that there may be one. */
static const char *begin(const char *path) {
  fork_watch(begin_in_child);
  fork_begin_process();
  if (!watches_forks) watches_forks = pthread_atfork(NULL, NULL, fork_in_child) == 0;
  atomic_store(&state, BETWEEN);
  seal_process(false);
  if (spool_open(path)) return "spool";
  kernel_clock_ensure();
  uint32_t process = find_process((pid_t)syscall(SYS_getpid));
  if (!process) return "process";
  memory_session++;
  spool_begin_process(process);
  if (!has_end_key) has_end_key = pthread_key_create(&end_key, end_thread) == 0;
  thread_set_begin(begin_thread);
  thread_ensure();
  memory_init();
  if (!older_arenas()) return "arenas";
  if (!pyalloc_find_places()) return "places";
  count_older();
  pyalloc_wrap();
  atomic_store(&wrapped, true);
  atomic_store(&state, ON);
  memory_at_stop = at_stop;
  slots_lead_here();
  return NULL;
}

/* Gives the locks back. */
static const char *start_with_lock(const char *path) {
  const char *missing = renew();
  if (!missing) missing = find_all();
  if (!missing && path && (missing = begin(path))) {
    atomic_store(&state, ON); /* whatever was done is taken back */
    leave(true, true);
  } else {
    loader_end();
  }
  return missing;
}

/* With the loader's locks, nothing that looks for symbols or images has to wait. */
const char *attached_start(const char *path) {
  fork_check();
  const char *missing = loader_find();
  if (missing) return missing;
  if (!take_loader(BOTH_LOCKS)) return "loader";
  if (attached_is_on() && (!recording() || recorder_has_gone())) {
    leave(true, true);
    if (!take_loader(BOTH_LOCKS)) return "loader";
  }
  if (atomic_load(&state) == OFF) return start_with_lock(path);
  missing = attached_is_on() ? "recorded" : "ending"; /* another thread is about to end the one before */
  loader_end();
  return missing;
}

/* While another thread ends the recording, the chunks are not complete yet. */
const char *attached_stop(void) {
  if (atomic_load(&state) == OFF) return "not recorded";
  if (!attached_is_on()) return "ending";
  if (!take_loader(LIST_LOCK)) return "loader";
  if (!attached_is_on()) {
    loader_end();
    return "ending";
  }
  memory_thread_end();
  memory_write_heap();
  leave(true, true);
  return NULL;
}
