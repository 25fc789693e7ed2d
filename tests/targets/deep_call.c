/* A chain of calls that ends in a loop, and ticks as the shim has them, whose handler does nothing else than count. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t period_ns;
static int event = -1;
static long ticks;

__attribute__((noinline)) static uint64_t spin(uint64_t steps) {
  uint64_t number = 1;
  for (uint64_t i = 0; i < steps; i++) {
    number = number * 6364136223846793005u + 1442695040888963407u;
    __asm__ volatile("" : "+r"(number));
  }
  return number;
}

/* `frames`: of this function and spin together. */
__attribute__((noinline)) uint64_t down(int frames, uint64_t steps) {
  uint64_t number = frames > 2 ? down(frames - 1, steps) : spin(steps);
  __asm__ volatile("" : "+r"(number)); /* not a tail call */
  return number;
}

static void on_tick(int signal) {
  (void)signal;
  ticks++;
  ioctl(event, PERF_EVENT_IOC_PERIOD, &period_ns);
  ioctl(event, PERF_EVENT_IOC_REFRESH, 1);
}

/* Ticks with that period from now on; returns how many there were until now, or -1. */
long empty_ticks(uint64_t period) {
  struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
  struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                 .size = sizeof attr,
                                 .config = PERF_COUNT_SW_TASK_CLOCK,
                                 .sample_period = period,
                                 .disabled = 1,
                                 .exclude_kernel = 1,
                                 .exclude_hv = 1,
                                 .wakeup_events = 1};
  struct f_owner_ex owner = {F_OWNER_TID, (int)syscall(SYS_gettid)};
  if (event >= 0) return ticks;
  period_ns = period;
  event = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (event < 0 || sigaction(SIGIO, &action, NULL)) return -1;
  if (fcntl(event, F_SETOWN_EX, &owner) || fcntl(event, F_SETFL, O_ASYNC | O_NONBLOCK)) return -1;
  return ioctl(event, PERF_EVENT_IOC_REFRESH, 1);
}
