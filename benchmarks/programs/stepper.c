/* Counts executed instructions. ``stepper OUT NAME COMMAND...`` runs COMMAND; between two int3 of it, it is stepped one
 * instruction at a time. For each such region OUT gets a line: instructions in images whose path contains NAME, and in
 * all. Signals that arrive in a region are dropped, so that no handler is counted. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANGES 64

struct range {
  unsigned long start, end;
};
static struct range ranges[RANGES];
static int range_count;

/* The executable mappings of the images called `name`. */
static void find_ranges(pid_t pid, const char *name) {
  char path[64], line[4096], access[8];
  struct range found;
  snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
  FILE *maps = fopen(path, "r");
  range_count = 0;
  while (maps && fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%lx-%lx %7s", &found.start, &found.end, access) != 3) continue;
    if (access[2] == 'x' && strstr(line, name) && range_count < RANGES) ranges[range_count++] = found;
  }
  if (maps) fclose(maps);
}

static int inside(unsigned long address) {
  for (int i = 0; i < range_count; i++)
    if (address >= ranges[i].start && address < ranges[i].end) return 1;
  return 0;
}

static unsigned long next_instruction(pid_t pid) {
  struct user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, pid, NULL, &registers)) exit(3);
  return registers.rip;
}

/* Whether the process stopped behind an int3 (SI_KERNEL on x86), not behind a step (TRAP_TRACE). */
static int at_mark(pid_t pid) {
  siginfo_t info;
  return !ptrace(PTRACE_GETSIGINFO, pid, NULL, &info) && info.si_code == SI_KERNEL;
}

/* Executes one instruction, and what signals there are nothing of. Whether it was an int3. */
static int step(pid_t pid) {
  int status;
  do {
    if (ptrace(PTRACE_SINGLESTEP, pid, NULL, 0) || waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status)) exit(3);
  } while (WSTOPSIG(status) != SIGTRAP);
  return at_mark(pid);
}

/* From behind the first int3 of a region up to its second one, which is not counted. */
static void step_region(pid_t pid, FILE *out) {
  long here = 0, all = 0;
  int is_here = inside(next_instruction(pid));
  while (!step(pid)) {
    all++;
    here += is_here;
    is_here = inside(next_instruction(pid));
  }
  fprintf(out, "%ld %ld\n", here, all);
}

static int trace(pid_t pid, const char *name, FILE *out) {
  int status;
  waitpid(pid, &status, 0); /* the exec */
  int signal = 0;
  for (;;) {
    if (ptrace(PTRACE_CONT, pid, NULL, signal) || waitpid(pid, &status, 0) < 0) return 3;
    if (!WIFSTOPPED(status)) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    signal = WSTOPSIG(status);
    if (signal != SIGTRAP) continue;
    signal = 0;
    if (!at_mark(pid)) continue;
    if (!range_count) find_ranges(pid, name);
    step_region(pid, out);
  }
}

int main(int count, char **arguments) {
  if (count < 4) return 2;
  FILE *out = fopen(arguments[1], "w");
  if (!out) return 2;
  pid_t pid = fork();
  if (pid == 0) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL)) _exit(126);
    execvp(arguments[3], arguments + 3);
    _exit(127);
  }
  int status = trace(pid, arguments[2], out);
  return fclose(out) ? 3 : status;
}
