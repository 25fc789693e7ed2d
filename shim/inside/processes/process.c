/* The life of a process: load, fork, exec, end. */
#include "inside/processes/process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/kernel_clock.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/cpu/ticks.h"
#include "inside/cpu/timers.h"
#include "inside/cuda/calls.h"
#include "inside/cuda/hooks.h"
#include "inside/copies/copies.h"
#include "inside/memory/pages.h"
#include "inside/events/events.h"
#include "inside/memory/memory.h"
#include "inside/memory/pyalloc.h"
#include "inside/native/images.h"
#include "inside/native/relocations.h"
#include "shared/evidence/unwind.h"
#include "inside/processes/environment.h"
#include "inside/processes/filters.h"
#include "inside/processes/reaped.h"
#include "inside/processes/rights.h"
#include "inside/processes/thread_table.h"
#include "inside/processes/threads.h"
#include "inside/python/late.h"
#include "inside/python/python.h"
#include "inside/signals/signals.h"
#include "inside/stacks/scratch_pool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/sealed/sealed.h"
#include "shared/spool.h"

static _Atomic uint32_t ended;
static int64_t usage_start_user_ns, usage_start_system_ns;

#define PATH_LENGTH 4096
#define MAX_COMMAND 16384
#define SPOOL_VARIABLE "SCALENE_TRACE_SPOOL"

/* ---- records ---- */

static void process_usage(struct rusage *usage, int64_t *user_ns, int64_t *system_ns) {
  getrusage(RUSAGE_SELF, usage);
  *user_ns = (int64_t)usage->ru_utime.tv_sec * 1000000000 + (int64_t)usage->ru_utime.tv_usec * 1000;
  *system_ns = (int64_t)usage->ru_stime.tv_sec * 1000000000 + (int64_t)usage->ru_stime.tv_usec * 1000;
}

/* Reads the command line from the kernel; returns its bytes, 0 if it must not be stored. Plain system calls, because
 * libc's functions are cancellation points. */
static uint32_t read_command(char *to, uint32_t size) {
  uint32_t used = 0;
  int fd = spool->features & FEATURE_ARGV
               ? (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC)
               : -1;
  if (fd < 0) return 0;
  while (used < size) {
    ssize_t got = syscall(SYS_read, fd, to + used, size - used);
    if (got <= 0) break;
    used += (uint32_t)got;
  }
  syscall(SYS_close, fd);
  return used;
}

static uint16_t what_is_read(void) {
  if (!python_layout) return 0;
  return python_layout->object_header ? PYTHON_STACKS | PYTHON_FREE_THREADED : PYTHON_STACKS;
}

static void write_start(uint32_t cause, uint32_t parent) {
  static char text[PATH_LENGTH + MAX_COMMAND];
  ssize_t length = readlink("/proc/self/exe", text, PATH_LENGTH);
  uint32_t exe = length > 0 ? (uint32_t)length : 0;
  uint32_t command = read_command(text + exe, MAX_COMMAND);
  unsigned slots = 1 + (exe + command + SPOOL_SLOT_BYTES - 1) / SPOOL_SLOT_BYTES;
  struct record_process_start *record = spool_claim(slots);
  if (!record) return;
  record->thread = this_thread.id;
  record->t_ns = clock_now_ns();
  record->pid = fork_own_pid();
  record->parent_pid = (int32_t)getppid();
  record->parent = parent;
  record->cause = (uint16_t)cause;
  record->pid_namespace = (uint32_t)spool_pid_namespace();
  record->python_version = python_version;
  record->stacks = what_is_read();
  record->exe_bytes = exe;
  record->argv_bytes = command;
  memory_footprint(&record->footprint_bytes, &record->python_footprint_bytes);
  memcpy(record + 1, text, exe + command);
  spool_publish(record, RECORD_PROCESS_START, slots);
}

/* Tells the interpreter of a process that was found after the start record was written. */
static void write_python(void) {
  struct record_process_start *record = spool_claim(1);
  if (!record) return;
  *record = (struct record_process_start){.thread = this_thread.id,
                                          .t_ns = clock_now_ns(),
                                          .pid = fork_own_pid(),
                                          .cause = START_OF_PYTHON,
                                          .pid_namespace = (uint32_t)spool_pid_namespace(),
                                          .python_version = python_version,
                                          .stacks = what_is_read()};
  spool_publish(record, RECORD_PROCESS_START, 1);
}

static void write_end(uint32_t how, int status) {
  struct rusage usage;
  struct record_process_end *record = spool_claim(1);
  if (!record) return;
  process_usage(&usage, &record->user_ns, &record->system_ns);
  record->user_ns -= usage_start_user_ns;
  record->system_ns -= usage_start_system_ns;
  record->thread = this_thread.id;
  record->t_ns = clock_now_ns();
  record->peak_rss_bytes = (int64_t)usage.ru_maxrss * 1024;
  record->how = how;
  record->exit_status = (uint32_t)status;
  memory_footprint(&record->footprint_bytes, &record->python_footprint_bytes);
  spool_publish(record, RECORD_PROCESS_END, 1);
}

/* Writes the end of the process, once, at the first exit that is taken. `at_once`: no function of the program runs
 * after it, so that what the process uses from now on is used by its end. */
static void end_process(uint32_t how, int status, bool at_once) {
  int saved_errno = errno;
  fork_check();
  if (recording() && fork_is_recorded_process() && !atomic_exchange(&ended, 1)) {
    thread_table_write_names();
    if (how == END_EXIT) {
      pyalloc_end();
      late_end();
    }
    threads_end();
    pages_look(0, true);
    memory_write_heap();
    copies_process_end();
    cuda_calls_flush_all();
    if (at_once) reaped_write_own();
    write_end(how, status);
    events_end();
    spool_finish_chunk();
  }
  errno = saved_errno;
}

/* ---- fork ---- */

static void begin_process(uint32_t cause, uint32_t parent) {
  fork_begin_process();
  atomic_store(&ended, 0);
  spool_begin_process(spool_new_process());
  safe_read_init();
  if (cause == CAUSE_FORK) {
    scratch_postfork_child();
    images_postfork_child();
    late_postfork_child();
    timers_postfork_child();
    usage_start_user_ns = usage_start_system_ns = 0;
    memory_postfork_child();
    copies_postfork_child();
    relocations_postfork_child();
    cuda_calls_postfork_child();
    cuda_hooks_postfork_child();
    timers_set_single_threaded(true);
    threads_postfork_child();
    timers_set_single_threaded(false);
  } else {
    timers_set_single_threaded(true);
    threads_begin(cause == CAUSE_EXEC);
    timers_set_single_threaded(false);
  }
  write_start(cause, parent);
}

/* The child has its parent's filter. Without system calls, the spool stays mapped. */
static void forget_sealed(void) {
  loss_add(LOSS_seccomp);
  if (spool->features & FEATURE_RIGHTS) loss_add(LOSS_rights_unannounced); /* it may become another user */
  threads_forget();
  spool = NULL;
}

static void begin_in_child(void) {
  seal_postfork_child();
  filters_postfork_child();
  if (!spool) return;
  if (sealed()) {
    forget_sealed();
    return;
  }
  signals_postfork_child();
  if (!recording() || !(spool->features & FEATURE_CHILDREN)) {
    if (spool->features & FEATURE_CHILDREN) spool_note_late(spool);
    threads_forget();
    spool_close();
    return;
  }
  begin_process(CAUSE_FORK, spool_process());
}

/* ---- exec ---- */

void process_before_exec(void) {
  if (!recording() || !fork_is_recorded_process()) return;
  timers_disarm();
  cuda_calls_flush_all();
  threads_write_end();
  thread_table_end();
  write_end(END_EXEC, 0);
  events_end();
  spool_finish_chunk();
  spool_leave_handoff(fork_own_pid(), spool_process());
}

/* Cancels END_EXEC by writing END_NONE: a later SIGKILL would leave nothing to correct it. */
void process_after_failed_exec(void) {
  if (!recording() || !fork_is_recorded_process()) return;
  spool_leave_handoff(fork_own_pid(), 0);
  write_end(END_NONE, 0);
  if (!this_thread.id || this_thread.ended) return;
  timers_arm();
  thread_table_begin();
}

/* ---- seccomp filters ---- */

void process_before_filter(void) {
  if (!recording() || !fork_is_recorded_process()) return;
  memory_write_heap();
  copies_process_end();
  cuda_calls_flush_all();
  threads_write_end();
  write_end(END_FILTER, 0);
  events_end();
  spool_finish_chunk();
}

void process_after_refused_filter(void) {
  if (recording() && fork_is_recorded_process()) write_end(END_NONE, 0);
}

/* ---- exits ---- */

/* A child that shares its parent's memory records nothing. It is recognized before anything else, because it may
 * have no thread-local storage: sandboxes clone one with CLONE_SETTLS and an empty block, and it only calls _exit. */
static void end_quickly(int status, bool at_once) {
  if (sealed()) {
    seal_end_vfork_child();
  } else if (fork_own_pid() != 0 && !fork_shares_memory()) {
    end_process(END_QUICK, status, at_once);
  }
}

EXPORT __attribute__((noreturn)) void _exit(int status) {
  next_ensure();
  end_quickly(status, true);
  next._exit(status);
  __builtin_unreachable();
}

EXPORT __attribute__((noreturn)) void _Exit(int status) {
  next_ensure();
  end_quickly(status, true);
  next._Exit(status);
  __builtin_unreachable();
}

/* Functions registered with at_quick_exit run after the end record is written. */
EXPORT __attribute__((noreturn)) void quick_exit(int status) {
  next_ensure();
  end_quickly(status, false);
  next.quick_exit(status);
  __builtin_unreachable();
}

__attribute__((destructor)) static void at_exit(void) { end_process(END_EXIT, 0, true); }

/* ---- load ---- */

static uint32_t find_cause(uint32_t *parent) {
  *parent = spool_take_handoff((pid_t)syscall(SYS_getpid));
  if (*parent) return CAUSE_EXEC;
  return spool->processes == 0 ? CAUSE_ROOT : CAUSE_SPAWN;
}

static const char *own_path(void) {
  Dl_info info;
  return dladdr((void *)&own_path, &info) ? info.dli_fname : NULL;
}

static void warn_unknown_python(void) {
  dprintf(2, "scalene-record: Python %u.%u in pid %d is not known here: recorded without Python stacks\n",
          python_version >> 24, python_version >> 16 & 255, (int)getpid());
}

static void count_python_losses(void) {
  if (python_version && !python_layout) loss_add(LOSS_unknown_python);
  if (python_layout && python_layout->object_header) loss_add(LOSS_free_threaded);
  if (python_layout && safe_read_refused() && pylayout_needs_reads(python_layout)) loss_add(LOSS_stacks_off);
}

/* Does for an interpreter that was loaded late what start_recording does for others. */
static void python_found(void) {
  images_interpreter_found();
  if (spool->features & FEATURE_WAIT) thread_table_python_found();
  write_python();
  pyalloc_init();
  count_python_losses();
}

static void start_recording(void) {
  struct rusage usage;
  uint32_t parent, cause = find_cause(&parent);
  if (cause == CAUSE_EXEC) process_usage(&usage, &usage_start_user_ns, &usage_start_system_ns);
  loss_flush_early();
  fork_watch(begin_in_child);
  safe_read_init();
  kernel_clock_ensure();
  if (safe_read_refused()) loss_add(LOSS_read_refused);
  python_init();
  if (threads_init() || signals_install(ticks_handle)) return;
  begin_process(cause, parent);
  images_init();
  unwind_init();
  memory_init();
  pyalloc_init();
  cuda_hooks_refresh();
  pthread_atfork(pages_prefork, NULL, fork_in_child);
  count_python_losses();
  if (python_version && !python_layout) warn_unknown_python();
  late_watch(python_found, pyalloc_start_again);
}

/* Runs before every other constructor, even those of libc, because the linker is told so (-z initfirst). So allocations
 * of those are recorded too, and `environ` may not be set yet. */
__attribute__((constructor)) static void at_load(int argc, char **argv, char **environment) {
  (void)argc, (void)argv;
  int saved_errno = errno;
  if (!environ) environ = environment;
  thread_stack_of_first((uintptr_t)environment);
  next_ensure();
  const char *path = getenv(SPOOL_VARIABLE);
  filters_init();
  if (path && filters_forbid_us(path)) {
    seal_for_good();
  } else if (path && spool_open(path) == 0) {
    if ((spool->features & FEATURE_CHILDREN) || spool->processes == 0) {
      environment_init(own_path(), path);
      rights_init(path);
      start_recording();
    } else {
      spool_close();
    }
  }
  copies_init();
  errno = saved_errno;
}
