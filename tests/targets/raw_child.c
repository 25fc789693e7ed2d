/* Touches a mapping without reserve, and forks by a raw system call. The child maps a file wherever there is room, registers
 * a small alternate stack, and writes to what it has mapped. Prints the child's status. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAPPED ((size_t)1 << 24)
#define MAPPINGS 2000
#define SMALL 2048

static char *mapped[MAPPINGS], small[SMALL];

static void touch_for_a_while(void) {
  char *area = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  while (clock() < CLOCKS_PER_SEC / 5) {
    for (size_t i = 0; i < MAPPED; i += 4096) area[i] = 1;
    madvise(area, MAPPED, MADV_DONTNEED);
  }
}

static void run_child(int file) {
  stack_t stack = {.ss_sp = small, .ss_size = SMALL};
  for (int i = 0; i < MAPPINGS; i++) mapped[i] = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  sigaltstack(&stack, NULL);
  for (int i = 0; i < MAPPINGS; i++) mapped[i][0] = 1;
}

int main(void) {
  int file = open("/proc/self/exe", O_RDONLY), status = -1;
  touch_for_a_while();
  pid_t child = (pid_t)syscall(SYS_fork);
  if (child == 0) {
    run_child(file);
    syscall(SYS_exit_group, 0);
  }
  waitpid(child, &status, 0);
  printf("%d\n", status);
  return 0;
}
