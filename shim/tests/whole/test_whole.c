/* Runs the whole shim in one process. Threads allocate, free blocks of other threads, copy, map, start and end, while
 * ticks arrive, the recording is paused and its settings change, and the process forks. Under the thread sanitizer this
 * finds races; without one it checks that the spool is complete afterwards.
 *
 * Without arguments it creates a spool, as the recorder would, and runs itself with it. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "tests/check.h"

#define CHUNKS 4096
#define WORKERS 3
#define FORKS 12
#define SHORT_THREADS 60
#define SECONDS 1.5
#define SHARED 64

static char *spool_bytes;

/* ---- the recorder's part ---- */

static void fill_header(struct spool_header *header) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  *header = (struct spool_header){.version = SPOOL_VERSION,
                                  .chunk_bytes = SPOOL_CHUNK_BYTES,
                                  .ring_entries = SPOOL_RING,
                                  .chunk_count = CHUNKS,
                                  .features = FEATURE_CPU | FEATURE_MEMORY | FEATURE_CHILDREN | FEATURE_COPY |
                                              FEATURE_WAIT | FEATURE_ALLOC_AUTO,
                                  .cpu_interval_ns = 200000,
                                  .memory_threshold_bytes = 262147,
                                  .alloc_interval_bytes = 4096,
                                  .copy_threshold_bytes = 65537,
                                  .offered = CHUNKS,
                                  .chunks_used = CHUNKS,
                                  .magic = SPOOL_MAGIC};
  header->start_mono_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void map_spool(const char *path, int flags) {
  size_t size = SPOOL_CHUNKS_OFFSET + (size_t)CHUNKS * SPOOL_CHUNK_BYTES;
  int fd = open(path, O_RDWR | flags, 0600);
  check(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
  spool_bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  check(spool_bytes != MAP_FAILED);
  close(fd);
}

static void make_spool(const char *path) {
  map_spool(path, O_CREAT | O_EXCL);
  uint32_t *ring = (uint32_t *)(spool_bytes + SPOOL_HEADER_BYTES);
  for (uint32_t i = 0; i < CHUNKS; i++) ring[i] = i;
  fill_header((struct spool_header *)spool_bytes);
}

static int run_under(const char *program, const char *path) {
  pid_t pid = fork();
  int status;
  if (pid == 0) {
    setenv("SCALENE_TRACE_SPOOL", path, 1);
    execl(program, program, path, (char *)NULL);
    _exit(127);
  }
  check(waitpid(pid, &status, 0) == pid);
  return status;
}

/* ---- the expected records ---- */

static unsigned record_counts[32];

static void count_records(const char *chunk) {
  for (uint32_t slot = 1; slot < SPOOL_CHUNK_SLOTS;) {
    uint32_t head = *(const uint32_t *)(chunk + slot * SPOOL_SLOT_BYTES), slots = head >> 16;
    check((head & 0xffff) < 32 && slot + slots <= SPOOL_CHUNK_SLOTS);
    if ((head & 0xffff) != 0) record_counts[head & 0xffff]++;
    slot += slots ? slots : 1;
  }
}

static void check_spool(void) {
  const struct spool_header *header = (const void *)spool_bytes;
  check(header->taken <= CHUNKS && header->losses[0] == 0);
  for (uint64_t chunk = 0; chunk < header->taken; chunk++)
    count_records(spool_bytes + SPOOL_CHUNKS_OFFSET + chunk * SPOOL_CHUNK_BYTES);
  printf("%u ticks, %u allocations, %u frees, %u copies in %u threads of %u processes\n", record_counts[RECORD_TICK],
         record_counts[RECORD_ALLOC], record_counts[RECORD_FREE], record_counts[RECORD_COPY], header->threads,
         header->processes);
  check(record_counts[RECORD_PROCESS_START] == (unsigned)(1 + FORKS));
  check(record_counts[RECORD_PROCESS_END] == (unsigned)(1 + FORKS));
  check(record_counts[RECORD_THREAD_START] == (unsigned)(header->threads));
  check(record_counts[RECORD_THREAD_END] == (unsigned)(header->threads));
  check(header->threads >= 1 + WORKERS + SHORT_THREADS + FORKS);
  check(record_counts[RECORD_TICK] > 0 && record_counts[RECORD_MEMORY] > 0 && record_counts[RECORD_COPY] > 0 &&
        record_counts[RECORD_HEAP] > 0);
  check(record_counts[RECORD_ALLOC] > 100 && record_counts[RECORD_FREE] > 100);
}

/* ---- the program's part ---- */

static _Atomic(void *) shared[SHARED]; /* blocks that any thread may free */
static _Atomic bool stop;

static uint32_t draw(uint32_t *state) { return (*state = *state * 1664525 + 1013904223) >> 8; }

static void *new_block(uint32_t *random, size_t *size) {
  void *block = NULL;
  *size = 1 + draw(random) % (draw(random) % 50 ? 5000 : 700000);
  switch (draw(random) % 4) {
  case 0: return malloc(*size);
  case 1: return calloc(1, *size);
  case 2: return realloc(malloc(*size / 2 + 1), *size);
  default: return posix_memalign(&block, 64, *size) ? NULL : block;
  }
}

static void map_and_unmap(size_t size) {
  char *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(start != MAP_FAILED);
  start[0] = 1;
  start = mremap(start, size, 2 * size, MREMAP_MAYMOVE);
  check(start != MAP_FAILED && start[0] == 1);
  check(munmap(start, 2 * size) == 0);
}

static void *work(void *seed) {
  uint32_t random = (uint32_t)(uintptr_t)seed;
  static _Thread_local char buffer[4096];
  for (size_t size; !atomic_load(&stop);) {
    char *block = new_block(&random, &size);
    check(block);
    memcpy(block, buffer, size < sizeof buffer ? size : sizeof buffer);
    memmove(buffer, block, size < sizeof buffer ? size : sizeof buffer);
    free(atomic_exchange(&shared[draw(&random) % SHARED], block));
    if (draw(&random) % 100 == 0) map_and_unmap(65536);
  }
  return NULL;
}

static void *run_short_thread(void *seed) {
  uint32_t random = (uint32_t)(uintptr_t)seed;
  size_t size;
  for (int i = 0; i < 50; i++) free(atomic_exchange(&shared[draw(&random) % SHARED], new_block(&random, &size)));
  return NULL;
}

static int run_short_thread_c11(void *seed) { return run_short_thread(seed) != NULL; }

/* ThreadSanitizer does not know C11 threads, and at a fork it leaves the locks of its allocator as they are. */
#ifdef __SANITIZE_THREAD__
static int start_and_join_c11(void *seed) { return run_short_thread_c11(seed); }
static void run_in_child(uint32_t seed) { (void)seed; }
#else
static int start_and_join_c11(void *seed) {
  thrd_t thread;
  int result = -1;
  check(thrd_create(&thread, run_short_thread_c11, seed) == thrd_success && thrd_join(thread, &result) == thrd_success);
  return result;
}
static void run_in_child(uint32_t seed) { run_short_thread((void *)(uintptr_t)seed); }
#endif

/* A fork handler that a library registers before the shim registers its own, so it runs in a child that the shim has
 * not detected yet. */
static void at_fork_in_child(void) { run_in_child(3); }

__attribute__((constructor)) static void register_fork_handler(void) { pthread_atfork(NULL, NULL, at_fork_in_child); }

static void *start_and_join(void *unused) {
  for (uintptr_t i = 0; i < SHORT_THREADS; i++) {
    pthread_t thread;
    check(pthread_create(&thread, NULL, run_short_thread, (void *)i) == 0);
    check(start_and_join_c11((void *)(i + 7)) == 0);
    check(pthread_join(thread, NULL) == 0);
  }
  return unused;
}

static void fork_once(uint32_t seed) {
  int status;
  pid_t pid = fork();
  if (pid == 0) {
    run_in_child(seed);
    _exit(7);
  }
  check(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* Changes the settings that the recorder may change at any time. */
static void change_settings(int turn) {
  struct spool_header *header = (struct spool_header *)spool_bytes;
  header->paused = turn % 4 == 3;
  header->alloc_control = CONTROL_ALLOC_SET | (turn % 3 ? 0 : CONTROL_ALLOC_AUTO) | (turn % 2 ? 512 : 16384);
  header->memory_threshold_bytes = turn % 2 ? 65537 : 262147;
}

static int run(const char *path) {
  pthread_t worker[WORKERS], starter;
  map_spool(path, 0);
  for (uintptr_t i = 0; i < WORKERS; i++) check(pthread_create(&worker[i], NULL, work, (void *)(i + 1)) == 0);
  check(pthread_create(&starter, NULL, start_and_join, NULL) == 0);
  for (int turn = 0; turn < FORKS; turn++) {
    change_settings(turn);
    nanosleep(&(struct timespec){0, (long)(SECONDS * 1e9 / FORKS)}, NULL);
    fork_once((uint32_t)turn);
  }
  ((struct spool_header *)spool_bytes)->paused = 0;
  pthread_join(starter, NULL);
  atomic_store(&stop, true);
  for (int i = 0; i < WORKERS; i++) pthread_join(worker[i], NULL);
  return 0;
}

__attribute__((visibility("default"))) int main(int count, char **arguments) {
  char path[] = "/tmp/scalene-whole-XXXXXX";
  if (count > 1) return run(arguments[1]);
  check(mkdtemp(path) != NULL);
  char file[sizeof path + 8];
  snprintf(file, sizeof file, "%s/spool", path);
  make_spool(file);
  int status = run_under(arguments[0], file);
  unlink(file);
  rmdir(path);
  check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  check_spool();
  return 0;
}
