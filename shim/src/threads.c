/* Threads: seen at birth by standing in front of pthread_create, at their end by a key's destructor. */
#include "shim.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

THREAD_LOCAL struct thread_state this_thread = {.perf_fd = -1, .perf_was = -1, .user_timer = -1, .kernel_timer = -1};

#define MAX_DESCRIPTORS 2048
static _Atomic int32_t descriptors[MAX_DESCRIPTORS]; /* fd + 1; 0 = free */
static _Atomic int32_t descriptor_end;               /* one past the highest slot ever used */
static _Atomic int32_t descriptor_count;
static int32_t descriptor_budget;
static _Atomic int live;
static pthread_key_t end_key;

/* ---- descriptors ---- */

int32_t threads_list_descriptor(int fd) {
  if (atomic_load(&descriptor_count) >= descriptor_budget) return -1;
  for (int32_t slot = 0; slot < MAX_DESCRIPTORS; slot++) {
    int32_t free = 0;
    if (atomic_load_explicit(&descriptors[slot], memory_order_relaxed)) continue;
    if (!atomic_compare_exchange_strong(&descriptors[slot], &free, fd + 1)) continue;
    atomic_fetch_add(&descriptor_count, 1);
    int32_t end = atomic_load(&descriptor_end);
    while (end <= slot && !atomic_compare_exchange_weak(&descriptor_end, &end, slot + 1)) {}
    return slot;
  }
  return -1;
}

void threads_unlist_descriptor(int32_t slot) {
  if (slot < 0) return;
  atomic_store(&descriptors[slot], 0);
  atomic_fetch_sub(&descriptor_count, 1);
}

/* A forked child has its parent's descriptors: events of threads that are not here. */
static void close_inherited(void) {
  int32_t end = atomic_exchange(&descriptor_end, 0);
  for (int32_t slot = 0; slot < end; slot++) {
    int32_t fd = atomic_exchange(&descriptors[slot], 0) - 1;
    if (fd >= 0 && ticks_owns_descriptor(fd)) syscall(SYS_close, fd);
  }
  atomic_store(&descriptor_count, 0);
}

/* ---- begin and end ---- */

static void write_start(void) {
  struct record_thread_start *record = spool_claim(1);
  if (!record) return;
  record->thread = this_thread.id;
  record->t_ns = clock_now_ns();
  record->cpu_start_ns = this_thread.cpu_start_ns;
  record->engine = this_thread.engine;
  record->tid = this_thread.tid;
  spool_publish(record, RECORD_THREAD_START, 1);
}

/* Born into a pause: nothing that it uses is seen. */
static void begin_standing(struct thread_state *t) {
  t->standing = true;
  t->unseen_cpu_ns = -t->cpu_start_ns;
  t->unseen_user_ns = -t->user_start_ns;
  t->unseen_system_ns = -t->system_start_ns;
}

void threads_begin(bool from_now) {
  struct thread_state *t = &this_thread;
  if (t->id || t->ended || !recording()) return;
  int saved_errno = errno;
  memset(t, 0, sizeof *t);
  t->perf_fd = t->perf_was = t->perf_slot = t->user_timer = t->kernel_timer = -1;
  t->perf_user_ns = -1;
  t->id = spool_new_thread();
  t->tid = (int32_t)syscall(SYS_gettid);
  t->random = random_seed();
  if (from_now) {
    t->cpu_start_ns = clock_thread_cpu_ns();
    clock_thread_usage(&t->user_start_ns, &t->system_start_ns);
  }
  t->system_seen_ns = t->user_system_seen_ns = t->system_start_ns;
  if (spool->paused) begin_standing(t);
  pthread_setspecific(end_key, (void *)1); /* one of the first keys: nothing is allocated for it */
  atomic_fetch_add(&live, 1);
  ticks_arm();
  write_start();
  board_begin();
  errno = saved_errno;
}

void threads_write_end(void) {
  struct thread_state *t = &this_thread;
  int64_t user_ns, system_ns;
  struct record_thread_end *record = t->id && recording() ? spool_claim(1) : NULL;
  if (!record) return;
  clock_thread_usage(&user_ns, &system_ns);
  if (t->standing) ticks_count_unseen(1);
  record->thread = t->id;
  record->t_ns = clock_now_ns();
  record->cpu_ns = clock_thread_cpu_ns() - t->cpu_start_ns - t->unseen_cpu_ns;
  record->user_ns = user_ns - t->user_start_ns - t->unseen_user_ns;
  record->system_ns = system_ns - t->system_start_ns - t->unseen_system_ns;
  if (t->standing) ticks_count_unseen(-1);
  memset(record->name, 0, sizeof record->name);
  prctl(PR_GET_NAME, record->name);
  spool_publish(record, RECORD_THREAD_END, 1);
}

void threads_end(void) {
  struct thread_state *t = &this_thread;
  if (!t->id || t->ended) return;
  t->ended = 1;
  memory_thread_end();
  copies_thread_end();
  devices_thread_end();
  ticks_disarm();
  threads_write_end();
  board_end();
  atomic_fetch_sub(&live, 1);
}

void threads_forget(void) {
  close_inherited();
  atomic_store(&live, 0);
  memset(&this_thread, 0, sizeof this_thread);
  this_thread.perf_fd = this_thread.perf_was = this_thread.user_timer = this_thread.kernel_timer = -1;
}

void threads_postfork_child(void) {
  threads_forget();
  threads_begin(false);
}

int threads_live(void) {
  int count = atomic_load_explicit(&live, memory_order_relaxed);
  return count > 0 ? count : 1;
}

/* Destructors run in rounds; ours asks for two more, so that what others free in theirs is still seen. */
static void end_destructor(void *round) {
  if ((intptr_t)round < 3 && pthread_setspecific(end_key, (void *)((intptr_t)round + 1)) == 0) return;
  threads_end();
}

int threads_init(void) {
  struct rlimit files;
  descriptor_budget =
      getrlimit(RLIMIT_NOFILE, &files) ? 64 : (int32_t)(files.rlim_cur > 8192 ? 2048 : files.rlim_cur / 4);
  return pthread_key_create(&end_key, end_destructor);
}

/* ---- birth ---- */

struct start {
  void *(*run)(void *);
  int (*run_c11)(void *);
  void *argument;
  bool blocked; /* the creator's wish for our signal: masks are inherited */
};

static struct start *new_start(void *(*run)(void *), int (*run_c11)(void *), void *argument, bool blocked) {
  struct start *start = recording() ? next.malloc(sizeof *start) : NULL;
  if (start) *start = (struct start){run, run_c11, argument, blocked};
  return start;
}

static struct start enter(void *given) {
  struct start start = *(struct start *)given;
  next.free(given);
  signals_set_shadow_blocked(start.blocked);
  signals_thread_start();
  process_check_fork();
  threads_begin(false);
  return start;
}

static void *run_thread(void *given) {
  struct start start = enter(given);
  return start.run(start.argument);
}

static int run_thread_c11(void *given) {
  struct start start = enter(given);
  return start.run_c11(start.argument);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
  next_ensure();
  struct start *start = new_start(run, NULL, argument, signals_inherited_blocked(attributes));
  if (!start) return next.pthread_create(thread, attributes, run, argument);
  int error = next.pthread_create(thread, attributes, run_thread, start);
  if (error) next.free(start);
  return error;
}

EXPORT int thrd_create(thrd_t *thread, int (*run)(void *), void *argument) {
  next_ensure();
  struct start *start = new_start(NULL, run, argument, signals_inherited_blocked(NULL));
  if (!start) return next.thrd_create(thread, run, argument);
  int error = next.thrd_create(thread, run_thread_c11, start);
  if (error != thrd_success) next.free(start);
  return error;
}
