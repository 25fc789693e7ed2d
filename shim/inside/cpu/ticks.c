/* CPU ticks: each signal from one of a thread's two timers (timers.c) becomes one sample.
 *
 * The kernel timer fires at every scheduler tick. If the thread's kernel time has jumped since the last one, this tick
 * happened in the kernel, and its signal is delivered after the system call or the page fault. */
#include "inside/cpu/ticks.h"

#include <signal.h>
#include <ucontext.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/thread_state.h"
#include "inside/cpu/cost.h"
#include "inside/cpu/faults.h"
#include "inside/cpu/timers.h"
#include "inside/cuda/calls.h"
#include "inside/memory/memory.h"
#include "inside/memory/pages.h"
#include "inside/memory/pyalloc.h"
#include "inside/memory/residency.h"
#include "inside/native/diverted.h"
#include "inside/native/own.h"
#include "inside/native/images.h"
#include "inside/python/objects.h"
#include "inside/python/python.h"
#include "inside/stacks/frames.h"
#include "inside/stacks/scratch_pool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/sealed/sealed.h"
#include "shared/spool.h"
#include "shared/stacks/scratch.h"

#define KERNEL_JUMP_NS 500000 /* smaller jumps are rounding errors of the kernel's split into user and kernel time */

static _Atomic bool sub_interpreters_seen;

/* ---- pause ----
 *
 * A thread notices a pause that somebody has asked for at its next tick or poll. From then on its timers are not set
 * again, except the kernel timer, which polls every PAUSED_POLL_NS of CPU time whether the recording goes on. Pauses of a
 * cycle (--sample) are noticed equally late: if they were noticed sooner than their ends, a thread that runs little in each
 * window would be on for less than its part of the time. The thread's usage during the pause is subtracted from its exact
 * CPU time, to which the analysis scales the ticks. */

void ticks_add_paused_usage(int64_t sign) {
  struct thread_state *t = &this_thread;
  int64_t user_ns, system_ns;
  clock_thread_usage(&user_ns, &system_ns);
  t->paused_cpu_ns += sign * clock_thread_cpu_ns();
  t->paused_user_ns += sign * user_ns;
  t->paused_system_ns += sign * system_ns;
}

static void begin_pause(void) {
  this_thread.paused = true;
  residency_note_pause();
  ticks_add_paused_usage(-1);
  timers_set_kernel(PAUSED_POLL_NS);
}

static void end_pause(void) {
  struct thread_state *t = &this_thread;
  int64_t user_ns;
  ticks_add_paused_usage(1);
  t->paused = false;
  timers_ask_later();
  this_memory.faults_seen = 0;
  clock_thread_usage(&user_ns, &t->system_seen_ns);
  t->user_system_seen_ns = t->system_seen_ns;
  t->user_carry_ns = 0;
  t->perf_user_ns = -1;
  timers_set_kernel(KERNEL_POLL_NS);
  if (t->perf_expired && t->perf_fd >= 0) timers_start_perf(t->perf_fd, timers_draw_first_ns());
  if (t->user_expired && t->user_timer >= 0) timers_begin_user_schedule();
  t->perf_expired = t->user_expired = false;
}

static bool is_recording_paused(void) {
  if (spool->paused) return true;
  diverted_end();
  pyalloc_resume();
  return false;
}

/* Begins or ends the pause of this thread if the recorder has changed it, and it is time to ask; returns true while
 * paused. */
static bool follow_pause(void) {
  bool paused = is_recording_paused();
  if (this_thread.paused) {
    if (paused) return true;
    end_pause();
    memory_pause_ended();
    return false;
  }
  bool is_time = timers_ask_now();
  if (likely(!paused) || (!is_time && spool->paused == PAUSED_BY_CYCLE)) return false;
  begin_pause();
  return true;
}

/* For other timers than the kernel timer, which asks. */
static bool is_paused(void) {
  if (this_thread.kernel_timer < 0 || spool->paused == PAUSED_AT_ONCE) return follow_pause();
  is_recording_paused();
  return this_thread.paused;
}

/* Starts the running period anew if the interval has been changed. (An enabled event keeps its one pending
 * overflow.) */
static void follow_interval(void) {
  struct thread_state *t = &this_thread;
  if (likely(t->mean_ns == timers_mean_period_ns())) return;
  if (t->perf_fd >= 0) {
    timers_set_perf_period(t->perf_fd, timers_draw_first_ns());
    t->perf_user_ns = -1;
  } else if (t->user_timer >= 0) {
    timers_begin_user_schedule();
  }
}

/* ---- the sample ---- */

static bool stacks_possible(void) {
  /* Python 3.11 and 3.12 have a window in which the frame pointer is garbage: plain reads could crash there. */
  return python_layout && (!safe_read_refused() || !pylayout_needs_reads(python_layout));
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
  record->native = native->chain;
  record->cpu_ns = clock_thread_cpu_ns() - this_thread.paused_cpu_ns;
  record->user_ns = spool_tick_ns(user_ns);
  record->system_ns = spool_tick_ns(system_ns);
  for (int i = 0; i < TICK_OPCODES; i++) record->opcodes[i] = stack->opcodes[i];
  record->flags = (uint16_t)(flags | stack->flags | native->flags);
  spool_publish(record, RECORD_TICK, 1);
}

/* Where the disk is full, a stack of which no record could be written would be read in vain, and anew at each tick. */
static void sample(const void *context, int64_t user_ns, int64_t system_ns, uint32_t flags) {
  struct python_stack stack;
  if (unlikely(!spool_has_room())) {
    loss_add(LOSS_spool_full);
    return;
  }
  struct native_evidence native = {0};
  struct scratch *scratch = scratch_take();
  images_refresh();
  void *state = python_thread_state();
  if (!state && !python_thread_known()) flags |= TICK_NO_PYTHON;
  if (scratch) evidence_take(context, scratch, &native);
  uintptr_t sp = arch_interrupted_sp(context);
  frames_sample(stacks_possible() ? state : NULL, native.eval_frame, sp, scratch, &stack);
  if (scratch) scratch_give(scratch);
  note_sub_interpreters();
  objects_collections(state, false);
  write_tick(&stack, &native, arch_interrupted_pc(context), user_ns, system_ns, flags);
  pages_look(stack.hash, false);
  python_finalizing();
  if (unlikely(residency_has_groups())) faults_watch();
}

/* ---- one handler for each timer ---- */

static void on_perf(const void *context) {
  struct thread_state *t = &this_thread;
  if (is_paused()) {
    t->perf_expired = t->kernel_timer >= 0;
    if (!t->perf_expired && t->perf_fd >= 0) timers_start_perf(t->perf_fd, PAUSED_POLL_NS);
    return;
  }
  int64_t began_ns = cost_begin();
  sample(context, t->mean_ns, 0, 0);
  t->perf_user_ns = -1; /* the kernel timer fills it in */
  int64_t period_ns = timers_draw_period_ns();
  cost_end(began_ns, period_ns);
  if (t->perf_fd >= 0) timers_start_perf(t->perf_fd, period_ns);
}

/* Opens the event again; where that is refused, a timer takes its place. */
static void arm_again(void) {
  struct thread_state *t = &this_thread;
  t->scarcities = timers_scarcities();
  t->engine = timers_arm_perf() == 0 ? ENGINE_PERF : ENGINE_POSIX;
  if (t->engine == ENGINE_POSIX && t->user_timer < 0) timers_arm_user();
}

/* A thread loses its ticks while the limit on queued signals is too low, and gets them back when it is not any more. */
static void arm_again_if_allowed(void) {
  struct thread_state *t = &this_thread;
  if (likely(t->perf_fd >= 0 || t->user_timer >= 0) || t->scarcities == timers_scarcities()) return;
  t->perf_user_ns = -1;
  arm_again();
}

/* A program may close every descriptor that it does not know. And the kernel may lose an event that is enabled again
 * while its last overflow is still being disabled: on a crowded machine, the event then stays off for ever. So an event
 * is closed and opened again if no tick arrives for 20 periods plus 100 ms of user time. */
static void watch_perf(int64_t user_ns) {
  struct thread_state *t = &this_thread;
  arm_again_if_allowed();
  if (t->perf_user_ns < 0) t->perf_user_ns = user_ns;
  if (t->engine != ENGINE_PERF || user_ns - t->perf_user_ns < 20 * timers_mean_period_ns() + 100000000) return;
  t->perf_user_ns = user_ns;
  loss_add(t->perf_fd >= 0 && timers_own_event(t->perf_fd) ? LOSS_perf_silent : LOSS_perf_closed);
  timers_disarm_perf();
  arm_again();
}

/* Returns true if this scheduler tick happened in the kernel. */
static bool on_kernel_timer(const void *context) {
  struct thread_state *t = &this_thread;
  int64_t user_ns, system_ns;
  if (follow_pause()) return false;
  clock_thread_usage(&user_ns, &system_ns);
  follow_interval();
  watch_perf(user_ns);
  int64_t jump = system_ns - t->system_seen_ns;
  if (jump < KERNEL_JUMP_NS) return false;
  t->system_seen_ns = system_ns;
  sample(context, 0, jump, TICK_SYSTEM);
  return true;
}

/* Returns the weight of the ticks that are due by now, in ns. The schedule of drawn periods is absolute, so late
 * signals do not shift it. */
static int64_t due_ns(void) {
  struct thread_state *t = &this_thread;
  int64_t now = clock_thread_cpu_ns(), weight_ns = 0;
  for (int count = 0; t->next_user_ns <= now && count < 10000; count++) {
    weight_ns += t->mean_ns;
    t->next_user_ns += timers_draw_period_ns();
  }
  if (t->next_user_ns <= now) t->next_user_ns = now + timers_draw_period_ns();
  return weight_ns;
}

static void on_user_timer(const void *context) {
  struct thread_state *t = &this_thread;
  if (is_paused()) {
    t->user_expired = t->kernel_timer >= 0;
    t->next_user_ns = clock_thread_cpu_ns() + PAUSED_POLL_NS;
    if (!t->user_expired) timers_set_user();
    return;
  }
  int64_t user_ns, system_ns, weight = due_ns() + t->user_carry_ns;
  bool in_kernel = on_kernel_timer(context);
  clock_thread_usage(&user_ns, &system_ns);
  weight -= system_ns - t->user_system_seen_ns;
  t->user_system_seen_ns = system_ns;
  t->user_carry_ns = weight;
  if (!in_kernel && weight > 0) {
    t->user_carry_ns = 0;
    sample(context, weight, 0, 0);
  }
  timers_set_user();
}

/* An allocator inside a library has no function that could be interposed: the stack that touches a page of its mapping
 * says whose memory it is. */
static void on_fault(const void *context) {
  struct python_stack stack;
  struct fault fault;
  if (is_paused()) {
    this_thread.faults_expired = true;
    return;
  }
  if (faults_take(&fault) && pages_are_followed(fault.address)) {
    struct scratch *scratch = scratch_take();
    void *state = stacks_possible() ? python_thread_state() : NULL;
    frames_sample(state, 0, arch_interrupted_sp(context), scratch, &stack);
    if (scratch) scratch_give(scratch);
    pages_note_fault(fault.address, fault.count, stack.hash);
  }
  faults_go_on();
}

static void handle(enum timer_signal signal, void *context) {
  fork_check();
  cuda_calls_tick();
  if (!recording()) {
    timers_disarm();
  } else if (signal == SIGNAL_PERF) {
    on_perf(context);
  } else if (signal == SIGNAL_FAULT) {
    on_fault(context);
  } else if (signal == SIGNAL_USER) {
    if (this_thread.user_timer >= 0) on_user_timer(context);
  } else if (this_thread.kernel_timer >= 0) {
    on_kernel_timer(context);
  }
}

/* Ticks arrive only in the parent of a vfork child, so that child is gone. */
bool ticks_handle(siginfo_t *info, void *context) {
  enum timer_signal signal = timers_signal(info);
  if (signal == SIGNAL_FOREIGN || signal == SIGNAL_LATE) return signal == SIGNAL_LATE;
  seal_vfork_child(false);
  uint32_t section = seal_enter();
  if (!sealed()) handle(signal, context);
  seal_leave(section);
  return true;
}
