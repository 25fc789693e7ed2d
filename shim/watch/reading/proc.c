/* Reads the kernel's information about threads and processes from /proc. */
#include "watch/reading/proc.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "shared/base.h"

#define EXITING 4            /* PF_EXITING among the flags of /proc/PID/stat */
#define SPARE_DESCRIPTORS 16 /* reserved for the rest of the recorder, which imports modules and writes files */
#define STATUS_BYTES 65536   /* of a status, in which a user may have thousands of groups */
#define CPUCLOCK_SCHED 2     /* part of the kernel's id of a process's clock: ~pid << 3 | CPUCLOCK_SCHED */

static int open_file(pid_t pid, pid_t tid, const char *name) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task/%d/%s", pid, tid, name);
  return open(path, O_RDONLY | O_CLOEXEC);
}

/* Reads the file as a terminated text and returns its length; -1 = not readable (errno says why). */
static ssize_t read_file(pid_t pid, pid_t tid, const char *name, char *to, size_t size) {
  int fd = open_file(pid, tid, name);
  if (fd < 0) return -1;
  ssize_t got = read(fd, to, size - 1);
  int error = errno;
  close(fd);
  errno = error;
  if (got >= 0) to[got] = 0;
  return got;
}

/* Descriptors are left to the rest of the recorder. */
static int spare(int fd) {
  struct rlimit limit;
  if (fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || (rlim_t)fd + SPARE_DESCRIPTORS < limit.rlim_cur) return fd;
  close(fd);
  errno = EMFILE;
  return -1;
}

/* The second half of the descriptors is left to threads that are yet to come. */
static bool is_plenty(int fd) {
  struct rlimit limit;
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd < limit.rlim_cur / 2;
}

int proc_open_schedule(pid_t pid, pid_t tid) { return spare(open_file(pid, tid, "schedstat")); }

bool proc_schedule(int fd, struct schedule *out) {
  char text[96], *at = text;
  ssize_t got = pread(fd, text, sizeof text - 1, 0);
  if (got <= 0) return false;
  text[got] = 0;
  out->run_ns = strtoll(at, &at, 10);
  out->delay_ns = strtoll(at, &at, 10);
  out->count = strtoull(at, &at, 10);
  return true;
}

/* The file holds "running", or "NUMBER ARGUMENT*6 SP PC", or "-1 SP PC". */
enum call_state proc_call(int *kept_fd, pid_t pid, pid_t tid, struct system_call *out) {
  char text[256], *at = text;
  int fd = *kept_fd >= 0 ? *kept_fd : open_file(pid, tid, "syscall");
  ssize_t got = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
  int error = errno;
  if (fd >= 0 && *kept_fd < 0) {
    if (is_plenty(fd))
      *kept_fd = fd;
    else
      close(fd);
  }
  if (got <= 0) return error == EPERM || error == EACCES ? CALL_REFUSED : CALL_GONE;
  text[got] = 0;
  if (text[0] == 'r') return CALL_RUNNING;
  out->number = (int32_t)strtol(at, &at, 10);
  out->arguments = out->number < 0 ? 0 : strtoull(at, &at, 16);
  for (int i = 1; out->number >= 0 && i < 6; i++) strtoull(at, &at, 16);
  out->sp = strtoull(at, &at, 16);
  out->pc = strtoull(at, &at, 16);
  return CALL_BLOCKED;
}

/* The state follows the name, which may contain any character, also a closing parenthesis. */
char proc_state(pid_t pid, pid_t tid) {
  char text[512];
  if (read_file(pid, tid, "stat", text, sizeof text) <= 0) return 0;
  char *end = strrchr(text, ')');
  return end && end[1] == ' ' ? end[2] : 0;
}

/* A process loses its memory before it becomes a zombie, so PF_EXITING is checked. The flag is that of the first
 * thread, which may end before the others, so the number of threads is checked, too. */
bool proc_ended(pid_t pid) {
  char text[512];
  unsigned flags;
  long threads;
  if (read_file(pid, pid, "stat", text, sizeof text) <= 0) return true;
  const char *end = strrchr(text, ')');
  const char *format = ") %*c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld";
  return end && sscanf(end, format, &flags, &threads) == 2 && flags & EXITING && threads <= 1;
}

int64_t proc_clock_ns(pid_t pid) {
  struct timespec used;
  clockid_t clock = (clockid_t)(~(unsigned)pid << 3 | CPUCLOCK_SCHED);
  if (clock_gettime(clock, &used)) return -1;
  return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

/* ---- processes that were attached to ---- */

static int64_t step_ns(void) {
  static int64_t found_ns;
  if (!found_ns) found_ns = 1000000000 / sysconf(_SC_CLK_TCK);
  return found_ns;
}

bool proc_usage(pid_t pid, struct usage *out) {
  char path[32], text[512], *end;
  unsigned long user, system;
  long child_user, child_system;
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  if (got <= 0) return false;
  text[got] = 0;
  const char *format = ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld";
  end = strrchr(text, ')');
  if (!end || sscanf(end, format, &user, &system, &child_user, &child_system) != 4) return false;
  *out = (struct usage){(int64_t)(user + system) * step_ns(), (int64_t)(child_user + child_system) * step_ns()};
  return true;
}

int64_t proc_system_ns(pid_t pid, pid_t tid) {
  char text[512];
  unsigned long steps;
  if (read_file(pid, tid, "stat", text, sizeof text) <= 0) return -1;
  const char *end = strrchr(text, ')');
  const char *format = ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %lu";
  return end && sscanf(end, format, &steps) == 1 ? (int64_t)steps * step_ns() : -1;
}

/* The kernel counts from the boot, with the time in which the machine was suspended. */
int64_t proc_started_ns(pid_t pid, pid_t tid) {
  char text[512];
  unsigned long long steps;
  struct timespec boot, now;
  if (read_file(pid, tid, "stat", text, sizeof text) <= 0) return -1;
  const char *end = strrchr(text, ')');
  const char *format = ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu";
  if (!end || sscanf(end, format, &steps) != 1) return -1;
  if (clock_gettime(CLOCK_BOOTTIME, &boot) || clock_gettime(CLOCK_MONOTONIC, &now)) return -1;
  int64_t ahead_ns = (int64_t)(boot.tv_sec - now.tv_sec) * 1000000000 + (boot.tv_nsec - now.tv_nsec);
  return (int64_t)steps * step_ns() - ahead_ns;
}

bool proc_switches(pid_t pid, pid_t tid, struct switches *out) {
  static char text[STATUS_BYTES];
  unsigned long long waits, preemptions;
  if (read_file(pid, tid, "status", text, sizeof text) <= 0) return false;
  const char *at = strstr(text, "\nvoluntary_ctxt_switches:");
  const char *format = "\nvoluntary_ctxt_switches: %llu nonvoluntary_ctxt_switches: %llu";
  if (!at || sscanf(at, format, &waits, &preemptions) != 2) return false;
  *out = (struct switches){waits, preemptions};
  return true;
}

void proc_name(pid_t pid, pid_t tid, char *name, size_t size) {
  char text[64];
  ssize_t got = read_file(pid, tid, "comm", text, sizeof text);
  if (got <= 0) return;
  if (text[got - 1] == '\n') text[got - 1] = 0;
  memset(name, 0, size);
  memcpy(name, text, strnlen(text, size - 1));
}

DIR *proc_tasks(pid_t pid) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  int fd = spare(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR *tasks = fd < 0 ? NULL : fdopendir(fd);
  if (fd >= 0 && !tasks) close(fd);
  return tasks;
}

/* The folder has a link from each of its folders, one for each thread, besides the usual two. */
uint32_t proc_count(DIR *tasks) {
  struct stat facts;
  return fstat(dirfd(tasks), &facts) || facts.st_nlink < 2 ? 0 : (uint32_t)facts.st_nlink - 2;
}

int proc_pid_fd(pid_t pid) { return spare((int)syscall(SYS_pidfd_open, pid, 0)); }

bool proc_has_ended(int pid_fd) {
  struct pollfd asked = {.fd = pid_fd, .events = POLLIN};
  return pid_fd >= 0 && poll(&asked, 1, 0) == 1;
}

bool proc_zombie_status(pid_t pid, int *status) {
  char text[1024], *at, state;
  if (read_file(pid, pid, "stat", text, sizeof text) <= 0 || !(at = strrchr(text, ')'))) return false;
  if (sscanf(at, ") %c", &state) != 1 || state != 'Z') return false;
  at = strrchr(text, ' '); /* the last field */
  *status = at ? (int)strtol(at, NULL, 10) : 0;
  return at != NULL;
}

bool proc_program_headers(pid_t pid, uintptr_t *headers, uintptr_t *count) {
  char path[32];
  uintptr_t pair[2];
  snprintf(path, sizeof path, "/proc/%d/auxv", pid);
  FILE *file = fopen(path, "re");
  *headers = *count = 0;
  while (file && fread(pair, sizeof pair, 1, file) == 1 && pair[0] != AT_NULL) {
    if (pair[0] == AT_PHDR) *headers = pair[1];
    if (pair[0] == AT_PHNUM) *count = pair[1];
  }
  if (file) fclose(file);
  return *headers && *count;
}

/* ---- mappings ---- */

struct mapping {
  uintptr_t start, end, offset;
  char device[16];
  unsigned long inode;
};

/* True if the mapping holds the byte at `offset` of the file that `file` maps. */
static bool holds(const struct mapping *mapping, const struct mapping *file, uintptr_t offset) {
  return mapping->inode == file->inode && strcmp(mapping->device, file->device) == 0 && offset >= mapping->offset &&
         offset - mapping->offset < mapping->end - mapping->start;
}

/* Finds the first mapping that contains `address`, or, if `file` is not null, the first mapping that holds the byte at
 * this offset of the same file. False = none. */
static bool find_mapping(pid_t pid, uintptr_t address, const struct mapping *file, struct mapping *found) {
  char path[32];
  bool is_found = false;
  snprintf(path, sizeof path, "/proc/%d/maps", pid);
  FILE *maps = fopen(path, "re");
  while (maps && !is_found &&
         fscanf(maps, "%lx-%lx %*s %lx %15s %lu%*[^\n]", &found->start, &found->end, &found->offset, found->device,
                &found->inode) == 5) {
    is_found = file ? holds(found, file, address) : address >= found->start && address < found->end;
  }
  if (maps) fclose(maps);
  return is_found;
}

bool proc_file_at(pid_t pid, uintptr_t address, char *path, size_t size, unsigned long *inode) {
  struct mapping found;
  if (!find_mapping(pid, address, NULL, &found) || !found.inode) return false;
  snprintf(path, size, "/proc/%d/map_files/%lx-%lx", pid, found.start, found.end);
  *inode = found.inode;
  return true;
}

uintptr_t proc_shared_at(pid_t pid, const void *address) {
  struct mapping own, other;
  if (!find_mapping(getpid(), (uintptr_t)address, NULL, &own) || !own.inode) return 0;
  uintptr_t offset = own.offset + ((uintptr_t)address - own.start);
  return find_mapping(pid, offset, &own, &other) ? other.start + (offset - other.offset) : 0;
}
