/* The watcher's loop, and the two functions that the recorder calls. */
#include <pthread.h>
#include <time.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/random.h"
#include "shared/spool.h"
#include "watch/attached/attached.h"
#include "watch/attached/events.h"
#include "watch/tasks.h"
#include "watch/threads.h"

/* Mean pause between two passes. Each is drawn at random between half of it and one and a half of it, so that no
 * program can keep in step with the passes. */
#define PERIOD_NS 10000000
#define LEAST_PERIOD_NS 1000000
#define LONGEST_PERIOD_NS 50000000
#define IDLE_SHARE 200      /* if all processes rest, the period grows to 1/200 of the length of the rest */
#define STEADY_SHARE 64     /* if threads that run do not wait, it grows to 1/64 of the length of that, */
#define STEADY_NS 30000000  /* and to so much */
#define BUDGET_NS 100000000 /* the watcher may use this much CPU time at once, */
#define BUDGET_SHARE 50     /* and 1/50 of a core in the long run */
#define LONGEST_SLEEP_NS 1000000000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;
static bool stopping, woken;
static unsigned cuts_asked, cuts_made; /* how often the chunk was to be closed, and how often it was */

/* True if somebody wants something. */
static bool is_wanted(void) {
  pthread_mutex_lock(&lock);
  bool wanted = stopping || woken || cuts_made != cuts_asked;
  pthread_mutex_unlock(&lock);
  return wanted;
}

/* Takes samples until then, or until somebody wants something. */
static void sample_until(int64_t until_ns) {
  int64_t before_ns = clock_thread_cpu_ns();
  while (!is_wanted() && clock_now_ns() < until_ns && events_wait(until_ns)) {
    threads_take_samples();
    int64_t now_ns = clock_thread_cpu_ns();
    events_spent_ns += now_ns - before_ns;
    before_ns = now_ns;
  }
}

static void sleep_for(int64_t pause_ns) {
  int64_t now_ns = clock_now_ns(), until_ns = now_ns + pause_ns;
  atomic_store((_Atomic int64_t *)&spool->watcher_ns, now_ns);
  sample_until(until_ns);
  struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
  pthread_mutex_lock(&lock);
  while (!stopping && !woken && cuts_made == cuts_asked && pthread_cond_timedwait(&wake, &lock, &until) != ETIMEDOUT) {}
  woken = false;
  pthread_mutex_unlock(&lock);
}

/* Passes are the ticks of attached processes, so they come as often as ticks were asked for. A recording with a budget asks
 * for fewer of them. */
static int64_t shortest_period(void) {
  int64_t asked_ns = attached_any() ? (int64_t)spool->cpu_interval_ns : PERIOD_NS, longest_ns = PERIOD_NS;
  if (spool->watch_period_ns && !attached_any()) {
    longest_ns = LONGEST_PERIOD_NS;
    asked_ns = spool->watch_period_ns < LONGEST_PERIOD_NS ? (int64_t)spool->watch_period_ns : longest_ns;
  }
  return asked_ns > longest_ns ? longest_ns : asked_ns < LEAST_PERIOD_NS ? LEAST_PERIOD_NS : asked_ns;
}

/* A pass over threads that never wait finds nothing new. The first wait that it finds makes passes as frequent as before; until
 * then, the time of waits is known as always, and their places are observed more rarely. */
static int64_t steady_period(int64_t now_ns) {
  int64_t period_ns = attached_any() ? 0 : (now_ns - threads_steady_since()) / STEADY_SHARE;
  return period_ns > STEADY_NS ? STEADY_NS : period_ns;
}

static int64_t next_pause(uint64_t *random, int64_t now_ns) {
  int64_t idle_ns = now_ns - threads_idle_since(now_ns), period_ns = idle_ns / IDLE_SHARE, least_ns = shortest_period();
  int64_t steady_ns = steady_period(now_ns);
  if (period_ns < steady_ns) period_ns = steady_ns;
  if (period_ns < least_ns) period_ns = least_ns;
  if (period_ns > LONGEST_PERIOD_NS) period_ns = LONGEST_PERIOD_NS;
  return period_ns / 2 + (int64_t)(random_next(random) % (uint64_t)period_ns);
}

/* Returns `pause_ns`, or a longer pause if passes have used more CPU time than their budget, which is larger where shorter
 * periods were asked for. Samples have a budget of their own (events.c). */
static int64_t within_budget(int64_t pause_ns, int64_t started_ns, int64_t started_cpu_ns) {
  int64_t share = BUDGET_SHARE * shortest_period() / PERIOD_NS;
  int64_t spent_ns = clock_thread_cpu_ns() - started_cpu_ns - events_spent_ns;
  int64_t granted_ns = BUDGET_NS + (clock_now_ns() - started_ns) / share;
  int64_t over_ns = (spent_ns - granted_ns) * share;
  if (over_ns > LONGEST_SLEEP_NS) over_ns = LONGEST_SLEEP_NS;
  return over_ns > pause_ns ? over_ns : pause_ns;
}

static bool is_stopping(void) {
  pthread_mutex_lock(&lock);
  bool stop = stopping;
  pthread_mutex_unlock(&lock);
  return stop;
}

/* Closes the chunk if scalene_watch_cut has asked for that. */
static void cut_if_asked(void) {
  pthread_mutex_lock(&lock);
  if (cuts_made != cuts_asked) {
    tasks_publish();
    spool_finish_chunk();
    cuts_made = cuts_asked;
    pthread_cond_broadcast(&wake);
  }
  pthread_mutex_unlock(&lock);
}

/* Waits for the end of a pause of the recording, of which scalene_watch_wake tells; no thread is watched during it. False =
 * the recording is not paused. */
static bool wait_out_pause(void) {
  if (!spool->paused) return false;
  threads_pause(clock_now_ns());
  attached_settle(clock_now_ns(), false);
  while (spool->paused && !is_stopping() && !spool->ended) {
    cut_if_asked();
    sleep_for(LONGEST_SLEEP_NS);
  }
  attached_resume();
  threads_resume(clock_now_ns());
  return true;
}

/* New threads of attached processes, which are polled once after all others. */
static void begin_threads(int64_t now_ns) {
  if (!attached_begin_threads()) return;
  threads_update(now_ns);
  threads_poll_new(now_ns);
}

static void run(void) {
  uint64_t random = random_seed(0);
  int64_t started_ns = clock_now_ns(), started_cpu_ns = clock_thread_cpu_ns();
  while (!is_stopping() && !spool->ended) {
    if (wait_out_pause()) continue;
    int64_t now_ns = clock_now_ns();
    attached_update(false);
    threads_update(now_ns);
    threads_poll(now_ns, false);
    begin_threads(now_ns);
    cut_if_asked();
    sleep_for(within_budget(next_pause(&random, now_ns), started_ns, started_cpu_ns));
  }
  attached_update(true);
  attached_begin_threads();
  threads_update(clock_now_ns());
  threads_poll(clock_now_ns(), true);
  attached_settle(clock_now_ns(), true);
}

/* Watches the threads in the thread table of the spool at `path` until scalene_watch_stop is called or the recording
 * ends. Returns 0, or -1 if the spool cannot be opened. The recorder calls it once, in a thread of its own. */
EXPORT int scalene_watch(const char *path) {
  pthread_condattr_t attributes;
  if (spool_open(path)) return -1;
  pthread_setname_np(pthread_self(), "watcher");
  spool_begin_process(PROCESS_WATCHER);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&wake, &attributes);
  run();
  spool_close();
  return 0;
}

/* Attaches to a process (attached.h), also before scalene_watch is called. Returns 0, or -1 if there is no memory. May be
 * called from any thread. */
EXPORT int scalene_attach(const struct record_process_start *start, const char *texts,
                          const struct thread_entry *python) {
  return attached_request(start, texts, python) ? 0 : -1;
}

/* Makes the watcher close its chunk after a pass over the threads, so that what it has written there never changes again:
 * waits that go on have a new record from then on. Waits for that, but no longer than `patience_ns`. Returns 0, or -1 if that
 * was not long enough. Call it while scalene_watch runs, from another thread. */
EXPORT int scalene_watch_cut(int64_t patience_ns) {
  int64_t until_ns = clock_now_ns() + patience_ns;
  struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
  pthread_mutex_lock(&lock);
  unsigned wanted = ++cuts_asked;
  pthread_cond_broadcast(&wake);
  events_wake();
  while (cuts_made != wanted && !stopping && pthread_cond_timedwait(&wake, &lock, &until) != ETIMEDOUT) {}
  bool made = cuts_made == wanted;
  pthread_mutex_unlock(&lock);
  return made ? 0 : -1;
}

/* Tells the watcher that the recording was paused, or goes on. May be called from any thread. */
EXPORT void scalene_watch_wake(void) {
  pthread_mutex_lock(&lock);
  woken = true;
  pthread_cond_broadcast(&wake);
  pthread_mutex_unlock(&lock);
  events_wake();
}

/* Makes scalene_watch return after a last pass. May be called from any thread. */
EXPORT void scalene_watch_stop(void) {
  pthread_mutex_lock(&lock);
  stopping = true;
  pthread_cond_broadcast(&wake);
  pthread_mutex_unlock(&lock);
  events_wake();
}
