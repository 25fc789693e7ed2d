/* Children that share this process's memory and have no thread-local storage, as sandboxes make them: each ends or execs
 * at once. What lies below the thread pointer may not be touched. Prints how each ended. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *arguments[] = {"true", NULL};

static int ends(void *unused) { (void)unused, _exit(3); }
static int ends_as_in_c(void *unused) { (void)unused, _Exit(4); }
static int runs(void *unused) { return (void)unused, execve("/bin/true", arguments, environ); }
static int runs_by_path(void *unused) { return (void)unused, execv("/bin/true", arguments); }
static int runs_listed(void *unused) { return (void)unused, execl("/bin/true", "true", (char *)NULL); }

static void clone_one(const char *name, int (*child)(void *), int has_storage) {
  char *memory = mmap(NULL, 3 * 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *stack = memory + 65536, *storage = memory + 2 * 65536;
  int flags = CLONE_VM | CLONE_VFORK | SIGCHLD, status = -1;
  mprotect(memory + 65536, 65536, PROT_NONE); /* thread-local variables would lie here, below the thread pointer */
  mprotect(storage, 65536, PROT_READ);
  pid_t pid = has_storage ? clone(child, stack, flags, NULL)
                          : clone(child, stack, flags | CLONE_SETTLS, NULL, NULL, storage, NULL);
  if (pid < 0) perror("clone");
  waitpid(pid, &status, 0);
  printf("%s %s: %x\n", name, has_storage ? "as a thread" : "bare", status);
}

int main(void) {
  for (int has_storage = 0; has_storage < 2; has_storage++) {
    clone_one("_exit", ends, has_storage);
    clone_one("_Exit", ends_as_in_c, has_storage);
    clone_one("execve", runs, has_storage);
    clone_one("execv", runs_by_path, has_storage);
    clone_one("execl", runs_listed, has_storage);
  }
  return 0;
}
