/* The interposed calls by which a program sets a seccomp filter: prctl, and syscall with the number of prctl or seccomp.
 *
 * A filter may kill the process for a system call that the program does not make. So the process is sealed before the
 * filter is in force: its recording ends, the timers of all threads stop, and from then on the shim makes no system call.
 * If the kernel refuses the filter, the recording continues. A filter whose program is certain to allow what the shim
 * does (filter_program.c) changes nothing.
 *
 * A vfork child runs in its parent's memory. It alone is sealed, by a flag of the thread. */
#undef _FORTIFY_SOURCE
#include "inside/processes/filters.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/cpu/timers.h"
#include "inside/processes/process.h"
#include "inside/python/python.h"
#include "inside/seccomp/filter_program.h"
#include "inside/seccomp/tick_handlers.h"
#include "inside/signals/signals.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/sealed/sealed.h"
#include "shared/spool.h"

/* The arguments of syscall(), its number first. */
struct call {
  long number, a, b, c, d, e, f;
};

/* ---- the real calls ---- */

typedef long syscall_function(long, long, long, long, long, long, long);
__attribute__((visibility("hidden"))) syscall_function *filters_real_syscall;

static long call_kernel(const struct call *call) {
  long result = arch_system_call(call->number, call->a, call->b, call->c, call->d, call->e, call->f);
  if (result >= 0 || result < -4095) return result;
  errno = (int)-result;
  return -1;
}

static int (*real_prctl)(int, ...);

static long forward(const struct call *call) {
  if (unlikely(!filters_real_syscall)) return call_kernel(call);
  return filters_real_syscall(call->number, call->a, call->b, call->c, call->d, call->e, call->f);
}

void filters_init(void) {
  filters_real_syscall = (syscall_function *)dlsym(RTLD_NEXT, "syscall");
  real_prctl = (int (*)(int, ...))dlsym(RTLD_NEXT, "prctl");
}

/* ---- filters that the process has ---- */

/* Returns the number after a name in /proc/self/status; `otherwise` if the name is not there. */
static uint32_t number_after(const char *status, const char *name, uint32_t otherwise) {
  const char *at = strstr(status, name);
  return at ? (uint32_t)strtoul(at + strlen(name), NULL, 10) : otherwise;
}

/* Reads the start of a file, by the calls with which the loader reads libraries. */
static size_t read_start(const char *path, char *to, size_t size) {
  size_t used = 0;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  while (used < size) {
    long got = syscall(SYS_read, fd, to + used, size - used);
    if (got <= 0) break;
    used += (size_t)got;
  }
  syscall(SYS_close, fd);
  return used;
}

static char status[16384]; /* one thread at a time sets a filter */

static size_t read_status(void) {
  size_t used = read_start("/proc/self/status", status, sizeof status - 1);
  status[used] = 0;
  return used;
}

/* Kernels before 5.9 only tell whether there is a filter. */
static uint32_t count_filters(void) {
  uint32_t unknown = read_status() == sizeof status - 1; /* the process has a thousand groups, which come first */
  return number_after(status, "\nSeccomp_filters:", number_after(status, "\nSeccomp:", unknown) != 0);
}

/* True also where it cannot be known. */
static bool is_traced(void) {
  read_status();
  return number_after(status, "\nTracerPid:", 1) != 0;
}

/* A file that is no spool is refused later. */
bool filters_forbid_us(const char *spool_path) {
  int saved_errno = errno;
  uint32_t filters = count_filters(), known[offsetof(struct spool_header, filters) / sizeof(uint32_t) + 1] = {0};
  size_t got = filters ? read_start(spool_path, (char *)known, sizeof known) : 0;
  errno = saved_errno;
  return filters > 0 && (got < sizeof known || filters > known[sizeof known / sizeof *known - 1]);
}

/* ---- setting a filter ---- */

#define MOST_TRIES 100000000 /* a thread waits for another one that sets a filter: seconds at most */
static _Atomic bool busy, any_set;

bool filters_are_set(void) { return atomic_load_explicit(&any_set, memory_order_relaxed); }

void filters_postfork_child(void) { atomic_store(&busy, false); }

/* Makes no system call while it waits: the other thread may set a filter for all threads. */
static void take_turn(void) {
  for (int tries = 0; atomic_exchange(&busy, true) && tries < MOST_TRIES && !seal_is_in_force(); tries++) arch_pause();
}

#define MOST_WAIT_NS 1000000000 /* by the clock: on a crowded machine, a pause may last for several time slices */

/* Waits until no thread is inside the shim. The wait is limited, because a handler of the program may have left the
 * shim by longjmp. */
static void let_others_finish(void) {
  struct timespec pause = {.tv_nsec = 200000};
  int64_t until_ns = clock_now_ns() + MOST_WAIT_NS;
  while (atomic_load(&seal_sections) > 0 && clock_now_ns() < until_ns) syscall(SYS_nanosleep, &pause, NULL);
}

/* A handler that a thread has begun before the timers stopped ends with a system call. */
static void let_handlers_finish(void) {
  if (signals_number()) tick_handlers_finish(signals_number(), MOST_WAIT_NS);
}

static void seal(bool for_all_threads) {
  process_before_filter();
  seal_process(true);
  let_others_finish();
  timers_stop_all();
  signals_seal(is_traced());
  if (for_all_threads) let_handlers_finish();
}

static void unseal(void) {
  signals_unseal(); /* first, so that no timer that another thread arms finds the program's action */
  seal_process(false);
  if (recording()) timers_start_all();
  process_after_refused_filter();
}

/* Reads may be refused from now on. */
static void note_harmless(void) {
  uint32_t filters = count_filters();
  _Atomic uint32_t *known = (_Atomic uint32_t *)&spool->filters;
  uint32_t before = atomic_load(known);
  while (before < filters && !atomic_compare_exchange_weak(known, &before, filters)) {}
  bool refused = safe_read_refused();
  safe_read_init();
  if (!safe_read_refused() || refused) return;
  loss_add(LOSS_read_refused);
  if (python_layout && pylayout_needs_reads(python_layout)) loss_add(LOSS_stacks_off);
}

/* A filter that a program wants to set. `filter`: the filter's struct sock_fprog, null in strict mode. */
struct request {
  const void *filter;
  bool listener; /* success is the number of a descriptor */
  bool for_all_threads;
};

/* seccomp() reports a thread that cannot get the filter by returning its id. */
static bool succeeded(const struct request *request, long result) {
  return result == 0 || (request->listener && result > 0);
}

static long set_in_vfork_child(const struct call *call, const struct request *request) {
  seal_vfork_child(true);
  long result = forward(call);
  if (!succeeded(request, result)) seal_vfork_child(false);
  return result;
}

static long set_harmless(const struct call *call, const struct request *request) {
  long result = forward(call);
  int error = errno;
  if (succeeded(request, result) && recording()) note_harmless();
  errno = error;
  return result;
}

static long set_sealed(const struct call *call, const struct request *request) {
  int error = errno;
  seal(request->for_all_threads);
  errno = error;
  long result = forward(call);
  error = errno;
  if (succeeded(request, result)) {
    seal_for_good();
    if (spool) loss_add(LOSS_seccomp);
  } else {
    unseal();
  }
  errno = error;
  return result;
}

static long set_filter(const struct call *call, const struct request *request) {
  int error = errno;
  if (seal_is_in_force()) return forward(call);
  fork_check();
  if (fork_shares_memory()) {
    errno = error;
    return set_in_vfork_child(call, request);
  }
  take_turn();
  if (seal_is_in_force()) return forward(call);
  atomic_store(&any_set, true);
  bool harmless = request->filter && filter_allows_us(request->filter);
  errno = error;
  long result = harmless ? set_harmless(call, request) : set_sealed(call, request);
  atomic_store(&busy, false);
  return result;
}

/* ---- exported ---- */

static bool is_request_by_prctl(const struct call *call, struct request *request) {
  if ((int)call->a != PR_SET_SECCOMP)
    return false; /* the kernel takes an int: the rest of a register may be anything */
  *request = (struct request){.filter = call->b == SECCOMP_MODE_FILTER ? (const void *)call->c : NULL};
  return call->b == SECCOMP_MODE_STRICT || request->filter;
}

#ifndef SECCOMP_FILTER_FLAG_TSYNC
#define SECCOMP_FILTER_FLAG_TSYNC 1
#endif
#ifndef SECCOMP_FILTER_FLAG_NEW_LISTENER
#define SECCOMP_FILTER_FLAG_NEW_LISTENER 8
#endif

static bool is_request_by_seccomp(const struct call *call, struct request *request) {
  uint32_t mode = (uint32_t)call->a;
  bool strict = mode == SECCOMP_SET_MODE_STRICT, filter = mode == SECCOMP_SET_MODE_FILTER;
  if (strict && (call->b || call->c))
    return false; /* fails with EINVAL; libseccomp asks so whether there is seccomp() */
  *request = (struct request){.filter = filter ? (const void *)call->c : NULL,
                              .listener = (call->b & SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0,
                              .for_all_threads = (call->b & SECCOMP_FILTER_FLAG_TSYNC) != 0};
  return strict || request->filter;
}

/* A null filter fails with EFAULT; programs ask so whether filters are supported. */
static long make(const struct call *call) {
  struct request request;
  struct call prctl_call = {SYS_prctl, call->a, call->b, call->c, call->d, call->e, 0};
  bool sets = call->number == SYS_prctl ? is_request_by_prctl(&prctl_call, &request)
                                        : call->number == SYS_seccomp && is_request_by_seccomp(call, &request);
  return sets ? set_filter(call, &request) : forward(call);
}

EXPORT int prctl(int option, ...) {
  va_list list;
  va_start(list, option);
  struct call call = {.number = SYS_prctl, .a = option};
  call.b = va_arg(list, long);
  call.c = va_arg(list, long);
  call.d = va_arg(list, long);
  call.e = va_arg(list, long);
  va_end(list);
  if (option == PR_SET_SECCOMP || !real_prctl) return (int)make(&call);
  return real_prctl(option, call.b, call.c, call.d, call.e);
}

__attribute__((visibility("hidden"), used)) long filters_make(long number, long a, long b, long c, long d, long e,
                                                              long f);
long filters_make(long number, long a, long b, long c, long d, long e, long f) {
  return make(&(struct call){number, a, b, c, d, e, f});
}

/* Jumps to the real function, so that a system call that returns twice finds the caller's stack as it was. */
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
ARCH_SYSCALL_FUNCTION(TEXT(ARCH_PRCTL), TEXT(ARCH_SECCOMP), "filters_make", "filters_real_syscall");
_Static_assert(SYS_prctl == ARCH_PRCTL && SYS_seccomp == ARCH_SECCOMP, "as the code above has it");
