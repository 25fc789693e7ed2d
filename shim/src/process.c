/* The life of a process: load, fork, exec, end. */
#include "python.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static _Atomic uint32_t *same_process; /* a page that reads 0 in a forked child */
static pid_t own_pid;
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

/* The command line as the kernel has it; 0 bytes when it may not be stored. By number: libc's calls are cancellation
 * points. */
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

static void write_start(uint32_t cause, uint32_t parent) {
  static char text[PATH_LENGTH + MAX_COMMAND];
  ssize_t length = readlink("/proc/self/exe", text, PATH_LENGTH);
  uint32_t exe = length > 0 ? (uint32_t)length : 0;
  uint32_t command = read_command(text + exe, MAX_COMMAND);
  unsigned lines = 1 + (exe + command + SPOOL_LINE_BYTES - 1) / SPOOL_LINE_BYTES;
  struct record_process_start *record = spool_claim(lines);
  if (!record) return;
  record->thread = this_thread.id;
  record->t_ns = clock_now_ns();
  record->pid = own_pid;
  record->parent_pid = (int32_t)getppid();
  record->parent = parent;
  record->cause = cause;
  record->python_version = python_version;
  record->stacks = python_layout != NULL;
  record->exe_bytes = exe;
  record->argv_bytes = command;
  memory_footprint(&record->footprint_bytes, &record->python_footprint_bytes);
  memcpy(record + 1, text, exe + command);
  spool_publish(record, RECORD_PROCESS_START, lines);
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

/* Once per process, whichever way out is taken first. */
static void end_process(uint32_t how, int status) {
  int saved_errno = errno;
  process_check_fork();
  if (recording() && process_is_recorded_one() && !atomic_exchange(&ended, 1)) {
    if (how == END_EXIT) pyalloc_end();
    threads_end();
    memory_write_heap();
    copies_process_end();
    devices_flush_all();
    write_end(how, status);
    spool_finish_chunk();
  }
  errno = saved_errno;
}

/* ---- fork ---- */

static void begin_as(uint32_t cause, uint32_t parent) {
  own_pid = (pid_t)syscall(SYS_getpid);
  if (same_process) atomic_store(same_process, 1);
  atomic_store(&ended, 0);
  spool_begin_process(spool_new_process());
  safe_read_init();
  if (cause == CAUSE_FORK) {
    scratch_postfork_child();
    images_postfork_child();
    ticks_postfork_child();
    usage_start_user_ns = usage_start_system_ns = 0;
    memory_postfork_child();
    copies_postfork_child();
    devices_postfork_child();
    slots_postfork_child();
    ticks_alone(true);
    threads_postfork_child();
    ticks_alone(false);
  } else {
    ticks_alone(true);
    threads_begin(cause == CAUSE_EXEC);
    ticks_alone(false);
  }
  write_start(cause, parent);
}

static void after_fork_in_child(void) {
  if (!spool) return;
  signals_postfork_child();
  if (!recording() || !(spool->features & FEATURE_CHILDREN)) {
    threads_forget();
    spool_close();
    return;
  }
  begin_as(CAUSE_FORK, spool_process());
}

void process_check_fork(void) {
  if (likely(!same_process || atomic_load_explicit(same_process, memory_order_relaxed))) return;
  atomic_store(same_process, 1);
  after_fork_in_child();
}

/* A signal handler, or a fork handler that was there before ours, may have noticed already. */
static void on_fork_in_child(void) {
  if (same_process) {
    process_check_fork();
  } else {
    after_fork_in_child();
  }
}

bool process_is_recorded_one(void) { return (pid_t)syscall(SYS_getpid) == own_pid; }

/* ---- exec ---- */

void process_before_exec(void) {
  if (!recording() || !process_is_recorded_one()) return;
  ticks_disarm();
  devices_flush_all();
  threads_write_end();
  board_end();
  write_end(END_EXEC, 0);
  spool_finish_chunk();
  spool_leave_word(own_pid, spool_process());
}

/* The records of the end are taken back: what ends this process may not leave any. */
void process_after_failed_exec(void) {
  if (!recording() || !process_is_recorded_one()) return;
  spool_leave_word(own_pid, 0);
  write_end(END_NONE, 0);
  if (!this_thread.id || this_thread.ended) return;
  ticks_arm();
  board_begin();
}

/* ---- the ways out ---- */

EXPORT __attribute__((noreturn)) void _exit(int status) {
  next_ensure();
  end_process(END_QUICK, status);
  next._exit(status);
  __builtin_unreachable();
}

EXPORT __attribute__((noreturn)) void _Exit(int status) {
  next_ensure();
  end_process(END_QUICK, status);
  next._Exit(status);
  __builtin_unreachable();
}

/* What at_quick_exit registered still runs: the record is written before it. */
EXPORT __attribute__((noreturn)) void quick_exit(int status) {
  next_ensure();
  end_process(END_QUICK, status);
  next.quick_exit(status);
  __builtin_unreachable();
}

__attribute__((destructor)) static void at_exit(void) { end_process(END_EXIT, 0); }

/* ---- load ---- */

static void map_fork_page(void) {
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, 4096, MADV_WIPEONFORK)) {
    munmap(page, 4096);
    return;
  }
  same_process = page;
  atomic_store(same_process, 1);
}

static uint32_t find_cause(uint32_t *parent) {
  *parent = spool_take_word((pid_t)syscall(SYS_getpid));
  if (*parent) return CAUSE_EXEC;
  return spool->processes == 0 ? CAUSE_ROOT : CAUSE_SPAWN;
}

static const char *own_path(void) {
  Dl_info info;
  return dladdr((void *)&own_path, &info) ? info.dli_fname : NULL;
}

static void warn_unknown_python(void) {
  loss_add(LOSS_unknown_python);
  dprintf(2, "scalene-record: Python %u.%u in pid %d is not known here: recorded without Python stacks\n",
          python_version >> 24, python_version >> 16 & 255, (int)getpid());
}

static void start_recording(void) {
  struct rusage usage;
  uint32_t parent, cause = find_cause(&parent);
  if (cause == CAUSE_EXEC) process_usage(&usage, &usage_start_user_ns, &usage_start_system_ns);
  loss_flush_early();
  map_fork_page();
  safe_read_init();
  if (safe_read_refused()) loss_add(LOSS_read_refused);
  python_init();
  if (threads_init() || signals_install(ticks_handle)) return;
  begin_as(cause, parent);
  images_init();
  memory_init();
  pyalloc_init();
  slots_refresh();
  pthread_atfork(NULL, NULL, on_fork_in_child);
  if (python_version && !python_layout) warn_unknown_python();
  if (python_layout && safe_read_refused() && python_layout->tstate_frame < 0) loss_add(LOSS_stacks_off);
}

/* Runs before every other constructor (the linker is told so), libc's own among them: what those allocate is recorded
 * too, and the environment is not where libc keeps it yet. */
__attribute__((constructor)) static void at_load(int argc, char **argv, char **environment) {
  (void)argc, (void)argv;
  int saved_errno = errno;
  if (!environ) environ = environment;
  next_ensure();
  const char *path = getenv(SPOOL_VARIABLE);
  if (path && spool_open(path) == 0) {
    if ((spool->features & FEATURE_CHILDREN) || spool->processes == 0) {
      exec_init(own_path(), path);
      start_recording();
    } else {
      spool_close();
    }
  }
  copies_init();
  errno = saved_errno;
}
