/* The timers that send the tick signal: two for each thread (docs/design/ticks.md has the reasons).
 *
 * User time: a perf event of the software task clock that counts user mode only. It is enabled for one overflow at a
 * time, with a period drawn from [0.5 q, 1.5 q) (engine perf). Where the kernel refuses it: a POSIX timer on the
 * thread's CPU clock (engine posix).
 *
 * Kernel time: a POSIX timer that fires at every scheduler tick. */
#include "inside/cpu/timers.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/cpu/alternate_stack.h"
#include "inside/cpu/cost.h"
#include "inside/cpu/descriptors.h"
#include "inside/cpu/faults.h"
#include "inside/cpu/timer_list.h"
#include "inside/signals/signals.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/random.h"
#include "shared/saferead.h"
#include "shared/spool.h"

#define MIN_PERIOD_NS 10000
#define MAX_PERIOD_NS 3600000000000

static char user_cookie, kernel_cookie; /* their addresses are the sigev_value of our timers */
static _Atomic bool perf_refused;
static _Atomic int32_t armed;       /* timers and events; each may hold one queued signal of the user's limit */
static _Atomic bool signals_scarce; /* more is armed than a lowered limit allows: no event may be enabled */
static _Atomic uint32_t scarcities; /* how often that has begun or ended, or a limit was set */
static bool single_threaded;

int64_t timers_mean_period_ns(void) {
  int64_t mean = (int64_t)spool->cpu_interval_ns;
  int64_t shortest = cost_shortest_mean_ns();
  if (mean > MAX_PERIOD_NS) return MAX_PERIOD_NS;
  if (shortest < MIN_PERIOD_NS) shortest = MIN_PERIOD_NS;
  return mean < shortest ? shortest : mean;
}

int64_t timers_draw_period_ns(void) {
  int64_t mean = this_thread.mean_ns = timers_mean_period_ns();
  return mean / 2 + (int64_t)(random_next(&this_thread.random) % (uint64_t)mean);
}

int64_t timers_draw_first_ns(void) {
  int64_t mean = this_thread.mean_ns = timers_mean_period_ns();
  return 1 + (int64_t)(random_next(&this_thread.random) % (uint64_t)mean);
}

static void set_scarce(bool scarce) {
  if (atomic_exchange(&signals_scarce, scarce) != scarce) atomic_fetch_add(&scarcities, 1);
}

uint32_t timers_scarcities(void) { return atomic_load_explicit(&scarcities, memory_order_relaxed); }

/* If the user's queue of signals is full, a timer's signal is lost and an event's signal becomes a SIGIO, which may
 * kill the program. So at most half of the queue is used. */
bool timers_may_arm(void) {
  struct rlimit pending;
  if (getrlimit(RLIMIT_SIGPENDING, &pending) || (rlim_t)atomic_load(&armed) < pending.rlim_cur / 2) {
    set_scarce(false);
    return true;
  }
  loss_add(LOSS_signal_budget);
  return false;
}

/* Every limit that is in force lets threads without a timer look again. A thread that looked before it is would find that
 * nothing has changed. */
void timers_limit_signals(uint64_t limit, bool in_force) {
  bool scarce = (uint64_t)atomic_load(&armed) > limit / 2;
  if (in_force) {
    atomic_store(&signals_scarce, scarce);
    atomic_fetch_add(&scarcities, 1);
  } else if (scarce) {
    set_scarce(true);
  }
  if (scarce) descriptors_enable(false);
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

#define LONG_TABLE 65536 /* a descriptor table of this length is cheap */
/* Distance above the limit. It also clears descriptors that were opened before the limit was lowered. */
#define BEYOND_LIMIT 2048

static int duplicate_from(int fd, rlim_t lowest) { return fcntl(fd, F_DUPFD_CLOEXEC, (int)lowest); }

/* Programs expect low descriptor numbers, and some visit every number up to their limit. So our descriptor goes above
 * the limit. To get there, the limit is raised for a moment where that is permitted (below the hard limit, or as root)
 * and no other thread can see it. Otherwise the descriptor goes into the highest quarter below the limit. */
static int duplicate_high(int fd) {
  struct rlimit old;
  if (getrlimit(RLIMIT_NOFILE, &old)) return -1;
  rlim_t beyond = old.rlim_cur + BEYOND_LIMIT, end = beyond + BEYOND_LIMIT;
  struct rlimit raised = {end, old.rlim_max > end ? old.rlim_max : end};
  if (single_threaded && old.rlim_cur <= LONG_TABLE && next.setrlimit(RLIMIT_NOFILE, &raised) == 0) {
    int high = duplicate_from(fd, beyond);
    next.setrlimit(RLIMIT_NOFILE, &old);
    if (high >= 0) return high;
  }
  rlim_t limit = old.rlim_cur > LONG_TABLE ? LONG_TABLE : old.rlim_cur;
  return duplicate_from(fd, limit - limit / 4);
}

/* A plain system call: libc's close is a cancellation point, and this may run inside the program's malloc. */
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

void timers_enable_event(int fd) {
  if (!atomic_load(&signals_scarce)) ioctl(fd, PERF_EVENT_IOC_REFRESH, 1);
}

void timers_start_perf(int fd, int64_t period_ns) {
  timers_set_perf_period(fd, period_ns);
  timers_enable_event(fd);
}

static void refuse_perf(void) {
  if (!atomic_exchange(&perf_refused, true)) loss_add(LOSS_engine_posix);
}

int timers_adopt_event(int fd, int32_t *slot) {
  fd = move_high(fd);
  *slot = fd >= 0 ? descriptors_add(fd) : -1;
  if (*slot >= 0 && !direct_to_thread(fd)) {
    atomic_fetch_add(&armed, 1);
    return fd;
  }
  descriptors_remove(*slot);
  *slot = -1;
  if (fd >= 0) close_descriptor(fd);
  return -1;
}

void timers_close_event(int fd, int32_t slot) {
  if (timers_own_event(fd)) close_descriptor(fd);
  descriptors_remove(slot);
  atomic_fetch_sub(&armed, 1);
}

int timers_arm_perf(void) {
  struct thread_state *t = &this_thread;
  if (atomic_load(&perf_refused)) return -1;
  if (spool->features & FEATURE_POSIX_ONLY) {
    refuse_perf();
    return -1;
  }
  if (!timers_may_arm()) return -1;
  int fd = open_event();
  if (fd < 0 && errno != EMFILE && errno != ENFILE) refuse_perf();
  if (fd >= 0) fd = timers_adopt_event(fd, &t->perf_slot);
  if (fd < 0) {
    if (!atomic_load(&perf_refused)) loss_add(LOSS_thread_posix);
    return -1;
  }
  t->perf_fd = fd;
  timers_start_perf(fd, timers_draw_first_ns());
  return 0;
}

bool timers_own_descriptor(int fd) { return fcntl(fd, F_GETSIG) == signals_number(); }

bool timers_own_event(int fd) {
  struct f_owner_ex owner;
  return timers_own_descriptor(fd) && fcntl(fd, F_GETOWN_EX, &owner) == 0 && owner.type == F_OWNER_TID &&
         owner.pid == this_thread.tid;
}

void timers_disarm_perf(void) {
  struct thread_state *t = &this_thread;
  int fd = t->perf_fd;
  if (fd < 0) return;
  t->old_perf_fd = fd;
  atomic_signal_fence(memory_order_seq_cst); /* a signal that arrives in between is recognized by old_perf_fd */
  t->perf_fd = -1;
  timers_close_event(fd, t->perf_slot);
  t->perf_slot = -1;
}

/* ---- POSIX timers, by system calls: glibc's timer_create allocates ---- */

static int create_timer(char *cookie) {
  if (!timers_may_arm()) return -1;
  struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signals_number()};
  event.sigev_value.sival_ptr = cookie;
#ifdef __GLIBC__ /* which has no name for it */
  event._sigev_un._tid = this_thread.tid;
#else
  event.sigev_notify_thread_id = this_thread.tid;
#endif
  int id = -1;
  if (syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &id)) {
    loss_add(LOSS_thread_unarmed);
    return -1;
  }
  timer_list_add(id, cookie == &kernel_cookie);
  atomic_fetch_add(&armed, 1);
  return id;
}

static void delete_timer(int32_t *id) {
  if (*id < 0) return;
  timer_list_remove(*id);
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

void timers_ask_later(void) { this_thread.ask_at_ns = clock_thread_cpu_ns() + PAUSED_POLL_NS; }

bool timers_ask_now(void) {
  int64_t now = clock_thread_cpu_ns();
  if (now < this_thread.ask_at_ns) return false;
  this_thread.ask_at_ns += PAUSED_POLL_NS;
  if (this_thread.ask_at_ns <= now) this_thread.ask_at_ns = now + PAUSED_POLL_NS;
  return true;
}

static void arm_kernel_timer(void) {
  this_thread.kernel_timer = create_timer(&kernel_cookie);
  timers_set_kernel(this_thread.paused ? PAUSED_POLL_NS : KERNEL_POLL_NS);
}

/* ---- arming ---- */

void timers_arm(void) {
  struct thread_state *t = &this_thread;
  t->engine = ENGINE_NONE;
  t->perf_expired = t->user_expired = false;
  timers_ask_later();
  if (!(spool->features & FEATURE_CPU) || !signals_number()) return;
  int saved_errno = errno;
  if (alternate_stack_is_too_small()) {
    loss_add(LOSS_small_alternate_stack);
    errno = saved_errno;
    return;
  }
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
  faults_ignore(); /* last: a tick in between would open the event again */
  errno = saved_errno;
}

void timers_stop_all(void) {
  descriptors_enable(false);
  timer_list_stop();
}

void timers_start_all(void) {
  if (!atomic_load(&signals_scarce)) descriptors_enable(true);
  timer_list_start(KERNEL_POLL_NS, timers_mean_period_ns());
}

void timers_postfork_child(void) {
  atomic_store(&armed, 0);
  timer_list_clear();
  faults_postfork_child();
}

void timers_set_single_threaded(bool single) { single_threaded = single; }

/* A thread whose alternate stack becomes too small for a tick loses its timers, and gets them back with a larger one. */
EXPORT int sigaltstack(const stack_t *stack, stack_t *before) {
  next_ensure();
  stack_t given;
  if (!stack || !recording() || fork_shares_memory() || !safe_read(&given, stack, sizeof given))
    return next.sigaltstack(stack, before);
  struct thread_state *t = &this_thread;
  if (!t->id || t->ended) return next.sigaltstack(stack, before);
  bool small = alternate_stack_too_small(&given), had_ticks = t->engine != ENGINE_NONE;
  if (small && had_ticks) {
    timers_disarm();
    t->engine = ENGINE_NONE;
  }
  int result = next.sigaltstack(stack, before);
  if (had_ticks ? small : !small && !result) timers_arm();
  return result;
}

/* ---- who sent a signal ---- */

/* A perf signal carries the descriptor of its event. */
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
  if (from_descriptor(info, &this_thread.fault_fd)) return SIGNAL_FAULT;
  bool late = from_descriptor(info, &this_thread.old_perf_fd) || from_descriptor(info, &this_thread.old_fault_fd);
  return late ? SIGNAL_LATE : SIGNAL_FOREIGN;
}
