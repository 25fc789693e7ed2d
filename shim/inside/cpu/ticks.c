/* CPU ticks. docs/design/ticks.md tells why there are two timers per thread.
 *
 * User time: a perf software task clock that counts user mode only, one shot at a time, each period drawn afresh from
 * [0.5 q, 1.5 q] (engine perf); where that is refused, a POSIX timer on the thread's CPU clock (engine posix).
 * Kernel time: a POSIX timer that looks at every scheduler tick. When the thread's kernel time has jumped since the
 * last look, this very tick fell into the kernel, and its signal is delivered behind the call or the page fault. */
#include "inside/cpu/ticks.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "formats/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/cpu/descriptors.h"
#include "inside/cuda/calls.h"
#include "inside/python/objects.h"
#include "inside/python/python.h"
#include "inside/signals/signals.h"
#include "inside/stacks/frames.h"
#include "inside/stacks/images.h"
#include "inside/stacks/scratch_pool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/random.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/stacks/scratch.h"

#define KERNEL_LOOK_NS 2000000  /* at most the scheduler's tick (1 to 10 ms); finer only costs */
#define PAUSED_LOOK_NS 10000000 /* while the recording is paused: whether it goes on */
#define KERNEL_JUMP_NS 500000   /* less is rounding of the kernel's split */
#define MIN_PERIOD_NS 10000
#define MAX_PERIOD_NS 3600000000000

static char user_cookie, kernel_cookie; /* their addresses are sigev_value of our timers */
static _Atomic bool perf_refused;
static _Atomic int32_t armed; /* timers and events: each may hold a queued signal of the user's limit */
static bool alone;
static _Atomic bool sub_interpreters_seen;

static int64_t mean_period_ns(void) {
  int64_t mean = (int64_t)spool->cpu_interval_ns;
  if (mean > MAX_PERIOD_NS) return MAX_PERIOD_NS;
  return mean < MIN_PERIOD_NS ? MIN_PERIOD_NS : mean;
}

/* Uniform in [0.5 q, 1.5 q). */
static int64_t draw_period_ns(void) {
  int64_t mean = this_thread.mean_ns = mean_period_ns();
  return mean / 2 + (int64_t)(random_next(&this_thread.random) % (uint64_t)mean);
}

/* Uniform in (0, q]: threads shorter than q get their fair share. */
static int64_t draw_first_ns(void) {
  int64_t mean = this_thread.mean_ns = mean_period_ns();
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
                                 .sample_period = (uint64_t)mean_period_ns(),
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

static void set_period(int fd, int64_t period_ns) {
  uint64_t period = (uint64_t)(period_ns < MIN_PERIOD_NS ? MIN_PERIOD_NS : period_ns);
  ioctl(fd, PERF_EVENT_IOC_PERIOD, &period);
}

static void start_period(int fd, int64_t period_ns) {
  set_period(fd, period_ns);
  ioctl(fd, PERF_EVENT_IOC_REFRESH, 1);
}

static void refuse_perf(void) {
  if (!atomic_exchange(&perf_refused, true)) loss_add(LOSS_engine_posix);
}

/* 0 = armed. */
static int arm_perf(void) {
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
  start_period(fd, draw_first_ns());
  return 0;
}

bool ticks_owns_descriptor(int fd) { return fcntl(fd, F_GETSIG) == signals_number(); }

static void disarm_perf(void) {
  struct thread_state *t = &this_thread;
  int fd = t->perf_fd;
  if (fd < 0) return;
  t->perf_was = fd;
  atomic_signal_fence(memory_order_seq_cst); /* a signal in between is still ours */
  t->perf_fd = -1;
  if (ticks_owns_descriptor(fd)) close_descriptor(fd);
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

static void set_user_timer(void) {
  struct itimerspec when = {.it_value = as_timespec(this_thread.next_user_ns)};
  syscall(SYS_timer_settime, this_thread.user_timer, TIMER_ABSTIME, &when, NULL);
}

static void begin_user_schedule(void) {
  this_thread.next_user_ns = clock_thread_cpu_ns() + draw_first_ns();
  set_user_timer();
}

static void arm_user_timer(void) {
  this_thread.user_timer = create_timer(&user_cookie);
  if (this_thread.user_timer >= 0) begin_user_schedule();
}

static void set_kernel_timer(int64_t look_ns) {
  if (this_thread.kernel_timer < 0) return;
  struct itimerspec every = {.it_interval = as_timespec(look_ns), .it_value = as_timespec(look_ns)};
  syscall(SYS_timer_settime, this_thread.kernel_timer, 0, &every, NULL);
}

static void arm_kernel_timer(void) {
  this_thread.kernel_timer = create_timer(&kernel_cookie);
  set_kernel_timer(this_thread.standing ? PAUSED_LOOK_NS : KERNEL_LOOK_NS);
}

/* ---- arming ---- */

void ticks_arm(void) {
  struct thread_state *t = &this_thread;
  t->engine = ENGINE_NONE;
  t->perf_spent = t->user_spent = false;
  if (!(spool->features & FEATURE_CPU) || !signals_number()) return;
  int saved_errno = errno;
  if (arm_perf() == 0) {
    t->engine = ENGINE_PERF;
  } else {
    arm_user_timer();
    if (t->user_timer >= 0) t->engine = ENGINE_POSIX;
  }
  if (t->engine != ENGINE_NONE) arm_kernel_timer();
  errno = saved_errno;
}

void ticks_disarm(void) {
  int saved_errno = errno;
  disarm_perf();
  delete_timer(&this_thread.user_timer);
  delete_timer(&this_thread.kernel_timer);
  errno = saved_errno;
}

/* The timers of the parent's threads are not inherited. */
void ticks_postfork_child(void) { atomic_store(&armed, 0); }

void ticks_alone(bool now) { alone = now; }

/* ---- pause ----
 *
 * A thread notices at its next tick or look. From then on its timers are not set again, but for the kernel timer, which
 * looks every PAUSED_LOOK_NS of CPU time whether the recording goes on. What the thread uses meanwhile is kept apart from
 * its exact CPU time, to which the analysis scales the ticks. */

void ticks_count_unseen(int64_t sign) {
  struct thread_state *t = &this_thread;
  int64_t user_ns, system_ns;
  clock_thread_usage(&user_ns, &system_ns);
  t->unseen_cpu_ns += sign * clock_thread_cpu_ns();
  t->unseen_user_ns += sign * user_ns;
  t->unseen_system_ns += sign * system_ns;
}

static void stand_still(void) {
  this_thread.standing = true;
  ticks_count_unseen(-1);
  set_kernel_timer(PAUSED_LOOK_NS);
}

static void go_on(void) {
  struct thread_state *t = &this_thread;
  int64_t user_ns;
  ticks_count_unseen(1);
  t->standing = false;
  clock_thread_usage(&user_ns, &t->system_seen_ns);
  t->user_system_seen_ns = t->system_seen_ns;
  t->user_carry_ns = 0;
  t->perf_user_ns = -1;
  set_kernel_timer(KERNEL_LOOK_NS);
  if (t->perf_spent && t->perf_fd >= 0) start_period(t->perf_fd, draw_first_ns());
  if (t->user_spent && t->user_timer >= 0) begin_user_schedule();
  t->perf_spent = t->user_spent = false;
}

/* Follows the recorder; true while the samplers are to stand still. */
static bool stands_still(void) {
  bool paused = spool->paused != 0;
  if (likely(paused == this_thread.standing)) return paused;
  if (paused) {
    stand_still();
  } else {
    go_on();
  }
  return paused;
}

/* When the interval has been changed, the running period begins anew. (The event's one shot is still to come.) */
static void follow_interval(void) {
  struct thread_state *t = &this_thread;
  if (likely(t->mean_ns == mean_period_ns())) return;
  if (t->perf_fd >= 0) {
    set_period(t->perf_fd, draw_first_ns());
    t->perf_user_ns = -1;
  } else if (t->user_timer >= 0) {
    begin_user_schedule();
  }
}

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
    ticks_disarm();
    t->engine = ENGINE_NONE;
    loss_add(LOSS_small_alternate_stack);
  }
  int result = next.sigaltstack(stack, before);
  if (!result && !small && t->engine == ENGINE_NONE) ticks_arm();
  return result;
}

/* ---- the sample ---- */

static void interrupted_at(const void *context, uintptr_t *pc, uintptr_t *sp) {
  const ucontext_t *user = context;
  *pc = (uintptr_t)user->uc_mcontext.gregs[REG_RIP];
  *sp = (uintptr_t)user->uc_mcontext.gregs[REG_RSP];
}

static uint32_t clamp_weight(int64_t ns) { return ns < 0 ? 0 : ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns; }

static bool stacks_possible(void) {
  /* 3.11 and 3.12 have a window in which the frame pointer is garbage: no plain reads there. */
  return python_layout && (!safe_read_refused() || python_layout->tstate_frame >= 0);
}

static void note_sub_interpreters(void) {
  if (atomic_load_explicit(&sub_interpreters_seen, memory_order_relaxed) || !python_sub_interpreters()) return;
  if (!atomic_exchange(&sub_interpreters_seen, true)) loss_add(LOSS_sub_interpreters);
}

static void write_tick(const struct python_stack *stack, const struct native_evidence *native, uintptr_t pc,
                       int64_t user_ns, int64_t system_ns, uint32_t flags) {
  struct record_tick *record = spool_claim(1);
  if (!record) return;
  record->thread = this_thread.id;
  record->t_ns = clock_now_ns();
  record->stack = stack->hash;
  record->pc = pc;
  record->extension_pc = native->extension_pc;
  record->cpu_ns = clock_thread_cpu_ns() - this_thread.unseen_cpu_ns;
  record->user_ns = clamp_weight(user_ns);
  record->system_ns = clamp_weight(system_ns);
  for (int i = 0; i < TICK_OPCODES; i++) record->opcodes[i] = stack->opcodes[i];
  record->flags = (uint16_t)(flags | stack->flags | native->flags);
  spool_publish(record, RECORD_TICK, 1);
}

static void sample(const void *context, int64_t user_ns, int64_t system_ns, uint32_t flags) {
  uintptr_t pc, sp;
  struct python_stack stack;
  struct native_evidence native = {0};
  struct scratch *scratch = scratch_take();
  interrupted_at(context, &pc, &sp);
  images_refresh();
  void *state = python_thread_state();
  if (!state && !python_thread_known()) flags |= TICK_NO_PYTHON;
  if (scratch) images_scan(pc, sp, scratch->words, SCAN_WORDS, &native);
  frames_sample(stacks_possible() ? state : NULL, native.eval_frame, scratch, &stack);
  if (scratch) scratch_give(scratch);
  note_sub_interpreters();
  objects_collections(state);
  write_tick(&stack, &native, pc, user_ns, system_ns, flags);
}

/* ---- one handler for each timer ---- */

static void on_perf(const void *context) {
  struct thread_state *t = &this_thread;
  if (stands_still()) {
    t->perf_spent = t->kernel_timer >= 0;
    if (!t->perf_spent && t->perf_fd >= 0) start_period(t->perf_fd, PAUSED_LOOK_NS);
    return;
  }
  sample(context, t->mean_ns, 0, 0);
  t->perf_user_ns = -1; /* the kernel timer fills it in */
  if (t->perf_fd >= 0) start_period(t->perf_fd, draw_period_ns());
}

/* A program may close every descriptor that it does not know. And the kernel may lose an event that is enabled again while
 * its last shot is still being disabled: on a crowded machine, it then stays off for good. */
static void watch_perf(int64_t user_ns) {
  struct thread_state *t = &this_thread;
  if (t->perf_user_ns < 0) t->perf_user_ns = user_ns;
  if (t->engine != ENGINE_PERF || user_ns - t->perf_user_ns < 20 * mean_period_ns() + 100000000) return;
  t->perf_user_ns = user_ns;
  loss_add(t->perf_fd >= 0 && ticks_owns_descriptor(t->perf_fd) ? LOSS_perf_silent : LOSS_perf_closed);
  disarm_perf();
  if (arm_perf() == 0) return;
  t->engine = ENGINE_POSIX;
  if (t->user_timer < 0) arm_user_timer();
}

/* True when this scheduler tick fell into the kernel. */
static bool on_kernel_look(const void *context) {
  struct thread_state *t = &this_thread;
  int64_t user_ns, system_ns;
  if (stands_still()) return false;
  clock_thread_usage(&user_ns, &system_ns);
  follow_interval();
  watch_perf(user_ns);
  int64_t jump = system_ns - t->system_seen_ns;
  if (jump < KERNEL_JUMP_NS) return false;
  t->system_seen_ns = system_ns;
  sample(context, 0, jump, TICK_SYSTEM);
  return true;
}

/* What the ticks due by now stand for, by a schedule of drawn periods that lateness does not shift. */
static int64_t due_ns(void) {
  struct thread_state *t = &this_thread;
  int64_t now = clock_thread_cpu_ns(), weight_ns = 0;
  for (int count = 0; t->next_user_ns <= now && count < 10000; count++) {
    weight_ns += t->mean_ns;
    t->next_user_ns += draw_period_ns();
  }
  if (t->next_user_ns <= now) t->next_user_ns = now + draw_period_ns();
  return weight_ns;
}

static void on_user_timer(const void *context) {
  struct thread_state *t = &this_thread;
  if (stands_still()) {
    t->user_spent = t->kernel_timer >= 0;
    t->next_user_ns = clock_thread_cpu_ns() + PAUSED_LOOK_NS;
    if (!t->user_spent) set_user_timer();
    return;
  }
  int64_t user_ns, system_ns, weight = due_ns() + t->user_carry_ns;
  bool in_kernel = on_kernel_look(context);
  clock_thread_usage(&user_ns, &system_ns);
  weight -= system_ns - t->user_system_seen_ns;
  t->user_system_seen_ns = system_ns;
  t->user_carry_ns = weight;
  if (!in_kernel && weight > 0) {
    t->user_carry_ns = 0;
    sample(context, weight, 0, 0);
  }
  set_user_timer();
}

/* Ours carry a descriptor that is this thread's, or was until a moment ago. */
static bool from_descriptor(const siginfo_t *info, const int32_t *fd) {
  return info->si_code >= POLL_IN && info->si_code <= POLL_HUP && *fd >= 0 && info->si_fd == *fd;
}

static bool has_cookie(const siginfo_t *info, const char *cookie) {
  return info->si_code == SI_TIMER && info->si_value.sival_ptr == cookie;
}

bool ticks_handle(siginfo_t *info, void *context) {
  bool perf = from_descriptor(info, &this_thread.perf_fd), user = has_cookie(info, &user_cookie),
       kernel = has_cookie(info, &kernel_cookie);
  if (!perf && !user && !kernel) return from_descriptor(info, &this_thread.perf_was);
  fork_check();
  cuda_calls_tick();
  if (!recording()) {
    ticks_disarm();
  } else if (perf) {
    on_perf(context);
  } else if (user) {
    if (this_thread.user_timer >= 0) on_user_timer(context);
  } else if (this_thread.kernel_timer >= 0) {
    on_kernel_look(context);
  }
  return true;
}
