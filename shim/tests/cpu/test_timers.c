/* timers.c and faults.c with a simulated kernel: an event is a pipe, and a tick may arrive inside of a system call. */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/cpu/cost.h"
#include "inside/cpu/descriptors.h"
#include "inside/cpu/faults.h"
#include "inside/cpu/timers.h"
#include "inside/signals/signals.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/spool.h"
#include "tests/check.h"

/* ---- stand-ins: the other files of the shim, and the kernel ---- */

static struct spool_header header = {.features = FEATURE_CPU, .cpu_interval_ns = 10000000};
struct spool_header *spool = &header;
static int set_stack(const stack_t *stack, stack_t *before); /* sanitizers do so before main */
struct next_functions next = {.resolved = true, .sigaltstack = set_stack};
THREAD_LOCAL struct thread_state this_thread;

void loss_add(enum loss loss) { header.losses[loss]++; }
void next_resolve(void) {}
int signals_number(void) { return 40; }
bool fork_shares_memory(void) { return false; }
bool fork_is_recorded_process(void) { return true; }

static int mapped;              /* pages of events */
static bool ticks_in_deletions; /* a tick arrives while a timer is being deleted */

static long open_pipe(void) {
  int end[2];
  check(pipe2(end, O_CLOEXEC) == 0 && close(end[1]) == 0);
  return end[0];
}

static long create_timer(int *id) {
  static int last;
  *id = ++last;
  return 0;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
  long given[5]; /* those in registers */
  va_list more;
  va_start(more, number);
  for (int i = 0; i < 5; i++) given[i] = va_arg(more, long);
  va_end(more);
  mapped += number == SYS_mmap ? 1 : number == SYS_munmap ? -1 : 0;
  switch (number) {
  case SYS_perf_event_open: return open_pipe();
  case SYS_mmap: return (long)mmap(NULL, (size_t)given[1], PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  case SYS_timer_create: return create_timer((int *)given[2]);
  case SYS_timer_delete: return ticks_in_deletions ? faults_watch(), 0 : 0;
  case SYS_timer_settime: return 0;
  default: return __real_syscall(number, given[0], given[1], given[2], given[3], given[4]);
  }
}

static int set_stack(const stack_t *stack, stack_t *before) {
  return (int)__real_syscall(SYS_sigaltstack, stack, before);
}

#define MANY 1000
static rlim_t most_signals = MANY;

int __real_getrlimit(__rlimit_resource_t resource, struct rlimit *limit);
int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit);
int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit) {
  if (resource == RLIMIT_NOFILE) return __real_getrlimit(resource, limit);
  limit->rlim_cur = limit->rlim_max = resource == RLIMIT_SIGPENDING ? most_signals : RLIM_INFINITY;
  return 0;
}

/* ---- */

static int open_events(void) {
  int count = 0;
  for (int fd = 3; fd < 70000; fd++) count += timers_own_descriptor(fd);
  return count;
}

static bool observes(void) { return this_thread.fault_fd >= 0 && timers_own_event(this_thread.fault_fd); }

/* A thread that has a tick every 10 ms, of which the first one has opened its event of page faults. */
static void begin(void) {
  struct thread_state *t = &this_thread;
  *t = (struct thread_state){.id = 1, .tid = (int32_t)gettid()};
  t->perf_fd = t->old_perf_fd = t->perf_slot = t->user_timer = t->kernel_timer = -1;
  t->fault_fd = t->old_fault_fd = t->fault_slot = -1;
  memset(header.losses, 0, sizeof header.losses);
  timers_arm();
  check(t->engine == ENGINE_PERF && t->perf_fd >= 0 && t->kernel_timer >= 0);
  faults_watch();
  check(observes() && open_events() == 2 && mapped == 1);
}

static void end(void) {
  timers_disarm();
  check(this_thread.fault_fd < 0 && !this_thread.fault_pages && open_events() == 0 && mapped == 0);
}

static void test_a_tick_while_a_thread_ends_opens_no_event(void) {
  begin();
  ticks_in_deletions = true;
  end();
  ticks_in_deletions = false;
}

static void test_an_event_that_the_program_has_closed_is_opened_again(void) {
  begin();
  close(this_thread.fault_fd);
  faults_watch();
  check(!observes() && open_events() == 1 && mapped == 0);
  faults_watch();
  check(observes() && mapped == 1);
  end();
}

/* The program sets a limit, and timers.c learns of it before and after the call. */
static void limit_signals(rlim_t most) {
  timers_limit_signals(most, false);
  most_signals = most;
  timers_limit_signals(most, true);
}

static void test_page_faults_are_observed_again_after_a_limit_on_signals_was_raised(void) {
  begin();
  limit_signals(1);
  for (int tick = 0; tick < 3; tick++) faults_watch();
  check(!observes() && mapped == 0 && header.losses[LOSS_faults_unseen] == 1);
  limit_signals(MANY);
  for (int tick = 0; tick < 2; tick++) faults_watch();
  check(observes() && mapped == 1);
  limit_signals(1);
  limit_signals(MANY); /* between two ticks: the event was disabled */
  int32_t disabled = this_thread.fault_fd;
  faults_watch();
  check(this_thread.old_fault_fd == disabled && !observes());
  faults_watch();
  check(observes() && header.losses[LOSS_faults_unseen] == 1);
  end();
}

/* Some of many threads may have closed their events, so that there is room again although the limit is as low: those that
 * were refused look again when it is raised. */
static void test_a_higher_limit_is_noticed_also_if_there_was_room(void) {
  begin();
  limit_signals(1);
  faults_ignore();
  timers_disarm_perf();
  limit_signals(5); /* the kernel timer is all that is armed */
  check(timers_may_arm());
  uint32_t before = timers_scarcities();
  limit_signals(MANY);
  check(timers_scarcities() != before);
  end();
}

/* Ticks that cost much make the interval longer. */
static void test_the_interval_is_not_shorter_than_half_of_what_ticks_cost(void) {
  header.cpu_interval_ns = 10000;
  check(timers_draw_period_ns() < 20000 && timers_mean_period_ns() == 10000);
  for (int i = 0; i < 200; i++) {
    int64_t began_ns = cost_begin(), period_ns = timers_draw_period_ns();
    while (clock_thread_cpu_ns() - began_ns < 200000) {}
    cost_end(began_ns, period_ns);
  }
  check(timers_mean_period_ns() >= 90000 && timers_mean_period_ns() <= 1000000);
  header.cpu_interval_ns = 10000000;
  check(timers_mean_period_ns() == 10000000);
}

int main(void) {
  descriptors_init();
  test_a_tick_while_a_thread_ends_opens_no_event();
  test_an_event_that_the_program_has_closed_is_opened_again();
  test_page_faults_are_observed_again_after_a_limit_on_signals_was_raised();
  test_a_higher_limit_is_noticed_also_if_there_was_room();
  test_the_interval_is_not_shorter_than_half_of_what_ticks_cost();
  return 0;
}
