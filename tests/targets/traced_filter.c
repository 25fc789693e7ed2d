/* Traces its child, as strace does, and holds the first tick of the child's second thread until the first one has set a
 * filter: the tick has left the queue, and is delivered afterwards. It must be one that the thread gets in its own work:
 * a thread that is held while the shim begins it goes on with a system call. Ends as the child does. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICK 61
#define HOLD_US 300000 /* of the first thread, in which the second one gets a tick */

static atomic_bool stop, *working; /* the latter is shared with the tracer */

static void *work(void *unused) {
  *working = true;
  while (!stop) {}
  return unused;
}

static int set_for_all(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_timer_settime, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

static int child(void) {
  pthread_t thread;
  ptrace(PTRACE_TRACEME, 0, NULL, NULL);
  raise(SIGSTOP);
  if (pthread_create(&thread, NULL, work, NULL)) return 8;
  usleep(HOLD_US);
  if (set_for_all()) return 9;
  raise(SIGUSR1); /* the tracer lets go of the tick, and suppresses this signal */
  usleep(HOLD_US);
  stop = true;
  return pthread_join(thread, NULL) ? 10 : 5;
}

int main(void) {
  int status = 0;
  working = mmap(NULL, sizeof *working, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t stopped, held = 0, pid = fork();
  if (pid == 0) return child();
  waitpid(pid, &status, 0);
  ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
  ptrace(PTRACE_CONT, pid, NULL, NULL);
  while ((stopped = waitpid(-1, &status, __WALL)) > 0) {
    if (!WIFSTOPPED(status)) {
      if (stopped == pid) break;
      continue;
    }
    int signal = status >> 16 ? 0 : WSTOPSIG(status);
    if (signal == TICK && stopped != pid && !held && *working) {
      held = stopped;
      continue;
    }
    if (signal == SIGUSR1) {
      signal = 0;
      if (held > 0) ptrace(PTRACE_CONT, held, NULL, (void *)TICK);
      held = -1;
    }
    ptrace(PTRACE_CONT, stopped, NULL, (void *)(long)(signal == SIGSTOP ? 0 : signal));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}
