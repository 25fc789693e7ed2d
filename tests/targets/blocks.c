/* What test programs do with memory in C. A library that they load; sizes and counts are theirs to choose. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A block of `size` bytes in each of `depth` calls, freed on the way back. */
void recurse(int depth, size_t size) {
  char *block = malloc(size);
  block[0] = 1;
  if (depth > 1) recurse(depth - 1, size);
  free(block);
}

/* ---- threads ---- */

struct crowd {
  pthread_barrier_t full;
  int blocks;
  size_t size;
};
struct member {
  struct crowd *crowd;
  void **mine;
};

/* All blocks of all threads are alive at once; then each thread frees every other one of its own. */
static void *allocate_and_free_half(void *argument) {
  struct member *member = argument;
  struct crowd *crowd = member->crowd;
  for (int i = 0; i < crowd->blocks; i++) member->mine[i] = malloc(crowd->size);
  pthread_barrier_wait(&crowd->full);
  for (int i = 0; i < crowd->blocks; i += 2) free(member->mine[i]);
  return NULL;
}

/* `threads` threads with `blocks` blocks of `size` bytes each. Three quarters are freed: half by the threads that made
 * them, a quarter by the caller. `table` has threads * blocks places. */
void crowd(int threads, int blocks, size_t size, void **table) {
  struct crowd crowd = {.blocks = blocks, .size = size};
  struct member members[threads];
  pthread_t ids[threads];
  pthread_barrier_init(&crowd.full, NULL, (unsigned)threads);
  for (int t = 0; t < threads; t++) {
    members[t] = (struct member){&crowd, table + t * blocks};
    if (pthread_create(&ids[t], NULL, allocate_and_free_half, &members[t])) abort();
  }
  for (int t = 0; t < threads; t++) pthread_join(ids[t], NULL);
  for (int t = 0; t < threads; t += 2)
    for (int i = 1; i < blocks; i += 2) free(members[t].mine[i]);
}

static pthread_key_t key;
static size_t value_size;
static void *volatile kept_by_destructor;

/* Frees the value of size `value_size`; keeps a block that is 2 bytes larger, and not one that is 4 bytes larger. */
static void destroy_value(void *value) {
  kept_by_destructor = malloc(value_size + 2);
  void *volatile gone = malloc(value_size + 4);
  free(gone);
  free(value);
}

static void *set_value(void *unused) {
  pthread_setspecific(key, malloc(value_size));
  return unused;
}

/* Threads, one after another, that leave a value for a destructor. */
void thread_values(int threads, size_t size) {
  value_size = size;
  pthread_key_create(&key, destroy_value);
  for (int t = 0; t < threads; t++) {
    pthread_t id;
    if (pthread_create(&id, NULL, set_value, NULL)) abort();
    pthread_join(id, NULL);
  }
  pthread_key_delete(key);
}

/* ---- failures ---- */

#define BEFORE 77 /* what errno was before each call */

static void tell(const char *call, int failed, int error) {
  printf("%s: %s, errno %d\n", call, failed ? "failed" : "done", error);
}

#define TELL(call, failure)                                                                                            \
  do {                                                                                                                 \
    errno = BEFORE;                                                                                                    \
    int failed = (intptr_t)(call) == (failure);                                                                        \
    tell(#call, failed, errno);                                                                                        \
  } while (0)

static void fail_to_allocate(char *block) {
  volatile size_t huge = (size_t)1 << 62, half = (size_t)1 << 40, all = SIZE_MAX;
  TELL(malloc(huge), 0);
  TELL(malloc(all), 0);
  TELL(calloc(half, half), 0);
  TELL(calloc(1, huge), 0);
  TELL(realloc(block, huge), 0);
  TELL(reallocarray(block, half, half), 0);
  TELL(memalign(64, huge), 0);
  TELL(aligned_alloc(64, huge), 0);
  TELL(valloc(huge), 0);
  TELL(pvalloc(all), 0);
  void *unchanged = block;
  TELL(posix_memalign(&unchanged, 64, huge), ENOMEM);
  TELL(posix_memalign(&unchanged, 3, 100), EINVAL);
  printf("%s\n", unchanged == block && block[0] == 'x' ? "unchanged" : "changed");
}

static void fail_to_map(void) {
  size_t page = 4096;
  volatile size_t huge = (size_t)1 << 62;
  int readable = PROT_READ | PROT_WRITE, anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
  char *mapping = mmap(NULL, 2 * page, readable, anonymous, -1, 0), *nowhere = (char *)page;
  TELL(mmap(NULL, huge, readable, anonymous, -1, 0), -1);
  TELL(mmap(NULL, 0, readable, anonymous, -1, 0), -1);
  TELL(mmap(mapping + 1, page, readable, anonymous | MAP_FIXED, -1, 0), -1);
  TELL(mmap(mapping, page, readable, anonymous | MAP_FIXED_NOREPLACE, -1, 0), -1);
  TELL(mmap(NULL, page, readable, MAP_PRIVATE, 999, 0), -1);
  TELL(munmap(mapping + 1, page), -1);
  TELL(munmap(mapping, 0), -1);
  TELL(mremap(mapping, 2 * page, huge, MREMAP_MAYMOVE), -1);
  TELL(mremap(nowhere, page, 4 * page, MREMAP_MAYMOVE), -1);
  TELL(mprotect(mapping + 1, page, readable), -1);
  TELL(mprotect(nowhere, page, readable), -1);
  TELL(munmap(mapping, 2 * page), -1);
}

/* Prints how each call ends that must fail, and errno behind some that must not. */
void failures(void) {
  char *block = malloc(100);
  block[0] = 'x';
  fail_to_allocate(block);
  fail_to_map();
  TELL(malloc(100003), 0);
  TELL(calloc(3, 100019), 0);
  TELL(block = realloc(block, 100043), 0);
  TELL(realloc(block, 0), -1);
  errno = BEFORE;
  free(malloc(100057));
  tell("free", 0, errno);
  fflush(stdout);
}

/* ---- signal handlers ---- */

static volatile sig_atomic_t handled;

static void allocate_in_handler(int signal) {
  (void)signal;
  int saved_errno = errno;
  void *volatile block = malloc(43019), *volatile zeros = calloc(1, 43037);
  block = realloc(block, 86069);
  void *mapping = mmap(NULL, 4096 * 43, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(mapping, block, 43019);
  munmap(mapping, 4096 * 43);
  free(zeros);
  free(block);
  handled++;
  errno = saved_errno;
}

static void map_and_copy(void) {
  size_t bytes = 4096 * 89;
  char *mapping = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(mapping, bytes / 2, PROT_READ | PROT_WRITE);
  memmove(mapping + 100, mapping, bytes / 4);
  munmap(mapping + 4096, 4096);
  munmap(mapping, bytes);
}

/* Maps, copies and unmaps until a handler that allocates has interrupted it `times` times, every 200 us where a core is
 * free; returns how often it did. The interrupted code calls nothing that malloc's own lock could be held in. */
int interrupted(int times) {
  struct sigaction action = {.sa_handler = allocate_in_handler, .sa_flags = SA_RESTART};
  struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &every, NULL);
  while (handled < times) map_and_copy();
  setitimer(ITIMER_REAL, &never, NULL);
  return handled;
}

/* ---- a vfork child: it works in its parent's memory ---- */

static void *volatile from_child[2];

/* The child allocates two blocks of `size` bytes and frees one; the other is the parent's. Returns its status, 7. */
int allocate_in_vfork(size_t size) {
  int status;
  pid_t pid = vfork();
  if (pid == 0) {
    from_child[0] = malloc(size);
    from_child[1] = malloc(size);
    free(from_child[0]);
    _exit(7);
  }
  waitpid(pid, &status, 0);
  return WEXITSTATUS(status);
}

/* ---- late allocations ---- */

static size_t late_size;
static void *volatile late;

static void allocate_late(void) {
  void *volatile gone = malloc(late_size + 2);
  free(gone);
  late = realloc(late, late_size);
}

/* Has blocks of about `size` bytes allocated by `exit` (a handler of it, and our destructor below). */
void allocate_at_exit(size_t size) {
  late_size = size;
  atexit(allocate_late);
}

__attribute__((destructor)) static void unload(void) {
  if (!late_size) return;
  allocate_late();
  char word[] = "destroyed\n";
  if (write(1, word, sizeof word - 1) < 0) abort();
}

/* For Py_AtExit, which calls it when nothing of the interpreter is left. */
void after_finalize(void) {
  allocate_late();
  char word[] = "finalized\n";
  if (write(1, word, sizeof word - 1) < 0) abort();
}
