/* Tests window.c with spool.c: positions move over a spool that is larger than the window, also where the kernel refuses
 * remap_file_pages, and a writer may be interrupted at any instruction. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/ucontext.h>
#include <sys/wait.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/spool.h"
#include "shared/sealed/sealed.h"
#include "shared/window/window.h"
#include "tests/check.h"

#define CHUNKS (3 * WINDOW_POSITIONS)
#define IN_CHUNK (SPOOL_CHUNK_SLOTS - 1) /* records of one slot that fill a chunk */
#define MOST_RECORDS (1 << 21)

static char path[64];
#include "tests/shared/spool_file.h"

/* Only x86-64 lets a program see each of its own instructions. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HAS_STEPS
#endif
static uint8_t seen[MOST_RECORDS]; /* how often the reader has found the record with this number */
static unsigned written;

static void start_spool(uint32_t offered) {
  make_file(offered);
  check(spool_open(path) == 0);
  spool_begin_process(spool_new_process());
  memset(seen, 0, sizeof seen);
  written = 0;
}

/* ---- writing and reading numbered records ---- */

static bool write_record(void) {
  struct record_thread_start *record = spool_claim(1);
  if (!record) return false;
  record->t_ns = written++;
  spool_publish(record, RECORD_THREAD_START, 1);
  return true;
}

static unsigned write_records(unsigned count) {
  unsigned lost = 0;
  for (unsigned i = 0; i < count; i++) lost += !write_record();
  return lost;
}

static struct chunk_header *chunk_of(uint32_t number) {
  return (void *)((char *)file + SPOOL_CHUNKS_OFFSET + (size_t)number * SPOOL_CHUNK_BYTES);
}

/* Counts the published records of the chunk. Returns whether every slot belongs to one. */
static bool read_chunk(struct chunk_header *chunk, bool count) {
  unsigned at = 1;
  while (at < SPOOL_CHUNK_SLOTS) {
    const struct record_thread_start *record = (void *)((char *)chunk + (size_t)at * SPOOL_SLOT_BYTES);
    unsigned kind = record->head & 0xffff, slots = record->head >> 16;
    if (!slots || !kind) return false;
    if (count && kind != SPOOL_PAD) seen[record->t_ns]++;
    at += slots;
  }
  return true;
}

/* Drains the finished chunks as the recorder does. */
static void drain(void) {
  uint32_t *ring = (uint32_t *)((char *)file + SPOOL_HEADER_BYTES);
  for (uint32_t number = 0; number < CHUNKS; number++) {
    struct chunk_header *chunk = chunk_of(number);
    if (!chunk->process || !chunk->closed || !read_chunk(chunk, false)) continue;
    read_chunk(chunk, true);
    memset(chunk, 0, SPOOL_CHUNK_BYTES);
    chunk->cursor = SPOOL_CHUNK_SLOTS;
    chunk->closed = 1;
    ring[file->offered++ % SPOOL_RING] = number;
  }
}

static void check_each_is_found_once(void) {
  spool_finish_chunk();
  drain();
  for (unsigned i = 0; i < written; i++) check(seen[i] == 1);
}

/* Other threads, which run while this one yields. */
static void (*in_yield)(void);

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
  long given[6];
  va_list more;
  va_start(more, number);
  for (int i = 0; i < 6; i++) given[i] = va_arg(more, long);
  va_end(more);
  if (number == SYS_sched_yield && in_yield) in_yield();
  return __real_syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

/* ---- moving ---- */

static void test_a_spool_larger_than_the_window_is_filled(void) {
  start_spool(CHUNKS);
  check(write_records(CHUNKS * IN_CHUNK) == 0);
  check(write_records(10) == 10 && file->losses[LOSS_spool_full] == 10 && file->losses[LOSS_unmapped_chunk] == 0);
  check_each_is_found_once();
  check(write_records(10) == 0 && file->taken == CHUNKS + 1);
  drop_file();
}

static struct record_thread_start *held[WINDOW_POSITIONS];

static void hold_a_record_in_each_position(void) {
  start_spool(CHUNKS);
  for (int i = 0; i < WINDOW_POSITIONS; i++) {
    held[i] = spool_claim(1);
    check(held[i] && write_records(IN_CHUNK - 1) == 0);
  }
}

static void publish_held(void) {
  for (int i = 0; i < WINDOW_POSITIONS; i++) {
    if (held[i]) held[i]->t_ns = written++;
    if (held[i]) spool_publish(held[i], RECORD_THREAD_START, 1);
    held[i] = NULL;
  }
}

/* Each chunk has a record that is claimed and not published: its position must not move. */
static void test_a_chunk_with_an_unfinished_record_keeps_its_position(void) {
  hold_a_record_in_each_position();
  check(write_records(10) == 10 && file->losses[LOSS_unmapped_chunk] == 10 && file->taken == WINDOW_POSITIONS);
  publish_held();
  check(write_records(2 * IN_CHUNK) == 0);
  check_each_is_found_once();
  drop_file();
}

static void test_a_writer_lets_those_publish_that_hold_all_positions(void) {
  hold_a_record_in_each_position();
  in_yield = publish_held;
  check(write_records(2 * IN_CHUNK) == 0);
  in_yield = NULL;
  check(file->losses[LOSS_unmapped_chunk] == 0);
  check_each_is_found_once();
  drop_file();
}

static void test_the_number_of_a_chunk_never_comes_back(void) {
  uint64_t before = 0;
  start_spool(CHUNKS);
  check(spool_chunk() == 0);
  for (int i = 0; i < CHUNKS; i++) {
    check(write_records(IN_CHUNK) == 0 && spool_chunk() > before);
    before = spool_chunk();
  }
  drop_file();
}

/* A program may damage the ring: the offer is lost, and the next one is used. */
static void test_an_impossible_chunk_number_is_passed_over(void) {
  start_spool(3);
  ((uint32_t *)((char *)file + SPOOL_HEADER_BYTES))[0] = CHUNKS;
  check(write_records(1) == 1 && file->losses[LOSS_unmapped_chunk] == 1);
  check(write_records(1) == 0);
  drop_file();
}

/* A writer that still holds the position may claim after it has moved to a new chunk, whose header is zero. */
static void test_slots_that_are_claimed_before_a_chunk_is_opened_become_padding(void) {
  start_spool(CHUNKS);
  struct chunk_header *first = chunk_of(CHUNKS - 1), *second = chunk_of(CHUNKS - 2);
  check(write_records(1) == 0);
  first->cursor = 0;
  check(spool_claim(5) && first->process == 1 && second->process == 1);
  check(((uint32_t *)first)[SPOOL_SLOT_BYTES / 4] == (SPOOL_PAD | 4 << 16));
  drop_file();
  start_spool(CHUNKS);
  first = chunk_of(CHUNKS - 1);
  first->cursor = 5;
  check(write_records(SPOOL_CHUNK_SLOTS - 5) == 0 && file->taken == 1);
  check(write_records(1) == 0 && file->taken == 2);
  drop_file();
}

/* ---- forked children ---- */

/* Each generation leaves its chunk open: there are more generations than positions. */
static void test_a_long_chain_of_forks_is_recorded(void) {
  enum { GENERATIONS = WINDOW_POSITIONS + 8 };
  start_spool(CHUNKS);
  pid_t first = getpid();
  for (int i = 0; i < GENERATIONS; i++) {
    check(write_records(1) == 0);
    pid_t child = fork();
    if (child) {
      int status;
      check(child > 0 && waitpid(child, &status, 0) == child && status == 0);
      break;
    }
    spool_begin_process(spool_new_process());
  }
  if (getpid() != first) _exit(write_records(1) != 0);
  check(file->taken == GENERATIONS + 1 && file->losses[LOSS_unmapped_chunk] == 0);
  drop_file();
}

/* ---- where the kernel refuses ---- */

/* Makes system call `number` fail with `error`, or kill the process if `error` is 0. */
static void refuse(long number, int error) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, error ? SECCOMP_RET_ERRNO | (unsigned)error : SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  check(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

static void in_child(void (*body)(void)) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  check(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void by_path(void) {
  start_spool(CHUNKS);
  refuse(SYS_remap_file_pages, ENOSYS);
  errno = 5;
  check(write_records(CHUNKS * IN_CHUNK) == 0 && errno == 5);
  check_each_is_found_once();
}

static void not_at_all(void) {
  start_spool(CHUNKS);
  check(write_records(1) == 0);
  refuse(SYS_remap_file_pages, EPERM);
  refuse(SYS_openat, EACCES);
  errno = 5;
  check(write_records(2 * IN_CHUNK) == IN_CHUNK + 1 && errno == 5);
  check(file->losses[LOSS_unmapped_chunk] == IN_CHUNK + 1);
  check(file->taken == 2); /* a chunk that cannot be mapped is kept for later, and no other is taken */
  check_each_is_found_once();
}

/* The file at the path is another one by now: it must not be written to. */
static void replaced(void) {
  start_spool(CHUNKS);
  refuse(SYS_remap_file_pages, ENOSYS);
  check(unlink(path) == 0);
  int other = open(path, O_RDWR | O_CREAT, 0600);
  check(other >= 0 && ftruncate(other, (off_t)FILE_BYTES) == 0);
  check(write_records(10) == 10 && file->losses[LOSS_unmapped_chunk] == 10);
}

static void in_a_sealed_process(void) {
  start_spool(CHUNKS);
  check(write_records(1) == 0);
  seal_process(true);
  refuse(SYS_remap_file_pages, 0);
  refuse(SYS_openat, 0);
  refuse(SYS_madvise, 0);
  check(write_records(IN_CHUNK) == 1 && file->losses[LOSS_unmapped_chunk] == 1);
}

static void test_a_kernel_that_refuses_costs_records_at_most(void) {
  in_child(by_path);
  in_child(not_at_all);
  in_child(in_a_sealed_process);
  in_child(replaced);
}

#ifdef HAS_STEPS

static rlim_t locked_bytes(void) {
  char text[4096];
  int fd = open("/proc/self/status", O_RDONLY);
  ssize_t length = read(fd, text, sizeof text - 1);
  check(length > 0);
  text[length] = 0;
  close(fd);
  return strtoul(strstr(text, "VmLck:") + 6, NULL, 10) * 1024;
}

/* After mlockall, the limit leaves no room for one more position. */
static void locked(void) {
  start_spool(CHUNKS);
  munmap(file, FILE_BYTES);
  file = spool;
  if (mlockall(MCL_CURRENT | MCL_FUTURE)) return; /* not allowed here */
  struct rlimit exact = {locked_bytes(), locked_bytes()};
  check(!setrlimit(RLIMIT_MEMLOCK, &exact) && !setgid(65534) && !setuid(65534));
  check(write_records(CHUNKS * IN_CHUNK) == 0);
  check(file->losses[LOSS_unmapped_chunk] == 0);
}

static void test_locked_memory_does_not_stop_the_window(void) {
  if (geteuid() == 0) in_child(locked);
}

/* ---- a writer that is interrupted at any instruction ---- */

#define TRAP_FLAG 0x100

static long steps_left;
static bool interrupted;

/* Runs after each instruction. After the last one, it writes so much that every position is used again. */
static void on_step(int number, siginfo_t *info, void *context) {
  (void)number, (void)info;
  if (--steps_left > 0) return;
  ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
  interrupted = true;
  for (int i = 0; i < 3; i++) {
    check(write_records(IN_CHUNK + 100) == 0);
    drain();
  }
}

/* Claims and publishes a record, interrupted after `steps` instructions. Returns false if it took fewer. */
static bool write_interrupted(unsigned slots, long steps) {
  steps_left = steps;
  interrupted = false;
  __asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");
  struct record_thread_start *record = spool_claim(slots);
  if (record) spool_publish(record, SPOOL_PAD, slots);
  __asm__ volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "memory", "cc");
  check(record);
  return interrupted;
}

/* `left`: free slots of the current chunk at the start. Returns false if the claim took fewer steps. */
static bool check_interruption(unsigned left, unsigned slots, long steps) {
  start_spool(CHUNKS);
  check(write_records(IN_CHUNK - left) == 0);
  bool was_interrupted = write_interrupted(slots, steps);
  check(write_records(2 * IN_CHUNK) == 0);
  check_each_is_found_once();
  drain();
  for (uint32_t number = 0; number < CHUNKS; number++) check(chunk_of(number)->process == 0); /* all are finished */
  check(file->losses[LOSS_spool_full] == 0 && file->losses[LOSS_unmapped_chunk] == 0);
  drop_file();
  return was_interrupted;
}

static void test_a_writer_may_be_interrupted_at_any_instruction(void) {
  struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
  check(!sigaction(SIGTRAP, &action, NULL));
  long steps = 1;
  while (check_interruption(500, 1 + (unsigned)steps % 3, steps)) steps++;
  check(steps > 20);
  for (steps = 1; steps < 400; steps++) check(check_interruption(0, 1, steps)); /* a new chunk is needed */
  while (check_interruption(1, 2, steps)) steps += 1 + steps / 40; /* most steps look for unpublished records */
}

#endif

int main(void) {
  strcpy(path, "/dev/shm/test_window.XXXXXX"); /* hundreds of files are written and removed */
  if (mkstemp(path) < 0) check(mkstemp(strcpy(path, "/tmp/test_window.XXXXXX")) >= 0);
  test_a_spool_larger_than_the_window_is_filled();
  test_a_chunk_with_an_unfinished_record_keeps_its_position();
  test_a_writer_lets_those_publish_that_hold_all_positions();
  test_the_number_of_a_chunk_never_comes_back();
  test_an_impossible_chunk_number_is_passed_over();
  test_slots_that_are_claimed_before_a_chunk_is_opened_become_padding();
  test_a_long_chain_of_forks_is_recorded();
#ifdef HAS_STEPS
  test_locked_memory_does_not_stop_the_window();
  test_a_writer_may_be_interrupted_at_any_instruction();
#endif
  test_a_kernel_that_refuses_costs_records_at_most();
  unlink(path);
  puts("ok");
  return 0;
}
