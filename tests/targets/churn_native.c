/* What is hard on the unwinder of native stacks: a library that comes and goes, small stacks of coroutines, handlers of
 * signals on an alternate stack, and code without unwind tables. Compiled with LIBRARY, it is the library that comes and
 * goes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))
#define DEEPEST 12

/* Computes for some microseconds below `depth` frames. */
__attribute__((noinline)) uint64_t deep(int depth) {
  volatile uint64_t number = (uint64_t)depth;
  if (depth > 0) return deep(depth - 1) + number;
  for (int i = 0; i < 4000; i++) number = number * 6364136223846793005u + 1442695040888963407u;
  return number;
}

#ifndef LIBRARY

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Each returns how often it was done. */

long libraries(double seconds, const char *path) {
  long turns = 0;
  for (double end = now() + seconds; now() < end; turns++) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    uint64_t (*theirs)(int) = library ? (uint64_t (*)(int))dlsym(library, "deep") : NULL;
    if (!theirs) return -1;
    theirs((int)(turns % DEEPEST));
    dlclose(library);
  }
  return turns;
}

static __thread ucontext_t outside, inside;

static void in_coroutine(void) {
  for (int depth = 0;; depth = (depth + 1) % DEEPEST) {
    deep(depth);
    swapcontext(&inside, &outside);
  }
}

/* The stack ends at a page that cannot be read. */
long coroutines(double seconds) {
  const size_t bytes = 6 * PAGE;
  char *pages = mmap(NULL, bytes + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + PAGE, bytes, PROT_READ | PROT_WRITE)) return -1;
  getcontext(&inside);
  inside.uc_stack = (stack_t){.ss_sp = pages + PAGE, .ss_size = bytes};
  inside.uc_link = NULL;
  makecontext(&inside, in_coroutine, 0);
  long turns = 0;
  for (double end = now() + seconds; now() < end; turns++) swapcontext(&outside, &inside);
  munmap(pages, bytes + 2 * PAGE);
  return turns;
}

static void on_signal(int signal) { deep(signal % DEEPEST); }

long handlers(double seconds) {
  stack_t stack = {.ss_sp = malloc(16 * PAGE), .ss_size = 16 * PAGE}, before;
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  if (!stack.ss_sp || sigaltstack(&stack, &before) || sigaction(SIGUSR1, &action, NULL)) return -1;
  long turns = 0;
  for (double end = now() + seconds; now() < end; turns++) raise(SIGUSR1);
  sigaltstack(&before, NULL);
  free(stack.ss_sp);
  return turns;
}

/* sub rsp, 72; mov ecx, 4000; loop: dec ecx; jnz loop; add rsp, 72; ret */
#ifdef __aarch64__
#define ALIGNED(place) ((place) & ~3L)
static const uint32_t machine_code[] = {0xd10143ff, 0x5281f409, 0x71000529, 0x54ffffe1, 0x910143ff, 0xd65f03c0};
#else
#define ALIGNED(place) (place)
static const unsigned char machine_code[] = {0x48, 0x83, 0xec, 72,   0xb9, 0xa0, 0x0f, 0x00, 0x00,
                                             0xff, 0xc9, 0x75, 0xfc, 0x48, 0x83, 0xc4, 72,   0xc3};
#endif

/* As a just-in-time compiler does: written, made executable, called, and unmapped. */
long generated(double seconds) {
  long turns = 0;
  for (double end = now() + seconds; now() < end; turns++) {
    char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return -1;
    char *code = page + ALIGNED(turns % 64);
    memcpy(code, machine_code, sizeof machine_code);
    __builtin___clear_cache(code, code + sizeof machine_code);
    if (mprotect(page, PAGE, PROT_READ | PROT_EXEC)) return -1;
    for (int i = 0; i < 20; i++) ((void (*)(void))code)();
    munmap(page, PAGE);
  }
  return turns;
}

#endif
