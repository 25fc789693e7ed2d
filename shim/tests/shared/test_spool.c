/* Tests spool.c, loss.c and clock.c: many threads and a forked child write, the ring runs out of chunks, and a reader
 * that follows the protocol of formats/spool/spool.h finds every published record exactly once. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/spool.h"
#include "shared/window/window.h"
#include "tests/check.h"

#define CHUNKS 64
#define WRITERS 4
#define RECORDS 2500 /* few enough to leave chunks for writers that lose the race for a new one */

static char path[] = "/tmp/test_spool.XXXXXX";
#include "tests/shared/spool_file.h"

/* Number of records found for each (process, thread, number). */
static unsigned seen[8][WRITERS + 1][RECORDS];

static struct chunk_header *chunk_of(uint32_t chunk_number) {
  return (void *)((char *)file + SPOOL_CHUNKS_OFFSET + (size_t)chunk_number * SPOOL_CHUNK_BYTES);
}

static unsigned briefs;

/* An alloc record, or one that was taken back and changed: all of its fields belong together. */
static void count_alloc(const struct record_alloc *record) {
  const struct record_brief *brief = (const struct record_brief *)record;
  if ((record->head & 0xffff) == RECORD_BRIEF) {
    check(brief->free_stack == brief->id * 3 && brief->type == brief->id * 5 && brief->lifetime_ns == 7);
    briefs++;
  } else {
    check(record->size_bytes == record->id * 11 && record->usable_bytes == record->id * 13);
  }
}

static void count(uint32_t process, const struct record_thread_start *record) {
  unsigned kind = record->head & 0xffff, slots = record->head >> 16;
  if (kind == RECORD_ALLOC || kind == RECORD_BRIEF) {
    count_alloc((const void *)record);
    return;
  }
  check(kind == RECORD_THREAD_START && slots >= 1 && slots <= 3 && process < 8 && record->thread <= WRITERS);
  seen[process][record->thread][record->t_ns]++;
}

static unsigned read_chunk(struct chunk_header *chunk) {
  unsigned records = 0;
  for (unsigned at = 1; chunk->process && at < SPOOL_CHUNK_SLOTS;) {
    const struct record_thread_start *record = (void *)((char *)chunk + (size_t)at * SPOOL_SLOT_BYTES);
    unsigned kind = record->head & 0xffff, slots = record->head >> 16;
    if (kind && kind != SPOOL_PAD) {
      count(chunk->process, record);
      records++;
    }
    at += slots ? slots : 1;
  }
  return records;
}

static unsigned read_back(void) {
  unsigned records = 0;
  memset(seen, 0, sizeof seen);
  for (uint32_t chunk_number = 0; chunk_number < CHUNKS; chunk_number++) records += read_chunk(chunk_of(chunk_number));
  return records;
}

static unsigned write_records(uint32_t thread, unsigned count) {
  unsigned lost = 0;
  for (unsigned i = 0; i < count; i++) {
    unsigned slots = 1 + i % 3;
    struct record_thread_start *record = spool_claim(slots);
    if (!record) {
      lost++;
      continue;
    }
    record->thread = thread;
    record->t_ns = i;
    /* The others are never published, as if their writer had died. */
    if (i % 97 != 5) spool_publish(record, RECORD_THREAD_START, slots);
  }
  return lost;
}

static void *writer(void *number) { return (void *)(uintptr_t)write_records((uint32_t)(uintptr_t)number, RECORDS); }

static unsigned run_writers(void) {
  pthread_t threads[WRITERS];
  unsigned lost = 0;
  for (uintptr_t i = 0; i < WRITERS; i++) check(!pthread_create(&threads[i], NULL, writer, (void *)(i + 1)));
  for (int i = 0; i < WRITERS; i++) {
    void *result;
    pthread_join(threads[i], &result);
    lost += (unsigned)(uintptr_t)result;
  }
  return lost;
}

static unsigned published_of(unsigned count) {
  unsigned published = 0;
  for (unsigned i = 0; i < count; i++) published += i % 97 != 5;
  return published;
}

static void test_every_published_record_is_found_once(void) {
  make_file(CHUNKS);
  check(spool_open(path) == 0);
  spool_begin_process(spool_new_process());
  check(run_writers() == 0);
  pid_t child = fork();
  if (child == 0) {
    spool_begin_process(spool_new_process());
    write_records(1, RECORDS);
    _exit(0);
  }
  write_records(0, RECORDS);
  waitpid(child, NULL, 0);
  check(read_back() == (WRITERS + 2) * published_of(RECORDS));
  for (unsigned i = 0; i < RECORDS; i++) {
    check(seen[1][0][i] == (i % 97 != 5) && seen[2][1][i] == (i % 97 != 5));
    for (int thread = 1; thread <= WRITERS; thread++) check(seen[1][thread][i] == (i % 97 != 5));
  }
  check(file->processes == 2 && file->losses[LOSS_spool_full] == 0);
  drop_file();
}

/* ---- chunks are drained and offered again ---- */

static bool finished(struct chunk_header *chunk) {
  unsigned at = 1;
  if (!atomic_load((_Atomic uint32_t *)&chunk->closed)) return false;
  unsigned used = atomic_load((_Atomic uint32_t *)&chunk->cursor); /* 1 = its writer lost the race for a new chunk */
  while (at < used && at < SPOOL_CHUNK_SLOTS) {
    uint32_t head = atomic_load((_Atomic uint32_t *)((char *)chunk + (size_t)at * SPOOL_SLOT_BYTES));
    if (!(head & 0xffff)) return false;
    at += head >> 16;
  }
  return true;
}

/* Drains finished chunks like the recorder: reads them, empties them with the cursor at the end, and offers them again.
 * Returns the number of records. */
static unsigned drain(void) {
  uint32_t *ring = (uint32_t *)((char *)file + SPOOL_HEADER_BYTES);
  unsigned records = 0;
  for (uint32_t chunk_number = 0; chunk_number < CHUNKS; chunk_number++) {
    struct chunk_header *chunk = chunk_of(chunk_number);
    if (!atomic_load((_Atomic uint32_t *)&chunk->process) || !finished(chunk)) continue;
    records += read_chunk(chunk);
    atomic_store((_Atomic uint32_t *)&chunk->process, 0);
    memset((char *)chunk + SPOOL_SLOT_BYTES, 0, SPOOL_CHUNK_BYTES - SPOOL_SLOT_BYTES);
    ring[file->offered % SPOOL_RING] = chunk_number;
    atomic_fetch_add((_Atomic uint64_t *)&file->offered, 1);
  }
  return records;
}

/* The stores are atomic because the sanitizer does not see that another process has drained the chunk in between. */
static void *patient_writer(void *number) {
  for (unsigned i = 0; i < RECORDS; i++) {
    unsigned slots = 1 + i % 3;
    struct record_thread_start *record;
    while (!(record = spool_claim(slots))) sched_yield();
    __atomic_store_n(&record->thread, (uint32_t)(uintptr_t)number, __ATOMIC_RELAXED);
    __atomic_store_n(&record->t_ns, i, __ATOMIC_RELAXED);
    spool_publish(record, RECORD_THREAD_START, slots);
  }
  return NULL;
}

static pid_t patient_process(void) {
  pid_t child = fork();
  if (child) return child;
  pthread_t threads[WRITERS];
  spool_begin_process(spool_new_process());
  for (uintptr_t i = 0; i < WRITERS; i++) check(!pthread_create(&threads[i], NULL, patient_writer, (void *)(i + 1)));
  for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
  spool_finish_chunk();
  _exit(0);
}

static void test_drained_chunks_are_used_again(uint32_t few) {
  enum { PROCESSES = 3 };
  make_file(few);
  check(spool_open(path) == 0);
  memset(seen, 0, sizeof seen);
  unsigned records = 0, ended = 0;
  for (int i = 0; i < PROCESSES; i++) check(patient_process() > 0);
  while (ended < PROCESSES) {
    records += drain();
    if (waitpid(-1, NULL, WNOHANG) > 0) ended++;
  }
  records += drain();
  check(records == PROCESSES * WRITERS * RECORDS && file->taken > few);
  for (int process = 1; process <= PROCESSES; process++)
    for (int thread = 1; thread <= WRITERS; thread++)
      for (unsigned i = 0; i < RECORDS; i++) check(seen[process][thread][i] == 1);
  drop_file();
}

/* ---- records that are taken back ---- */

static uint32_t write_alloc(uint64_t id) {
  struct record_alloc *record = spool_claim(1);
  check(record);
  atomic_store_explicit((_Atomic uint64_t *)&record->id, id, memory_order_relaxed);
  record->size_bytes = id * 11;
  record->usable_bytes = id * 13;
  spool_publish(record, RECORD_ALLOC, 1);
  return spool_place_of(record);
}

static bool end_briefly(uint32_t place, uint64_t id) {
  struct record_brief *brief = (struct record_brief *)spool_take_back(place, id);
  if (!brief) return false;
  check(brief->head == 1u << 16 && brief->id == id);
  brief->free_stack = id * 3;
  brief->type = id * 5;
  brief->lifetime_ns = 7;
  spool_publish(brief, RECORD_BRIEF, 1);
  return true;
}

static void test_a_record_of_the_current_chunk_can_be_taken_back_once(void) {
  make_file(8);
  check(spool_open(path) == 0);
  spool_begin_process(spool_new_process());
  uint32_t one = write_alloc(1), two = write_alloc(2);
  check(one && !spool_take_back(one, 2) && !spool_take_back(0, 1) && end_briefly(one, 1));
  check(!spool_take_back(one, 1));
  spool_finish_chunk();
  write_alloc(3);
  check(!spool_take_back(two, 2));
  briefs = 0;
  check(read_back() == 3 && briefs == 1);
  drop_file();
}

/* Not for the thread sanitizer: what orders the writes of a drained chunk before those of the next one at its position is
 * the recorder, which drains through a mapping of its own. */
#ifndef __SANITIZE_THREAD__
#define LAG 64 /* records between one and its end: the chunk of some has been closed by then */

static void *write_and_end(void *argument) {
  uint64_t first = (uint64_t)(uintptr_t)argument * 1000000;
  uint32_t place[LAG];
  unsigned ended = 0;
  for (uint64_t i = 0; i < RECORDS + LAG; i++) {
    if (i >= LAG) ended += end_briefly(place[i % LAG], first + i - LAG);
    if (i < RECORDS) place[i % LAG] = write_alloc(first + i);
  }
  return (void *)(uintptr_t)ended;
}

static void test_records_are_taken_back_while_chunks_are_drained(void) {
  pthread_t threads[WRITERS];
  unsigned ended = 0, found = 0;
  make_file(CHUNKS);
  check(spool_open(path) == 0);
  spool_begin_process(spool_new_process());
  briefs = 0;
  for (uintptr_t i = 0; i < WRITERS; i++) check(!pthread_create(&threads[i], NULL, write_and_end, (void *)(i + 1)));
  for (int i = 0; i < 20; i++) {
    found += drain();
    sched_yield();
  }
  for (int i = 0; i < WRITERS; i++) {
    void *result;
    pthread_join(threads[i], &result);
    ended += (unsigned)(uintptr_t)result;
  }
  spool_finish_chunk();
  found += drain();
  check(found == WRITERS * RECORDS && briefs == ended && ended > WRITERS * RECORDS / 2);
  drop_file();
}
#endif

static void test_records_that_do_not_fit_are_counted(void) {
  make_file(3);
  check(spool_open(path) == 0);
  spool_begin_process(spool_new_process());
  unsigned lost = run_writers();
  check(lost > 0 && file->losses[LOSS_spool_full] == lost);
  check(file->taken == 3 && read_back() > 0);
  check(spool_claim(SPOOL_CHUNK_SLOTS) == NULL); /* larger than any chunk */
  drop_file();
}

static void test_another_file_is_refused(void) {
  make_file(1);
  file->magic++;
  check(spool_open(path) != 0 && spool == NULL);
  check(file->late == 0);
  file->magic--;
  file->ended = 1;
  check(spool_open(path) != 0 && spool == NULL && file->late == 1); /* a process that begins too late */
  munmap(file, FILE_BYTES);
  check(spool_open("/nonexistent/spool") != 0);
  check(truncate(path, 100) == 0 && spool_open(path) != 0);
}

static void test_losses_before_the_spool_are_kept(void) {
  loss_add(LOSS_deep_stack);
  make_file(1);
  check(spool_open(path) == 0);
  loss_flush_early();
  loss_flush_early();
  check(file->losses[LOSS_deep_stack] == 1);
  drop_file();
}

static void test_an_exec_handoff_is_taken_once(void) {
  make_file(1);
  check(spool_open(path) == 0);
  spool_leave_handoff(4711, 9);
  check(spool_take_handoff(4712) == 0 && spool_take_handoff(4711) == 9 && spool_take_handoff(4711) == 0);
  spool_leave_handoff(4711, 9);
  spool_leave_handoff(4711, 0);
  check(spool_take_handoff(4711) == 0);
  drop_file();
}

/* Static and setuid programs never take their handoffs. Pids above the kernel's limit are those of no process. */
static void test_handoffs_that_nobody_takes_make_room(void) {
  make_file(1);
  check(spool_open(path) == 0);
  for (uint32_t process = 1; process <= 300; process++) {
    spool_leave_handoff((pid_t)(0x600000 + process), process);
    check(spool_take_handoff(getpid()) == 0);
    spool_leave_handoff(getpid(), process);
    check(spool_take_handoff(getpid()) == process);
  }
  drop_file();
}

/* All places are those of processes that live: the newest handoffs stay. */
static void test_the_oldest_handoff_of_the_living_makes_room(void) {
  make_file(1);
  check(spool_open(path) == 0);
  pid_t parent = getppid(), own = getpid();
  for (unsigned place = 0; place < SPOOL_HANDOFFS; place++)
    spool->handoffs[place] = (uint32_t)parent | (uint64_t)(1000 + place) << 32;
  spool_leave_handoff(own, 5000);
  check(spool_take_handoff(own) == 5000);
  unsigned first = (uint32_t)own % SPOOL_HANDOFFS, oldest = first + 7 < SPOOL_HANDOFFS ? first : 0, kept = 0;
  for (unsigned place = 0; place < SPOOL_HANDOFFS; place++) kept += spool->handoffs[place] != 0;
  check(kept == SPOOL_HANDOFFS - 1 && spool->handoffs[oldest] == 0);
  drop_file();
}

static void *offer_later(void *argument) {
  usleep(50000);
  atomic_store((_Atomic uint64_t *)&file->offered, 4);
  return argument;
}

static uint32_t pid_of_the_dead(void) {
  pid_t child = fork();
  if (child == 0) _exit(0);
  check(waitpid(child, NULL, 0) == child);
  return (uint32_t)child;
}

/* A filter of the program may kill for system calls that filter_program.c does not check. */
static void wait_under_a_filter(void) {
  struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                               BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_nanosleep, 0, 1),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
  int64_t before_ns = clock_now_ns();
  spool_wait_for_room();
  check(clock_now_ns() - before_ns >= 1000000000);
  _exit(0);
}

/* A thread that would rather be late than lose a record waits for the next offer, but not for a recorder that is
 * dead. */
static void test_a_wait_for_room_ends_with_an_offer_or_after_a_second(void) {
  pthread_t later;
  make_file(5);
  file->offered = 1;
  check(spool_open(path) == 0);
  spool_begin_process(spool_new_process());
  check(spool_has_room() && write_records(1, 300) == 0 && !spool_is_short());
  check(write_records(1, 200) == 0 && spool_is_short());
  errno = 77;
  int64_t before_ns = clock_now_ns();
  check(pthread_create(&later, NULL, offer_later, NULL) == 0);
  spool_wait_for_room();
  check(errno == 77 && !spool_is_short() && clock_now_ns() - before_ns >= 40000000);
  pthread_join(later, NULL);
  check(write_records(1, 1500) == 0 && spool_is_short());
  spool->recorder_pid = pid_of_the_dead();
  int status = -1;
  pid_t child = fork();
  if (child == 0) wait_under_a_filter();
  check(waitpid(child, &status, 0) == child && status == 0);
  before_ns = clock_now_ns();
  for (int i = 0; i < 1000; i++) spool_wait_for_room(); /* nothing was offered since, and the child has waited */
  check(clock_now_ns() - before_ns < 500000000);
  check(spool_has_room() && write_records(1, 2048) > 0 && !spool_has_room());
  drop_file();
}

/* It may be there, and get no CPU. */
static void test_a_wait_for_room_is_longer_while_the_recorder_lives(void) {
  make_file(5);
  file->offered = 1;
  check(spool_open(path) == 0);
  spool_begin_process(spool_new_process());
  spool->recorder_pid = (uint32_t)getpid();
  check(write_records(1, 500) == 0 && spool_is_short());
  pid_t child = fork();
  if (child == 0) {
    usleep(1500000);
    atomic_store((_Atomic uint64_t *)&file->offered, 4);
    _exit(0);
  }
  int64_t before_ns = clock_now_ns();
  spool_wait_for_room();
  check(!spool_is_short() && clock_now_ns() - before_ns >= 1200000000);
  waitpid(child, NULL, 0);
  drop_file();
}

/* Nothing is lost before they are used up. */
static void test_a_wait_for_more_than_the_last_chunks_is_short(void) {
  make_file(5);
  file->offered = 3;
  check(spool_open(path) == 0);
  spool_begin_process(spool_new_process());
  spool->recorder_pid = (uint32_t)getpid();
  check(write_records(1, 500) == 0 && spool_is_short());
  int64_t before_ns = clock_now_ns();
  spool_wait_for_room();
  int64_t after_ns = clock_now_ns();
  check(after_ns - before_ns >= 100000000 && after_ns - before_ns < 900000000);
  for (int i = 0; i < 1000; i++) spool_wait_for_room();
  check(clock_now_ns() - after_ns < 2000000000);
  check(spool->waited_in_vain == 0); /* when they are used up, a thread waits for longer */
  drop_file();
}

int main(void) {
  check(mkstemp(path) >= 0);
  test_losses_before_the_spool_are_kept();
  test_every_published_record_is_found_once();
  test_drained_chunks_are_used_again(5);
  test_drained_chunks_are_used_again(WINDOW_POSITIONS + 16);
  test_a_record_of_the_current_chunk_can_be_taken_back_once();
#ifndef __SANITIZE_THREAD__
  test_records_are_taken_back_while_chunks_are_drained();
#endif
  test_records_that_do_not_fit_are_counted();
  test_a_wait_for_room_ends_with_an_offer_or_after_a_second();
  test_a_wait_for_room_is_longer_while_the_recorder_lives();
  test_a_wait_for_more_than_the_last_chunks_is_short();
  test_another_file_is_refused();
  test_an_exec_handoff_is_taken_once();
  test_handoffs_that_nobody_takes_make_room();
  test_the_oldest_handoff_of_the_living_makes_room();
  unlink(path);
  puts("ok");
  return 0;
}
