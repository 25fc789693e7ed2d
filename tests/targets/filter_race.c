/* Sets a filter that kills for all threads at once, while four of them allocate and map: the last call of the shim in
 * any of them must be over. The four never return: a thread that ends masks its signals, which the filter forbids. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define THREADS 4

static const unsigned allowed[] = {SYS_exit_group, SYS_exit,     SYS_brk,     SYS_mmap,  SYS_munmap,      SYS_mremap,
                                   SYS_mprotect,   SYS_madvise,  SYS_futex,   SYS_write, SYS_rt_sigreturn};
static atomic_int begun;

static void *work(void *unused) {
  for (size_t i = 0;; i++) {
    if (i == 1000) begun++; /* the heap of the thread is made, which asks for the processors */
    char *block = malloc(1 + i * 7919 % 70000);
    block[0] = 1;
    free(block);
    if (i % 300) continue;
    char *memory = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory[0] = 1;
    munmap(memory, 65536);
  }
  return unused;
}

static int set_for_all(void) {
  static struct sock_filter code[LENGTH(allowed) + 3];
  const size_t count = LENGTH(allowed);
  code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < count; i++)
    code[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], (unsigned char)(count - i), 0);
  code[count + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  code[count + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {LENGTH(code), code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

int main(void) {
  pthread_t thread;
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&thread, NULL, work, NULL)) return 8;
  while (begun < THREADS) usleep(1000);
  usleep(5000);
  if (set_for_all()) return 9;
  for (volatile int i = 0; i < 3000000; i++) {}
  _exit(5);
}
