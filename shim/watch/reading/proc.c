/* Reads the kernel's information about threads and processes from /proc. */
#include "watch/reading/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "shared/base.h"

#define EXITING 4            /* PF_EXITING among the flags of /proc/PID/stat */
#define SPARE_DESCRIPTORS 16 /* reserved for the rest of the recorder, which imports modules and writes files */
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

int proc_open_schedule(pid_t pid, pid_t tid) {
  struct rlimit limit;
  int fd = open_file(pid, tid, "schedstat");
  if (fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0 || (rlim_t)fd + SPARE_DESCRIPTORS < limit.rlim_cur) return fd;
  close(fd);
  errno = EMFILE;
  return -1;
}

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
enum call_state proc_call(pid_t pid, pid_t tid, struct system_call *out) {
  char text[256], *at = text;
  if (read_file(pid, tid, "syscall", text, sizeof text) <= 0)
    return errno == EPERM || errno == EACCES ? CALL_REFUSED : CALL_GONE;
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

uintptr_t proc_shared_at(pid_t pid, const void *address) {
  struct mapping own, other;
  if (!find_mapping(getpid(), (uintptr_t)address, NULL, &own) || !own.inode) return 0;
  uintptr_t offset = own.offset + ((uintptr_t)address - own.start);
  return find_mapping(pid, offset, &own, &other) ? other.start + (offset - other.offset) : 0;
}
