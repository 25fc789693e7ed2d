/* Page faults: a perf event for each thread of a program with mappings without reserve (residency.c), enabled for one
 * overflow at a time like that of the ticks. Its signal arrives on the instruction that faulted, so the thread's stack is
 * the one that touches the page. The kernel writes the address into a page that is mapped here.
 *
 * Only faults of user mode count. One in a system call would leave a signal pending there, and the call could return
 * EINTR to the program. */
#include "inside/cpu/faults.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/thread_state.h"
#include "inside/cpu/timers.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/random.h"
#include "shared/spool.h"

#define PAGE arch_page_bytes()
#define MAPPED (2 * PAGE) /* the kernel's header, and one page of records */
/* The mean number of faults between two signals follows the faults: a fault may bring 4 KiB or a huge page. */
#define LEAST_MEAN 8
#define MOST_MEAN 512
#define FREQUENT_NS 1000000
#define RARE_NS 4000000
#define QUIET_NS 100000000
/* Each event takes from limits that the program has: locked memory (the kernel adds the pages of the events of all of a
 * user's processes to what they give to io_uring), queued signals, and descriptors. Ticks may use half or a quarter of the
 * last two, and come first. */
#define MOST_EVENTS 32
#define LOCKED_SHARE 64
#define SIGNALS_SHARE 8
#define DESCRIPTORS_SHARE 16

static _Atomic int events; /* of the process */

static bool within(__rlimit_resource_t resource, uint64_t bytes, uint64_t share) {
  struct rlimit limit;
  return !getrlimit(resource, &limit) && (uint64_t)atomic_load(&events) * bytes <= limit.rlim_cur / share;
}

/* True if the limits have room for all events that are counted. */
static bool there_is_room(void) {
  return atomic_load(&events) <= MOST_EVENTS && within(RLIMIT_MEMLOCK, MAPPED, LOCKED_SHARE) &&
         within(RLIMIT_SIGPENDING, 1, SIGNALS_SHARE) && within(RLIMIT_NOFILE, 1, DESCRIPTORS_SHARE);
}

/* With this type of sample, a record has a header and the address. */
struct record {
  struct perf_event_header header;
  uint64_t address;
};

static int open_event(void) {
  struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                 .size = sizeof attr,
                                 .config = PERF_COUNT_SW_PAGE_FAULTS,
                                 .sample_period = LEAST_MEAN,
                                 .sample_type = PERF_SAMPLE_ADDR,
                                 .disabled = 1,
                                 .exclude_kernel = 1,
                                 .exclude_hv = 1,
                                 .wakeup_events = 1};
  return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Written in the pages without a right to write, so the kernel goes on from the page's end to its beginning. */
static void *map_records(int fd) {
  long pages = syscall(SYS_mmap, NULL, MAPPED, PROT_READ, MAP_SHARED, fd, 0L);
  return pages > 0 ? (void *)pages : NULL;
}

static bool open_mapped(struct thread_state *t) {
  int fd = open_event();
  void *pages = fd >= 0 ? map_records(fd) : NULL;
  if (!pages) {
    if (fd >= 0) syscall(SYS_close, fd);
    return false;
  }
  t->fault_fd = timers_adopt_event(fd, &t->fault_slot);
  if (t->fault_fd < 0) {
    syscall(SYS_munmap, pages, MAPPED);
    return false;
  }
  t->fault_pages = pages;
  return true;
}

static void open_once(void) {
  struct thread_state *t = &this_thread;
  t->fault_scarcities = timers_scarcities();
  t->faults_tried = true;
  bool counts = t->engine == ENGINE_PERF;
  if (counts) atomic_fetch_add(&events, 1);
  if (counts && there_is_room() && timers_may_arm() && open_mapped(t)) {
    t->fault_mean = LEAST_MEAN;
    faults_go_on();
  } else {
    if (counts) atomic_fetch_sub(&events, 1);
    loss_add(LOSS_faults_unseen);
  }
}

/* True if the program has closed the event, of which the ticks' one may have the number by now. */
static bool was_closed(const struct thread_state *t) {
  return t->fault_fd >= 0 && (t->fault_fd == t->perf_fd || !timers_own_event(t->fault_fd));
}

/* Otherwise this event could get the number that the ticks' one had, and its signals would be taken for ticks. */
static bool ticks_have_their_event(const struct thread_state *t) {
  return t->perf_fd < 0 || timers_own_event(t->perf_fd);
}

/* True if a limit on queued signals has disabled the event or refused it, or does not any more. */
static bool was_limited(const struct thread_state *t) {
  return t->faults_tried && t->fault_scarcities != timers_scarcities();
}

/* A program may close every descriptor that it does not know. The event then lives on in its mapping, without a
 * signal. */
void faults_watch(void) {
  struct thread_state *t = &this_thread;
  int saved_errno = errno;
  if (was_closed(t) || was_limited(t)) {
    faults_ignore(); /* and open it again at the next tick */
  } else if (!t->faults_tried) {
    if (ticks_have_their_event(t)) open_once();
  } else if (t->faults_expired) {
    faults_go_on();
  }
  errno = saved_errno;
}

bool faults_take(struct fault *out) {
  struct thread_state *t = &this_thread;
  const struct perf_event_mmap_page *page = t->fault_pages;
  struct record record;
  if (!page) return false;
  uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
  memcpy(&record, (const char *)page + PAGE + (head - sizeof record) % PAGE, sizeof record);
  *out = (struct fault){record.address, t->fault_period};
  return head >= sizeof record && record.header.type == PERF_RECORD_SAMPLE && record.header.size == sizeof record;
}

static void follow_frequency(struct thread_state *t) {
  int64_t now_ns = clock_now_ns(), since_ns = now_ns - t->fault_ns;
  t->fault_ns = now_ns;
  if (since_ns < FREQUENT_NS && t->fault_mean < MOST_MEAN) t->fault_mean *= 2;
  if (since_ns > RARE_NS && t->fault_mean > LEAST_MEAN) t->fault_mean /= 2;
  if (since_ns > QUIET_NS) t->fault_mean = LEAST_MEAN;
}

void faults_go_on(void) {
  struct thread_state *t = &this_thread;
  int saved_errno = errno;
  t->faults_expired = false;
  if (t->fault_fd < 0) return;
  follow_frequency(t);
  t->fault_period = t->fault_mean / 2 + random_next(&t->random) % t->fault_mean;
  ioctl(t->fault_fd, PERF_EVENT_IOC_PERIOD, &t->fault_period);
  timers_enable_event(t->fault_fd);
  errno = saved_errno;
}

void faults_ignore(void) {
  struct thread_state *t = &this_thread;
  int fd = t->fault_fd;
  t->faults_tried = t->faults_expired = false;
  if (fd < 0) return;
  t->old_fault_fd = fd;
  atomic_signal_fence(memory_order_seq_cst);
  t->fault_fd = -1;
  timers_close_event(fd == t->perf_fd ? -1 : fd, t->fault_slot);
  /* A forked child does not inherit the pages, and may have mapped others there before it is detected. */
  if (fork_is_recorded_process()) syscall(SYS_munmap, t->fault_pages, MAPPED);
  t->fault_pages = NULL;
  t->fault_slot = -1;
  atomic_fetch_sub(&events, 1);
}

void faults_postfork_child(void) { atomic_store(&events, 0); }
