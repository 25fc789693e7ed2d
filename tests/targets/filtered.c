/* Sets a seccomp filter that kills the process for every call that it does not name, does some work, and ends:
 * `filtered WAY WORK END [PROGRAM]`. What is allowed is what libc needs for the work. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static const char *other_program; /* that returns 3 if it gets no second argument */

/* The last group is what the loader and the start of a program need. */
static const unsigned allowed[] = {
    SYS_read,
    SYS_write,
    SYS_exit,
    SYS_exit_group,
    SYS_brk,
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_futex,
    SYS_clone,
    SYS_clone3,
    SYS_vfork,
    SYS_wait4,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_rt_sigprocmask,
    SYS_rt_sigaction,
    /**/
    SYS_execve,
    SYS_openat,
    SYS_close,
    SYS_fstat,
    SYS_newfstatat,
    SYS_pread64,
    SYS_access,
    SYS_arch_prctl,
    SYS_set_tid_address,
    SYS_prlimit64,
    SYS_getrandom,
};

static void say(const char *text) {
  if (write(1, text, strlen(text)) < 0) _exit(9);
}

static void fail(const char *what) {
  say(what);
  _exit(8);
}

/* ---- filters ---- */

static struct sock_filter code[LENGTH(allowed) + 8];

static struct sock_fprog allow_list(size_t count) {
  size_t at = 0;
  code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < count; i++)
    code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], (unsigned char)(count - i), 0);
  code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  return (struct sock_fprog){.len = (unsigned short)at, .filter = code};
}

static int set(const char *way, size_t count) {
  struct sock_fprog program = allow_list(count);
  if (strcmp(way, "strict") == 0) return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
  if (strcmp(way, "strict_seccomp") == 0) return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
  if (strcmp(way, "prctl") == 0) return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  if (strcmp(way, "syscall_prctl") == 0)
    return (int)syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
  unsigned flags = strcmp(way, "tsync") == 0 ? SECCOMP_FILTER_FLAG_TSYNC : 0;
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

/* ---- work ---- */

static void spin(void) {
  for (volatile unsigned i = 0; i < 5000000; i++) {}
}

static void allocate(void) {
  void *blocks[4000] = {NULL};
  for (size_t i = 0; i < 10000; i++) {
    void **block = &blocks[i * 7919 % LENGTH(blocks)];
    if (i % 3 == 0) {
      *block = realloc(*block, 10 + i % 3000);
    } else {
      free(*block);
      *block = malloc(1 + i % 100000);
    }
    memset(*block, 1, i % 3 == 0 ? 10 : 1);
  }
  for (size_t i = 0; i < LENGTH(blocks); i++) free(blocks[i]);
}

static void map(void) {
  for (size_t i = 1; i < 50; i++) {
    char *memory = mmap(NULL, i * 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *moved = memory == MAP_FAILED ? memory : mremap(memory, i * 65536, i * 131072, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) fail("mapping\n");
    memset(moved, 1, i * 1000);
    mprotect(moved, 4096, PROT_NONE);
    munmap(moved, i * 131072);
  }
}

static void *in_thread(void *unused) {
  allocate();
  return unused;
}

static void start_threads(void) {
  for (int i = 0; i < 5; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, in_thread, NULL)) fail("thread\n");
    pthread_join(thread, NULL);
  }
}

static void wait_for(pid_t child) {
  int status;
  if (child < 0 || waitpid(child, &status, 0) != child) fail("wait\n");
  say(WIFEXITED(status) && WEXITSTATUS(status) == 3 ? "the child returned 3\n" : "the child died\n");
}

static void fork_child(void) {
  pid_t child = fork();
  if (child) {
    wait_for(child);
    return;
  }
  allocate();
  spin();
  exit(3);
}

static void exec_child(void) {
  pid_t child = vfork();
  if (child) {
    wait_for(child);
    return;
  }
  execl(other_program, other_program, "child", NULL);
  _exit(7);
}

static void filter_vfork_child(void) {
  pid_t child = vfork();
  if (child) {
    wait_for(child);
    spin();
    return;
  }
  if (set("seccomp", LENGTH(allowed))) _exit(6);
  execl(other_program, other_program, "child", NULL);
  _exit(7);
}

static void exec_it(void) {
  execl(other_program, other_program, "child", NULL);
  fail("exec\n");
}

/* Filters that the kernel refuses, as programs set them to find out what it supports. */
static void ask(void) {
  struct sock_fprog empty = {.len = 0, .filter = code}, unreadable = {.len = 1, .filter = NULL};
  int errors[5] = {0};
  errors[0] = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) ? errno : 0;
  errors[1] = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &empty) ? errno : 0;
  errors[2] = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &unreadable) ? errno : 0;
  errors[3] = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1 << 20, &empty) ? errno : 0;
  errors[4] = syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) ? errno : 0;
  for (int i = 0; i < 5; i++) say(errors[i] == EFAULT ? "EFAULT\n" : errors[i] == EINVAL ? "EINVAL\n" : "?\n");
  allocate();
  for (int i = 0; i < 20; i++) spin();
}

static void shell(void) {
  int status = system("exit 3");
  say(WIFEXITED(status) && WEXITSTATUS(status) == 3 ? "the shell returned 3\n" : "the shell died\n");
}

static void change_masks(void) {
  sigset_t all, before;
  struct sigaction action, old;
  memset(&action, 0, sizeof action);
  action.sa_handler = SIG_IGN;
  sigfillset(&all);
  for (int i = 0; i < 100; i++) {
    sigprocmask(SIG_BLOCK, &all, &before);
    sigprocmask(SIG_BLOCK, NULL, &all);
    if (!sigismember(&all, SIGRTMAX - 3)) fail("mask\n");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (int signal = 1; signal < SIGRTMAX; signal++)
      if (sigaction(signal, NULL, &old) == 0 && old.sa_handler != SIG_DFL) fail("action\n");
  }
  sigaction(SIGRTMAX - 3, &action, NULL);
}

static const struct {
  const char *name;
  void (*run)(void);
} works[] = {{"spin", spin},
             {"allocate", allocate},
             {"map", map},
             {"threads", start_threads},
             {"fork", fork_child},
             {"vfork", exec_child},
             {"exec", exec_it},
             {"system", shell},
             {"masks", change_masks},
             {"filter_vfork", filter_vfork_child},
             {"ask", ask}};

static void work(const char *name) {
  for (size_t i = 0; i < LENGTH(works); i++)
    if (strcmp(works[i].name, name) == 0) works[i].run();
}

/* ---- ways and ends ---- */

static volatile int go;

static void *wait_and_allocate(void *unused) {
  while (!go) {}
  allocate();
  return unused;
}

static const char *thread_work;

static void *filtered_thread(void *unused) {
  if (set("seccomp", LENGTH(allowed))) fail("filter\n");
  work(thread_work);
  return unused;
}

static void end(const char *how) {
  say("done\n");
  if (strcmp(how, "exit") == 0) exit(5);
  if (strcmp(how, "_exit") == 0) _exit(5);
  if (strcmp(how, "quick_exit") == 0) quick_exit(5);
  if (strcmp(how, "raw") == 0) syscall(SYS_exit, 5);
}

int main(int count, char **arguments) {
  pthread_t other = 0;
  other_program = count > 4 ? arguments[4] : arguments[0];
  if (count < 4) return 3; /* the child of another one */
  const char *way = arguments[1];
  if (strcmp(way, "tsync") == 0 && pthread_create(&other, NULL, wait_and_allocate, NULL)) fail("thread\n");
  allocate();
  spin();
  if (strcmp(way, "thread") == 0) {
    thread_work = arguments[2];
    if (pthread_create(&other, NULL, filtered_thread, NULL)) fail("thread\n");
  } else {
    if (strcmp(way, "bare") != 0 && set(way, LENGTH(allowed))) fail("filter\n");
    go = 1;
    work(arguments[2]);
  }
  if (other) pthread_join(other, NULL);
  end(arguments[3]);
  return 5;
}
