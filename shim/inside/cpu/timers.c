/* The timers that send ticks: two for each thread (docs/design/ticks.md has the reasons).
 *
 * User time: a perf software task clock that counts user mode only, one shot at a time, each period drawn afresh from
 * [0.5 q, 1.5 q] (engine perf); where that is refused, a POSIX timer on the thread's CPU clock (engine posix).
 * Kernel time: a POSIX timer that fires at every scheduler tick. */
#include "inside/cpu/timers.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/cpu/descriptors.h"
#include "inside/signals/signals.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/random.h"
#include "shared/spool.h"

#define MIN_PERIOD_NS 10000
#define MAX_PERIOD_NS 3600000000000

static char user_cookie, kernel_cookie; /* their addresses are sigev_value of our timers */
static _Atomic bool perf_refused;
static _Atomic int32_t armed; /* timers and events: each may hold a queued signal of the user's limit */
static bool alone;

int64_t timers_mean_period_ns(void) {
  int64_t mean = (int64_t)spool->cpu_interval_ns;
  if (mean > MAX_PERIOD_NS) return MAX_PERIOD_NS;
  return mean < MIN_PERIOD_NS ? MIN_PERIOD_NS : mean;
}

/* Uniform in [0.5 q, 1.5 q). */
int64_t timers_draw_period_ns(void) {
  int64_t mean = this_thread.mean_ns = timers_mean_period_ns();
  return mean / 2 + (int64_t)(random_next(&this_thread.random) % (uint64_t)mean);
}

/* Uniform in (0, q]: threads shorter than q get their fair share. */
int64_t timers_draw_first_ns(void) {
  int64_t mean = this_thread.mean_ns = timers_mean_period_ns();
  return 1 + (int64_t)(random_next(&this_thread.random) % (uint64_t)mean);
}

/* With the queue full, a timer goes missing and an event's signal becomes a SIGIO that may kill: stay below half. */
static bool within_signal_budget(void) {
  struct rlimit pending;
  if (getrlimit(RLIMIT_SIGPENDING, &pending) || (rlim_t)atomic_load(&armed) < pending.rlim_cur / 2) return true;
  loss_add(LOSS_signal_budget);
  return false;
}

/* ---- engine perf ---- */

static int open_event(void) {
  struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                 .size = sizeof attr,
                                 .config = PERF_COUNT_SW_TASK_CLOCK,
                                 .sample_period = (uint64_t)timers_mean_period_ns(),
                                 .disabled = 1,
                                 .exclude_kernel = 1,
                                 .exclude_hv = 1,
                                 .wakeup_events = 1};
  return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

#define LONG_TABLE 65536 /* a descriptor table up to here costs nothing worth mentioning */
#define BEHIND 2048      /* how far behind the limit: also out of the way of what was open before it was lowered */

static int duplicate_from(int fd, rlim_t lowest) { return fcntl(fd, F_DUPFD_CLOEXEC, (int)lowest); }

/* Programs count on low descriptor numbers, and look through all up to their limit: ours goes behind it, by raising the
 * limit for a moment where we may (below the hard limit, or as root) and nobody can see it (one thread), else as high as
 * it can. */
static int duplicate_high(int fd) {
  struct rlimit old;
  if (getrlimit(RLIMIT_NOFILE, &old)) return -1;
  rlim_t behind = old.rlim_cur + BEHIND, room = behind + BEHIND;
  struct rlimit raised = {room, old.rlim_max > room ? old.rlim_max : room};
  if (alone && old.rlim_cur <= LONG_TABLE && setrlimit(RLIMIT_NOFILE, &raised) == 0) {
    int high = duplicate_from(fd, behind);
    setrlimit(RLIMIT_NOFILE, &old);
    if (high >= 0) return high;
  }
  rlim_t limit = old.rlim_cur > LONG_TABLE ? LONG_TABLE : old.rlim_cur;
  return duplicate_from(fd, limit - limit / 4);
}

/* By number: libc's close is a cancellation point, and we may be inside the program's malloc. */
static void close_descriptor(int fd) { syscall(SYS_close, fd); }

static int move_high(int fd) {
  int high = duplicate_high(fd);
  close_descriptor(fd);
  return high;
}

static int direct_to_thread(int fd) {
  struct f_owner_ex owner = {F_OWNER_TID, this_thread.tid};
  if (fcntl(fd, F_SETSIG, signals_number()) || fcntl(fd, F_SETOWN_EX, &owner)) return -1;
  return fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK);
}

void timers_set_perf_period(int fd, int64_t period_ns) {
  uint64_t period = (uint64_t)(period_ns < MIN_PERIOD_NS ? MIN_PERIOD_NS : period_ns);
  ioctl(fd, PERF_EVENT_IOC_PERIOD, &period);
}

void timers_start_perf(int fd, int64_t period_ns) {
  timers_set_perf_period(fd, period_ns);
  ioctl(fd, PERF_EVENT_IOC_REFRESH, 1);
}

static void refuse_perf(void) {
  if (!atomic_exchange(&perf_refused, true)) loss_add(LOSS_engine_posix);
}

/* 0 = armed. */
int timers_arm_perf(void) {
  struct thread_state *t = &this_thread;
  if (atomic_load(&perf_refused)) return -1;
  if (spool->features & FEATURE_POSIX_ONLY) {
    refuse_perf();
    return -1;
  }
  if (!within_signal_budget()) return -1;
  int fd = open_event();
  if (fd < 0 && errno != EMFILE && errno != ENFILE) refuse_perf();
  if (fd >= 0) fd = move_high(fd);
  int32_t slot = fd >= 0 ? descriptors_add(fd) : -1;
  if (slot < 0 || direct_to_thread(fd)) {
    if (!atomic_load(&perf_refused)) loss_add(LOSS_thread_posix);
    descriptors_remove(slot);
    if (fd >= 0) close_descriptor(fd);
    return -1;
  }
  t->perf_fd = fd;
  t->perf_slot = slot;
  atomic_fetch_add(&armed, 1);
  timers_start_perf(fd, timers_draw_first_ns());
  return 0;
}

bool timers_own_descriptor(int fd) { return fcntl(fd, F_GETSIG) == signals_number(); }

void timers_disarm_perf(void) {
  struct thread_state *t = &this_thread;
  int fd = t->perf_fd;
  if (fd < 0) return;
  t->perf_was = fd;
  atomic_signal_fence(memory_order_seq_cst); /* a signal in between is still ours */
  t->perf_fd = -1;
  if (timers_own_descriptor(fd)) close_descriptor(fd);
  descriptors_remove(t->perf_slot);
  t->perf_slot = -1;
  atomic_fetch_sub(&armed, 1);
}

/* ---- POSIX timers, by system call: glibc's would allocate ---- */

static int create_timer(char *cookie) {
  if (!within_signal_budget()) return -1;
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signals_number()};
  event.sigev_value.sival_ptr = cookie;
  event._sigev_un._tid = this_thread.tid;
  int id = -1;
  if (syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &id)) {
    loss_add(LOSS_thread_unarmed);
    return -1;
  }
  atomic_fetch_add(&armed, 1);
  return id;
}

static void delete_timer(int32_t *id) {
  if (*id < 0) return;
  syscall(SYS_timer_delete, *id);
  atomic_fetch_sub(&armed, 1);
  *id = -1;
}

static struct timespec as_timespec(int64_t ns) {
  return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

void timers_set_user(void) {
  struct itimerspec when = {.it_value = as_timespec(this_thread.next_user_ns)};
  syscall(SYS_timer_settime, this_thread.user_timer, TIMER_ABSTIME, &when, NULL);
}

void timers_begin_user_schedule(void) {
  this_thread.next_user_ns = clock_thread_cpu_ns() + timers_draw_first_ns();
  timers_set_user();
}

void timers_arm_user(void) {
  this_thread.user_timer = create_timer(&user_cookie);
  if (this_thread.user_timer >= 0) timers_begin_user_schedule();
}

void timers_set_kernel(int64_t period_ns) {
  if (this_thread.kernel_timer < 0) return;
  struct itimerspec every = {.it_interval = as_timespec(period_ns), .it_value = as_timespec(period_ns)};
  syscall(SYS_timer_settime, this_thread.kernel_timer, 0, &every, NULL);
}

static void arm_kernel_timer(void) {
  this_thread.kernel_timer = create_timer(&kernel_cookie);
  timers_set_kernel(this_thread.standing ? PAUSED_POLL_NS : KERNEL_POLL_NS);
}

/* ---- arming ---- */

void timers_arm(void) {
  struct thread_state *t = &this_thread;
  t->engine = ENGINE_NONE;
  t->perf_spent = t->user_spent = false;
  if (!(spool->features & FEATURE_CPU) || !signals_number()) return;
  int saved_errno = errno;
  if (timers_arm_perf() == 0) {
    t->engine = ENGINE_PERF;
  } else {
    timers_arm_user();
    if (t->user_timer >= 0) t->engine = ENGINE_POSIX;
  }
  if (t->engine != ENGINE_NONE) arm_kernel_timer();
  errno = saved_errno;
}

void timers_disarm(void) {
  int saved_errno = errno;
  timers_disarm_perf();
  delete_timer(&this_thread.user_timer);
  delete_timer(&this_thread.kernel_timer);
  errno = saved_errno;
}

/* The timers of the parent's threads are not inherited. */
void timers_postfork_child(void) { atomic_store(&armed, 0); }

void timers_alone(bool now) { alone = now; }

/* ---- alternate signal stacks ---- */

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
#define HANDLER_BYTES 4096

/* Programs may register a stack that cannot hold a signal frame of this processor, and never need it. Our handler would:
 * such a thread gets no ticks until it registers a larger one. */
EXPORT int sigaltstack(const stack_t *stack, stack_t *before) {
  struct thread_state *t = &this_thread;
  next_ensure();
  if (!stack || !recording() || !t->id || t->ended) return next.sigaltstack(stack, before);
  bool small = !(stack->ss_flags & SS_DISABLE) && stack->ss_size < getauxval(AT_MINSIGSTKSZ) + HANDLER_BYTES;
  if (small && t->engine != ENGINE_NONE) {
    timers_disarm();
    t->engine = ENGINE_NONE;
    loss_add(LOSS_small_alternate_stack);
  }
  int result = next.sigaltstack(stack, before);
  if (!result && !small && t->engine == ENGINE_NONE) timers_arm();
  return result;
}

/* ---- whose signal is it ---- */

/* Ours carry a descriptor that is this thread's, or was until a moment ago. */
static bool from_descriptor(const siginfo_t *info, const int32_t *fd) {
  return info->si_code >= POLL_IN && info->si_code <= POLL_HUP && *fd >= 0 && info->si_fd == *fd;
}

static bool has_cookie(const siginfo_t *info, const char *cookie) {
  return info->si_code == SI_TIMER && info->si_value.sival_ptr == cookie;
}

enum timer_signal timers_signal(const siginfo_t *info) {
  if (from_descriptor(info, &this_thread.perf_fd)) return SIGNAL_PERF;
  if (has_cookie(info, &user_cookie)) return SIGNAL_USER;
  if (has_cookie(info, &kernel_cookie)) return SIGNAL_KERNEL;
  return from_descriptor(info, &this_thread.perf_was) ? SIGNAL_LATE : SIGNAL_FOREIGN;
}
