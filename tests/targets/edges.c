/* Delicate calls, one way at a time: edges WAY. Each prints what it knows about itself as JSON. */
#define _GNU_SOURCE
#include <fenv.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define PAGE ((size_t)4096)

static void *map(size_t bytes) { return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

/* 100 MiB that grow 50 times by a page. */
static void grown(void) {
  size_t bytes = 100 * MIB;
  char *block = map(bytes);
  for (int i = 0; i < 50; i++, bytes += PAGE) block = mremap(block, bytes, bytes + PAGE, MREMAP_MAYMOVE);
  printf("{\"bytes\": %zu}\n", bytes);
}

/* What cannot be unmapped is still there. */
static void refused(void) {
  char *block = map(200 * MIB);
  int result = munmap(block, (size_t)1 << 48);
  map(100 * MIB);
  printf("{\"result\": %d, \"bytes\": %zu}\n", result, 300 * MIB);
}

/* More mappings at once than are noted one by one, then others that come and go. */
static void crowded(void) {
  for (int i = 0; i < 9000; i++) {
    char *block = map(3 * PAGE);
    mprotect(block + PAGE, PAGE, PROT_NONE);
  }
  for (int i = 0; i < 5000; i++) munmap(map(MIB), MIB);
  printf("{\"bytes\": %zu}\n", 9000 * 3 * PAGE);
}

/* realloc(NULL) beside followed blocks whose addresses are whole multiples of 16 MiB. */
static void aligned(void) {
  void *blocks[64];
  for (int turn = 0; turn < 20; turn++) {
    for (int i = 0; i < 32; i++) blocks[i] = aligned_alloc(16 * MIB, 16 * MIB);
    for (int i = 32; i < 64; i++) blocks[i] = realloc(NULL, 100003);
    for (int i = 0; i < 64; i++) free(blocks[i]);
  }
  printf("{\"left\": 0}\n");
}

/* The flags of floating point are the program's, and so are its traps. */
static void floating_times(int times) {
  feclearexcept(FE_ALL_EXCEPT);
  for (int i = 0; i < times; i++) free(malloc(1000));
  int raised = fetestexcept(FE_ALL_EXCEPT);
  feenableexcept(FE_INEXACT | FE_INVALID | FE_DIVBYZERO);
  for (int i = 0; i < times; i++) free(malloc(1000));
  printf("{\"raised\": %d}\n", raised);
}

static void floating(void) { floating_times(200000); }

/* Enough where most blocks are sampled. */
static void floating_few(void) { floating_times(20000); }

static sigjmp_buf back;
static volatile int jumps, ending;

static void leave(int number) {
  (void)number;
  if (!ending) siglongjmp(back, 1);
}

/* Handlers that never return, out of whatever they interrupt; then 2,000 blocks of 10,007 bytes. */
static void jumping(void) {
  struct itimerval every = {{0, 211}, {0, 211}}, never = {{0, 0}, {0, 0}};
  signal(SIGALRM, leave);
  sigsetjmp(back, 1);
  if (jumps++ < 3000) {
    setitimer(ITIMER_REAL, &every, NULL);
    for (;;) munmap(map(8 * PAGE), 8 * PAGE);
  }
  ending = 1;
  setitimer(ITIMER_REAL, &never, NULL);
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (int i = 0; i < 2000; i++) munmap(map(10 * MIB + 7 * PAGE), 10 * MIB + 7 * PAGE);
  clock_gettime(CLOCK_MONOTONIC, &end);
  printf("{\"seconds\": %.3f}\n", (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9);
}

static volatile int fired;

static void on_timer(union sigval value) {
  (void)value;
  free(malloc(100));
  fired++;
}

/* Threads that libc starts by itself, a new one each time. */
static void notified(void) {
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_THREAD};
  struct itimerspec every = {{0, 1000000}, {0, 1000000}};
  event.sigev_notify_function = on_timer;
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  timer_settime(timer, 0, &every, NULL);
  while (fired < 500) usleep(1000);
  timer_delete(timer);
  usleep(100000);
  int first = dup(0);
  printf("{\"descriptor\": %d}\n", first);
}

static void *resize_to_itself(void *block) { return realloc(block, 5003); }

/* Threads that resize a block before they allocate any. */
static void resized_first(void) {
  for (int i = 0; i < 10; i++) {
    pthread_t thread;
    void *block = malloc(5003);
    pthread_create(&thread, NULL, resize_to_itself, block);
    pthread_join(thread, &block);
  }
  printf("{\"left\": 10}\n");
}

/* A child that a raw system call forks, so that no fork handler runs in it, maps without reserve. */
static void forked_raw(void) {
  int status = 0;
  pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    char *block = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    _exit(block == MAP_FAILED);
  }
  waitpid(child, &status, 0);
  printf("{\"status\": %d}\n", status);
}

int main(int count, char **arguments) {
  static const struct {
    const char *name;
    void (*go)(void);
  } ways[] = {{"grown", grown},           {"refused", refused},
              {"crowded", crowded},       {"aligned", aligned},
              {"floating", floating},     {"jumping", jumping},
              {"notified", notified},     {"resized_first", resized_first},
              {"forked_raw", forked_raw}, {"floating_few", floating_few}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    if (count == 2 && strcmp(arguments[1], ways[i].name) == 0) {
      ways[i].go();
      return 0;
    }
  }
  return 2;
}
