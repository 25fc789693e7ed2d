/* Children that share this process's memory and have no thread-local storage, as sandboxes make them: each ends or execs
 * at once, some after the calls by which such children prepare themselves. What lies below the thread pointer may not be
 * touched. Prints how each ended. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *arguments[] = {"true", NULL};

static int ends(void *unused) { (void)unused, _exit(3); }
static int ends_as_in_c(void *unused) { (void)unused, _Exit(4); }
static int runs(void *unused) { return (void)unused, execve("/bin/true", arguments, environ); }
static int runs_by_path(void *unused) { return (void)unused, execv("/bin/true", arguments); }
static int runs_listed(void *unused) { return (void)unused, execl("/bin/true", "true", (char *)NULL); }

/* Only calls that succeed: libc stores the error of another one in thread-local storage. */
static int redirects(void *unused) {
  int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  (void)unused;
  dup2(fd, 2), dup3(fd, 100, O_CLOEXEC), close(fd), close(100);
  return execve("/bin/true", arguments, environ);
}

static int drops_rights(void *unused) {
  struct rlimit none = {0, 0};
  (void)unused;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), setrlimit(RLIMIT_CORE, &none);
  setsid(), chdir("/"), umask(077);
  _exit(5);
}

static int resets_signals(void *unused) {
  sigset_t all;
  struct sigaction action = {.sa_handler = SIG_DFL};
  (void)unused;
  sigfillset(&all), sigprocmask(SIG_SETMASK, &all, NULL), sigaction(SIGUSR1, &action, NULL), signal(SIGUSR2, SIG_DFL);
  sigemptyset(&all), sigprocmask(SIG_SETMASK, &all, NULL);
  return execve("/bin/true", arguments, environ);
}

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
    clone_one("redirected execve", redirects, has_storage);
    clone_one("_exit without rights", drops_rights, has_storage);
    clone_one("execve with other signals", resets_signals, has_storage);
  }
  return 0;
}
