/* Opens, closes and awaits the perf events of attached threads.
 *
 * Each event is one of the thread's CPU time: it costs a descriptor, and RING_PAGES + 1 pages that the kernel keeps in
 * memory, of which a user without privileges may have only so many. Threads for which there is no room are polled. */
#include "watch/attached/events.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/random.h"
#include "shared/spool.h"

#define LEAST_MEAN_NS 1000000   /* as that of passes */
#define MOST_MEAN_NS 2000000000 /* a tick's time has 32 bits */
#define LIMIT_SHARE 4           /* of the limit on descriptors, events get at most this part */
#define READY 64
#define MOST_SHARE 5 /* of a CPU, the watcher uses at most 1/5 if there are many samples */
#define MOST_STRETCH 1000
#define DRAWS 64 /* or so much time, between two looks at what it uses: */
#define WINDOW_NS 1000000000
#define NICE (-15)
#define SLICE_NS 100000

static int poller = -1; /* epoll */
static int waker = -1;  /* eventfd; stays open, as other threads use it */
static uint32_t count;
static struct epoll_event ready[READY];
static int ready_count, ready_next;
static uint64_t random_state;
static double stretch = 1; /* of intervals */
/* Since the last look; 0 = there was none. */
static struct {
  int64_t since_ns, spent_ns;
  uint32_t draws;
} window;

int64_t events_spent_ns;

uint32_t events_count(void) { return count; }

/* ---- open and close ---- */

static int64_t mean_ns(void) {
  int64_t asked_ns = (int64_t)spool->cpu_interval_ns;
  double mean = (double)(asked_ns > LEAST_MEAN_NS ? asked_ns : LEAST_MEAN_NS) * stretch;
  return mean > MOST_MEAN_NS ? MOST_MEAN_NS : (int64_t)mean;
}

/* Many threads on many CPUs, or short intervals, must not take much of a CPU: above MOST_SHARE of one, intervals grow. */
static void adapt(void) {
  int64_t now_ns = clock_now_ns(), passed_ns = now_ns - window.since_ns;
  if (window.since_ns && ++window.draws < DRAWS && passed_ns < WINDOW_NS) return;
  if (window.since_ns && passed_ns > 0)
    stretch *= (double)(events_spent_ns - window.spent_ns) / (double)passed_ns * MOST_SHARE;
  if (stretch < 1) stretch = 1;
  if (stretch > MOST_STRETCH) stretch = MOST_STRETCH;
  window.since_ns = now_ns;
  window.spent_ns = events_spent_ns;
  window.draws = 0;
}

static int64_t draw(int64_t from_ns, int64_t range_ns) {
  if (!random_state) random_state = random_seed(0);
  return from_ns + (int64_t)(random_next(&random_state) % (uint64_t)range_ns);
}

static int open_event(pid_t tid, bool of_kernel, int64_t first_ns) {
  struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                 .size = sizeof attr,
                                 .config = PERF_COUNT_SW_TASK_CLOCK,
                                 .sample_period = (uint64_t)first_ns,
                                 .sample_type = RING_SAMPLE,
                                 .exclude_kernel = !of_kernel,
                                 .exclude_hv = 1,
                                 .use_clockid = 1,
                                 .clockid = CLOCK_MONOTONIC,
                                 .sample_regs_user = ARCH_PERF_REGISTERS,
                                 .sample_stack_user = RING_STACK_BYTES,
                                 .wakeup_events = 1};
  return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, (unsigned long)PERF_FLAG_FD_CLOEXEC);
}

static bool has_room(void) {
  struct rlimit limit;
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)count < limit.rlim_cur / LIMIT_SHARE;
}

/* The stack of a sample is read when the watcher runs, not when it is woken. On a machine without an idle CPU, that is soon
 * only if it has a higher priority, for which it may lack the right, and asks for short slices (Linux 6.12; older ones
 * ignore that). It uses little CPU time. */
static void hurry(void) {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes = {.size = sizeof attributes, .runtime = SLICE_NS};
  setpriority(PRIO_PROCESS, 0, NICE);
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

static bool prepare(void) {
  if (poller >= 0) return true;
  struct epoll_event wake = {.events = EPOLLIN, .data.ptr = NULL};
  int made = epoll_create1(EPOLL_CLOEXEC), signal = waker < 0 ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : waker;
  if (made >= 0 && signal >= 0 && epoll_ctl(made, EPOLL_CTL_ADD, signal, &wake) == 0) {
    poller = made;
    __atomic_store_n(&waker, signal, __ATOMIC_RELEASE);
    return true;
  }
  if (made >= 0) close(made);
  if (signal >= 0 && signal != waker) close(signal);
  return false;
}

static size_t mapped_bytes(void) { return (1 + RING_PAGES) * arch_page_bytes(); }

static bool map(struct thread_event *event) {
  size_t page = arch_page_bytes();
  char *mapped = mmap(NULL, mapped_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, event->fd, 0);
  if (mapped == MAP_FAILED) return false;
  event->ring = (struct ring){(struct perf_event_mmap_page *)mapped, mapped + page, RING_PAGES * page};
  return true;
}

static bool begin(struct attached_thread *thread, struct thread_event *event) {
  struct epoll_event awaited = {.events = EPOLLIN, .data.ptr = thread};
  int64_t first_ns;
  event->mean_ns = mean_ns();
  event->factor = 1;
  first_ns = draw(event->mean_ns / 2, event->mean_ns); /* the kernel repeats it until the first sample is taken */
  event->of_kernel = true;
  event->fd = open_event(thread->tid, true, first_ns);
  if (event->fd < 0) {
    event->of_kernel = false;
    event->fd = open_event(thread->tid, false, first_ns);
  }
  if (event->fd < 0) return false;
  if (map(event)) {
    if (epoll_ctl(poller, EPOLL_CTL_ADD, event->fd, &awaited) == 0) return true;
    munmap(event->ring.page, mapped_bytes());
  }
  close(event->fd);
  return false;
}

void events_open(struct attached_thread *thread) {
  errno = 0;
  struct thread_event *event = has_room() && prepare() ? calloc(1, sizeof *event) : NULL;
  if (event && begin(thread, event)) {
    thread->event = event;
    if (!count++) hurry();
    return;
  }
  bool has_ended = errno == ESRCH;
  free(event);
  if (has_ended) return;
  if (!thread->process->polled) loss_add(LOSS_attached_polled);
  thread->process->polled = true;
}

/* A thread that has ended is reported for ever. */
static void await_no_more(const struct thread_event *event) { epoll_ctl(poller, EPOLL_CTL_DEL, event->fd, NULL); }

static void discard(struct thread_event *event) {
  struct ring_batch batch;
  ring_read(&event->ring, &batch);
  loss_add_many(LOSS_attached_lost, batch.user + batch.kernel + batch.lost);
}

void events_close(struct attached_thread *thread) {
  struct thread_event *event = thread->event;
  if (!event) return;
  await_no_more(event);
  discard(event);
  for (int i = ready_next; i < ready_count; i++) {
    if (ready[i].data.ptr == thread) ready[i].data.ptr = NULL;
  }
  munmap(event->ring.page, mapped_bytes());
  close(event->fd);
  free(event);
  thread->event = NULL;
  count--;
}

void events_enable(struct attached_thread *thread, bool enabled) {
  struct thread_event *event = thread->event;
  struct ring_batch ignored;
  if (!event) return;
  if (enabled) {
    window.since_ns = 0;
    ring_read(&event->ring, &ignored);
    ioctl(event->fd, PERF_EVENT_IOC_ENABLE, 0);
  } else {
    ioctl(event->fd, PERF_EVENT_IOC_DISABLE, 0);
    discard(event);
  }
}

void events_draw(struct thread_event *event) {
  adapt();
  event->mean_ns = mean_ns();
  uint64_t period_ns = (uint64_t)draw(event->mean_ns / 2, event->mean_ns);
  ioctl(event->fd, PERF_EVENT_IOC_PERIOD, &period_ns);
}

/* ---- waiting ---- */

/* To ask whether an event is ready takes away that it is, so there must be one question. Kernels before 5.11 have only the one
 * in milliseconds. */
static int wait_for(int64_t left_ns) {
  static bool in_ms; /* seccomp filters may refuse it with any error */
  struct timespec left = {left_ns / 1000000000, left_ns % 1000000000};
  long got = in_ms ? -1 : syscall(SYS_epoll_pwait2, poller, ready, READY, &left, NULL, 0L);
  if (!in_ms && (got >= 0 || errno == EINTR)) return (int)got;
  in_ms = true;
  return epoll_wait(poller, ready, READY, (int)(left_ns / 1000000) + 1);
}

bool events_wait(int64_t until_ns) {
  if (!count) return false;
  int64_t left_ns = until_ns - clock_now_ns();
  int got = left_ns > 0 ? wait_for(left_ns) : 0;
  ready_next = 0;
  ready_count = got > 0 ? got : 0;
  return got >= 0 || errno == EINTR;
}

static void take_wake(void) {
  uint64_t wakes;
  while (read(waker, &wakes, sizeof wakes) == (ssize_t)sizeof wakes) {}
}

struct attached_thread *events_next(void) {
  while (ready_next < ready_count) {
    const struct epoll_event *each = &ready[ready_next++];
    struct attached_thread *thread = each->data.ptr;
    if (!thread) take_wake();
    if (thread && (each->events & (EPOLLHUP | EPOLLERR))) await_no_more(thread->event);
    if (thread && ring_has(&thread->event->ring)) return thread;
  }
  return NULL;
}

bool events_is_sampled(const struct attached_thread *thread) { return thread->event && ring_has(&thread->event->ring); }

void events_wake(void) {
  uint64_t one = 1;
  int fd = __atomic_load_n(&waker, __ATOMIC_ACQUIRE);
  if (fd >= 0 && write(fd, &one, sizeof one) < 0) return; /* it is full: somebody else has woken it */
}
