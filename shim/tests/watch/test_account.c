/* Tests account.c with a simulated kernel: given the results of polls, how is the time divided among waits? */
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/spool.h"
#include "tests/check.h"
#include "watch/native/waiting.h"
#include "watch/reading/proc.h"
#include "watch/stack.h"
#include "watch/threads.h"

#ifndef SYS_vfork /* not on arm64 */
#define SYS_vfork SYS_clone
#endif

#define MS 1000000

/* ---- stand-ins: the kernel's information, and a spool of one chunk ---- */

static struct schedule schedule = {1000, 0, 1};
static enum call_state call_state;
static struct system_call blocked_in = {.number = SYS_read};
static uint64_t native; /* of the place where the thread is blocked */
static bool runs_while_read;
static int native_reads, stack_reads;
static int64_t cpu_ns, native_cost_ns;
static char state = 'S';
static uint64_t stack;
static bool is_torn;
static bool may_find_state; /* its thread state is unknown, and searched for */
static int64_t clock_ns;
static bool is_gone, is_given_up, is_replaced;
static uint64_t chunk = 1; /* number of the current chunk */
#define MOST_RECORDS 50000
static struct record_wait records[MOST_RECORDS];
static unsigned count;
static struct process process = {.id = 7, .count = 1};
static struct watched thread;

bool proc_schedule(int fd, struct schedule *out) {
  (void)fd;
  *out = schedule;
  return !is_gone;
}
enum call_state proc_call(int *kept_fd, pid_t pid, pid_t tid, struct system_call *out) {
  (void)kept_fd, (void)pid, (void)tid;
  *out = blocked_in;
  return call_state;
}
void safe_read_of(pid_t pid, uintptr_t challenge) { (void)pid, (void)challenge; }
bool safe_read_proves(void) { return !is_replaced; }
char proc_state(pid_t pid, pid_t tid) { return (void)pid, (void)tid, state; }
bool proc_ended(pid_t pid) { return (void)pid, false; }
bool stack_read(struct watched *thread, uint64_t *hash) {
  if (is_given_up) process_give_up(thread);
  *hash = is_torn ? 0 : stack;
  stack_reads++;
  return !is_torn;
}
bool stack_may_find_state(const struct watched *thread, int64_t now_ns) {
  return check(now_ns == thread->polled_ns), may_find_state;
}
bool remote_images_refresh(struct remote_images *images, pid_t pid, uintptr_t source) {
  (void)images, (void)pid;
  return check(source == thread.entry.images), true;
}
uint64_t waiting_read(const struct remote_images *images, uintptr_t sp, uintptr_t pc) {
  (void)images;
  check(sp == blocked_in.sp && pc == blocked_in.pc);
  native_reads++;
  cpu_ns += native_cost_ns;
  schedule.count += runs_while_read;
  return native;
}
int clock_getres(clockid_t clock, struct timespec *resolution) {
  check(clock == CLOCK_MONOTONIC_COARSE);
  *resolution = (struct timespec){.tv_nsec = 4 * MS};
  return 0;
}
int64_t clock_now_ns(void) { return clock_ns; }
int64_t clock_thread_cpu_ns(void) { return cpu_ns; }
static int unplaced, rare, torn;
void loss_add(enum loss loss) {
  unplaced += loss == LOSS_waits_unplaced;
  rare += loss == LOSS_waits_rare;
  torn += loss == LOSS_waits_torn;
}
void *spool_claim(unsigned slots) { return slots == 1 && count < MOST_RECORDS ? &records[count++] : NULL; }
void spool_publish(void *record, unsigned kind, unsigned slots) {
  ((struct record_wait *)record)->head = kind | slots << 16;
}
uint64_t spool_chunk(void) { return chunk; }

/* ---- one thread, which began at 0 and has run for 1000 ns ---- */

static void begin(int64_t since_ms) {
  schedule = (struct schedule){1000, 0, 1};
  thread = (struct watched){.process = &process, .schedule_fd = 0};
  thread.entry = (struct thread_entry){.process = 7, .thread = 3, .cpu_start_ns = 1000};
  thread.entry.runtime = 4096;
  thread.entry.runtime_bytes = 64;
  count = 0;
  is_gone = false;
  state = 'S';
  blocked_in = (struct system_call){.number = SYS_read};
  native_reads = 0;
  process.native_debt_ns = process.native_ns = 0;
  account_begin(&thread, since_ms * MS);
}

static void begin_at_start(void) { begin(0); }

/* Polls the thread. Since the last poll it has run for `run_ms` and was runnable for `delay_ms`; it is blocked at
 * `where`, or runs (0). */
static void poll_at(int64_t at_ms, int64_t run_ms, int64_t delay_ms, uint64_t where) {
  clock_ns = at_ms * MS;
  schedule.run_ns += run_ms * MS;
  schedule.delay_ns += delay_ms * MS;
  schedule.count += run_ms != 0;
  call_state = where ? CALL_BLOCKED : CALL_RUNNING;
  stack = where;
  check(account_observe(&thread, 10 * MS));
}

static int64_t waited_ms(uint64_t where, unsigned class) {
  int64_t sum = 0;
  for (unsigned i = 0; i < count; i++) {
    check(records[i].waited_ns >= 0 && records[i].waited_ns <= records[i].end_ns - records[i].t_ns);
    if (records[i].stack == where && records[i].wait_class == class) sum += records[i].waited_ns;
  }
  return sum / MS;
}

static void test_one_long_wait_is_one_record(void) {
  begin_at_start();
  for (int64_t at = 10; at <= 500; at += 10) poll_at(at, 0, 0, 11);
  check(count == 1 && waited_ms(11, WAIT_SLEEP) == 500);
  check(records[0].t_ns == 0 && records[0].looks == 50 && records[0].head == (RECORD_WAIT | 1 << 16));
}

/* The thread was last observed at that time, blocked, and has not run. */
static void poll_still(int64_t at_ms, uint64_t where) {
  call_state = CALL_BLOCKED;
  stack = where;
  clock_ns = at_ms * MS;
  check(account_observe(&thread, 10 * MS));
}

/* While an interpreter starts, the state of its thread is not found, and the thread may begin a long wait. */
static void test_the_stack_of_a_wait_is_read_again_until_the_threads_state_is_found(void) {
  begin_at_start();
  may_find_state = true;
  thread.state = 4096;
  poll_at(10, 0, 0, 11);
  check(account_rests(&thread)); /* it has a stack */
  begin_at_start();
  poll_still(10, 0);
  check(!account_rests(&thread));
  thread.state = 4096;
  poll_still(20, 12);
  check(account_rests(&thread));
  poll_at(500, 0, 0, 12);
  check(waited_ms(0, WAIT_SLEEP) == 0 && waited_ms(12, WAIT_SLEEP) == 500); /* it has not run since it began */
  may_find_state = false;                                                   /* a native thread */
  begin_at_start();
  poll_still(10, 0);
  check(account_rests(&thread));
  stack_reads = 0;
  poll_still(20, 12);
  check(!stack_reads && waited_ms(0, WAIT_SLEEP) == 20);
}

/* Where the GIL lies is known when the interpreter is. */
static void test_a_wait_gets_the_class_with_its_stack(void) {
  begin_at_start();
  thread.entry.runtime = 0;
  blocked_in = (struct system_call){.number = SYS_futex, .arguments = 4096};
  poll_still(10, 0);
  thread.entry.runtime = thread.state = 4096;
  poll_still(20, 12);
  check(waited_ms(0, WAIT_SLEEP) == 0 && waited_ms(12, WAIT_GIL) == 20);
}

/* A search for the state of another thread finds those of all. */
static void test_the_stack_of_a_wait_is_read_when_another_thread_has_found_the_state(void) {
  begin_at_start();
  poll_still(10, 0);
  check(account_rests(&thread));
  thread.state = 4096;
  check(!account_rests(&thread));
  poll_still(20, 12);
  check(account_rests(&thread) && waited_ms(12, WAIT_SLEEP) == 20);
  begin_at_start();
  poll_still(10, 0);
  poll_at(20, 1, 0, 0);
  poll_at(40, 1, 0, 0);
  thread.state = 4096;
  poll_at(60, 1, 0, 12); /* it has run: that was another wait */
  check(waited_ms(0, WAIT_SLEEP) >= 10 && waited_ms(12, WAIT_SLEEP) > 0);
}

static void test_a_torn_stack_is_read_again_and_counted_if_it_stays_so(void) {
  begin_at_start();
  thread.state = 4096;
  torn = 0;
  is_torn = true;
  poll_still(10, 12);
  check(!account_rests(&thread) && !torn);
  is_torn = false;
  poll_still(20, 12);
  check(account_rests(&thread) && !torn && waited_ms(12, WAIT_SLEEP) == 20);
  begin_at_start();
  thread.state = 4096;
  is_torn = true;
  stack_reads = 0;
  for (int64_t at = 10; at < 1000; at += 10) poll_still(at, 12);
  check(account_rests(&thread) && stack_reads == 16);
  is_torn = false;
  poll_at(1000, 5, 0, 13);
  check(torn == 1 && waited_ms(0, WAIT_SLEEP) >= 990 && account_rests(&thread));
  account_forget(&thread);
  check(torn == 1);
}

/* However often the thread's state was searched for in vain, its stack may be torn as often as any other. */
static void test_reads_without_a_state_do_not_count_as_torn(void) {
  begin_at_start();
  may_find_state = true;
  for (int64_t at = 10; at < 500; at += 10) poll_still(at, 0);
  may_find_state = false;
  torn = 0;
  thread.state = 4096;
  is_torn = true;
  poll_still(500, 12);
  check(!account_rests(&thread));
  is_torn = false;
  poll_still(510, 12);
  check(account_rests(&thread) && !torn && waited_ms(12, WAIT_SLEEP) == 510);
}

static void test_time_before_the_account_is_not_charged(void) {
  begin(300);
  poll_at(400, 10, 0, 11);
  poll_at(500, 0, 0, 11);
  check(waited_ms(11, WAIT_SLEEP) == 190);
}

static void test_time_between_two_waits_is_halved(void) {
  begin_at_start();
  poll_at(100, 0, 0, 11);
  poll_at(120, 4, 0, 12); /* 16 ms of waiting between the polls */
  check(waited_ms(11, WAIT_SLEEP) == 108 && waited_ms(12, WAIT_SLEEP) == 8);
}

/* The watcher had no CPU. Nobody knows then when one wait ended and the next began. */
static void test_late_polls_that_find_another_wait_are_counted(void) {
  begin_at_start();
  rare = 0;
  poll_at(1000, 0, 0, 11);
  poll_at(1500, 0, 0, 11);   /* late, but the same wait */
  poll_at(1700, 4, 0, 12);   /* another one, soon enough */
  poll_at(2000, 290, 0, 13); /* late, but the thread ran */
  poll_at(2010, 4, 0, 0);
  poll_at(2500, 4, 0, 11); /* it was running: all of it is charged to this wait */
  check(rare == 0);
  poll_at(2800, 4, 0, 12);
  check(rare == 1);
  poll_at(3300, 4, 0, 0);
  check(rare == 2);
}

static void test_a_poll_that_is_due_late_is_not_late(void) {
  begin_at_start();
  rare = 0;
  process.count = 128;
  for (int64_t at = 10; at <= 20000; at += 10) poll_at(at, 0, 0, 11);
  poll_at(thread.due_ns / MS + 190, 4, 0, 12);
  check(rare == 0 && thread.polled_ns - 20000 * (int64_t)MS > 300 * (int64_t)MS);
  process.count = 1;
}

/* When the wait ended is unknown: it is charged the middle of what is possible. */
static void test_a_running_thread_has_ended_its_wait(void) {
  begin_at_start();
  poll_at(100, 0, 0, 11);
  poll_at(110, 4, 0, 0);
  check(waited_ms(11, WAIT_SLEEP) == 100);
  poll_at(114, 4, 0, 12); /* 6 ms of waiting since 100, at most 4 ms of which came after 110 */
  check(waited_ms(11, WAIT_SLEEP) == 104 && waited_ms(12, WAIT_SLEEP) == 2);
}

static void poll_uncounted_at(int64_t at_ms) {
  schedule.count++;
  poll_at(at_ms, 0, 0, 0);
}

/* Of a thread that runs, the kernel has not counted the time since its last tick. */
static void test_time_that_is_not_counted_yet_is_no_wait(void) {
  begin_at_start();
  poll_at(100, 0, 0, 11);
  poll_uncounted_at(110);
  poll_at(112, 4, 0, 12);
  check(waited_ms(11, WAIT_SLEEP) == 107 && waited_ms(12, WAIT_SLEEP) == 1);
  poll_uncounted_at(122);
  poll_at(124, 4, 0, 12); /* in the same place again */
  check(waited_ms(11, WAIT_SLEEP) == 107 && waited_ms(12, WAIT_SLEEP) == 9);
}

/* The time of a thread that runs is behind by at most one of the kernel's ticks, of 4 ms here. */
static void test_the_rest_of_a_wait_is_known_better_while_the_thread_runs(void) {
  begin_at_start();
  poll_at(100, 0, 0, 11);
  poll_uncounted_at(110);
  check(thread.charged_ns == 100 * MS && thread.rest.least_ns == 6 * MS && thread.rest.most_ns == 10 * MS);
  poll_at(120, 13, 0, 0);
  for (int64_t at = 130; at <= 200; at += 10) poll_at(at, 10, 0, 0);
  check(thread.charged_ns == 100 * MS && thread.rest.least_ns == 6 * MS && thread.rest.most_ns == 7 * MS);
  poll_at(201, 1, 0, 12);
  check(thread.charged_ns == 107 * MS && waited_ms(11, WAIT_SLEEP) == 106 && waited_ms(12, WAIT_SLEEP) == 0);
}

/* Its polls are 30 ms apart, so what it has run since the last one says that it has not waited. */
static void test_time_on_the_cpu_after_the_last_poll_is_no_wait(void) {
  begin_at_start();
  poll_at(100, 0, 0, 11);
  poll_at(130, 5, 0, 0);   /* 21 to 25 ms of the wait, 5 to 9 of work */
  poll_at(160, 24, 0, 12); /* at least 20 ms of work since */
  check(waited_ms(11, WAIT_SLEEP) == 123 && waited_ms(12, WAIT_SLEEP) == 8);
}

/* A thread in a queue for a CPU looks like one that runs. */
static void test_delay_after_a_wait_is_no_part_of_it(void) {
  begin_at_start();
  poll_at(100, 0, 0, 11);
  poll_uncounted_at(110); /* it was woken at 101 */
  poll_at(120, 1, 18, 12);
  check(thread.charged_ns == 101 * MS && waited_ms(11, WAIT_SLEEP) == 100 && waited_ms(12, WAIT_SLEEP) == 0);
}

static void test_most_of_a_long_rest_is_charged_at_once(void) {
  begin_at_start();
  poll_at(10000, 0, 0, 11);
  poll_uncounted_at(12000);
  check(waited_ms(11, WAIT_SLEEP) == 11900 && thread.rest.most_ns == 100 * MS && thread.rest.least_ns == 96 * MS);
  poll_at(12010, 10, 0, 12);
  check(waited_ms(11, WAIT_SLEEP) == 11998 && waited_ms(12, WAIT_SLEEP) == 2);
}

static void end_at(int64_t at_ms, int64_t run_ms) {
  thread.entry.end_ns = at_ms * MS;
  thread.entry.cpu_end_ns = schedule.run_ns + run_ms * MS;
  account_ended(&thread);
}

static void test_the_rest_of_a_wait_is_charged_when_no_other_follows(void) {
  begin_at_start();
  poll_at(100, 0, 0, 11);
  poll_at(110, 2, 0, 0);
  account_settle(&thread);
  account_settle(&thread);
  check(waited_ms(11, WAIT_SLEEP) == 106 && thread.charged_ns == 106 * MS);
  begin_at_start();
  poll_at(100, 0, 0, 11);
  poll_at(110, 2, 0, 0);
  account_gone(&thread, 0);
  check(waited_ms(11, WAIT_SLEEP) == 106);
  begin_at_start();
  poll_at(100, 0, 0, 11);
  poll_uncounted_at(110);
  end_at(111, 4); /* it has run for at least 3 of the 10 ms */
  check(waited_ms(11, WAIT_SLEEP) == 106 && waited_ms(0, WAIT_SLEEP) == 0);
}

/* Nobody knows what an attached thread has run since its last poll. */
static void test_an_attached_threads_last_tick_is_no_wait(void) {
  struct attached attached = {.count = 1};
  process.attached = &attached;
  begin_at_start();
  poll_at(100, 0, 0, 11);
  poll_uncounted_at(110);
  end_at(111, 0);
  check(waited_ms(11, WAIT_SLEEP) == 108 && waited_ms(0, WAIT_SLEEP) == 0);
  begin_at_start();
  poll_at(100, 0, 0, 11);
  poll_uncounted_at(110);
  end_at(150, 0);
  check(waited_ms(11, WAIT_SLEEP) == 108 && waited_ms(0, WAIT_SLEEP) == 42);
  process.attached = NULL;
}

/* Between 1 - `part` and 1 + `part` times so many ms. */
static int64_t about(double ms, double part) { return (int64_t)(ms * MS * (1 - part + 2 * part * rand() / RAND_MAX)); }

/* A thread waits at 11 and at 13 in turn, and works after each, for about so many ms; its time on the CPU is counted every
 * 4 ms. Returns by how many percent the time at 11 is off, if it is polled about every `poll_ms`. */
static double error_of(double poll_ms, const double lengths_ms[4]) {
  int64_t t_ns = 0, poll_ns = about(poll_ms, 0.5), run_ns = 0, waited_ns = 0;
  begin_at_start();
  schedule = (struct schedule){0, 0, 1};
  thread.entry.cpu_start_ns = 0;
  for (int phase = 0; t_ns < 100000 * (int64_t)MS; phase = (phase + 1) % 4) {
    int64_t length_ns = about(lengths_ms[phase], 0.3), end_ns = t_ns + length_ns;
    bool waits = phase % 2 == 0;
    schedule.count += !waits;
    for (; poll_ns < end_ns; poll_ns += about(poll_ms, 0.5)) {
      int64_t tick_ns = poll_ns / (4 * (int64_t)MS) * (4 * (int64_t)MS);
      clock_ns = poll_ns;
      call_state = waits ? CALL_BLOCKED : CALL_RUNNING;
      stack = waits ? 11 + (uint64_t)phase : 0;
      schedule.run_ns = run_ns + (!waits && tick_ns > t_ns ? tick_ns - t_ns : 0);
      check(account_observe(&thread, 10 * MS));
      check(!waits || thread.charged_ns == poll_ns - run_ns);
    }
    if (phase == 0) waited_ns += length_ns;
    if (!waits) run_ns += length_ns;
    t_ns = end_ns;
  }
  int64_t found_ns = 0;
  for (unsigned i = 0; i < count; i++) found_ns += records[i].stack == 11 ? records[i].waited_ns : 0;
  return 100 * ((double)found_ns / (double)waited_ns - 1);
}

static void test_waits_with_work_between_them_have_their_time(void) {
  static const struct {
    double poll_ms, lengths_ms[4];
  } cases[] = {{1, {4, 1, 3.5, 3}},     {1, {3, 3, 3, 0.2}},      {5, {10, 6, 10, 0.5}},
               {10, {15, 12, 15, 1}},   {10, {8, 9, 8, 0.5}},     {30, {60, 30, 60, 2}},
               {45, {100, 50, 100, 2}}, {10, {100, 200, 100, 1}}, {10, {50, 3, 50, 3}}};
  srand(7);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double error = error_of(cases[i].poll_ms, cases[i].lengths_ms);
    printf("polls every %g ms: %+.2f %%\n", cases[i].poll_ms, error);
    check(error > -2 && error < 2);
  }
}

static void test_the_rest_of_a_wait_is_forgotten_with_it(void) {
  begin_at_start();
  process.refusals = 0;
  poll_at(100, 0, 0, 11);
  poll_at(110, 2, 0, 0);
  call_state = CALL_REFUSED;
  clock_ns = 120 * MS;
  check(account_observe(&thread, 10 * MS));
  account_settle(&thread);
  check(waited_ms(11, WAIT_SLEEP) == 100);
  process.refusals = 0;
}

static void test_unobserved_time_is_charged_to_the_next_wait(void) {
  begin_at_start();
  poll_at(10, 2, 0, 0);
  poll_at(20, 2, 0, 0);
  poll_at(30, 2, 0, 11);
  check(waited_ms(11, WAIT_SLEEP) == 24);
}

static void test_delay_of_a_woken_thread_is_subtracted(void) {
  begin_at_start();
  poll_at(100, 0, 0, 11);
  poll_at(140, 0, 0, 11); /* it was woken at 110, which no file shows */
  poll_at(150, 5, 35, 12);
  check(waited_ms(11, WAIT_SLEEP) == 110 && waited_ms(12, WAIT_SLEEP) == 0);
  check(waited_ms(12, WAIT_RUNNABLE) == 35);
}

static void test_classes(void) {
  begin_at_start();
  blocked_in = (struct system_call){.number = SYS_futex, .arguments = 4096 + 63};
  poll_at(10, 0, 0, 11);
  blocked_in.arguments = 4096 + 64;
  poll_at(20, 0, 0, 0);
  poll_at(30, 5, 0, 12);
  blocked_in.number = SYS_fsync;
  state = 'D';
  poll_at(40, 10, 0, 13);
  poll_at(60, 0, 0, 13);
  blocked_in.number = SYS_vfork;
  poll_at(70, 10, 0, 14);
  poll_at(90, 0, 0, 14);
  check(waited_ms(11, WAIT_GIL) >= 10 && waited_ms(12, WAIT_SLEEP) > 0);
  check(waited_ms(13, WAIT_DISK) == 20 && waited_ms(14, WAIT_SLEEP) == 20);
}

static void test_a_stopped_thread_does_not_wait(void) {
  begin_at_start();
  state = 'T';
  poll_at(100, 0, 0, 11);
  check(count == 0);
  state = 'S';
  poll_at(110, 1, 0, 12);
  check(waited_ms(12, WAIT_SLEEP) == 9);
}

static void test_a_wait_continues_in_a_new_record_when_its_chunk_is_closed(void) {
  begin_at_start();
  poll_at(100, 0, 0, 11);
  chunk++;
  poll_at(130, 0, 0, 11);
  poll_at(150, 0, 0, 11);
  check(count == 2 && records[0].end_ns == 100 * MS && records[1].t_ns == 100 * MS);
  check(waited_ms(11, WAIT_SLEEP) == 150);
}

static void test_the_end_in_the_entry_closes_the_account(void) {
  begin_at_start();
  poll_at(100, 0, 0, 11);
  thread.entry.end_ns = 130 * MS;
  thread.entry.cpu_end_ns = 1000 + 5 * MS;
  account_ended(&thread);
  check(waited_ms(11, WAIT_SLEEP) == 125);
  begin_at_start();
  poll_at(100, 100, 0, 0);
  thread.entry.end_ns = 130 * MS;
  thread.entry.cpu_end_ns = 1000 + 110 * MS;
  account_ended(&thread);
  check(waited_ms(0, WAIT_SLEEP) == 20);
}

/* ---- native stacks ---- */

/* The thread is blocked in another place from now on, or in a place where it was before. */
static void move_to(uint64_t place) {
  blocked_in.sp = 4096 - place;
  blocked_in.pc = 8192 + place;
  native = 100 + place;
}

static void begin_with_images(void) {
  begin_at_start();
  thread.entry.images = 24;
  move_to(1);
}

static void test_a_torn_wait_in_two_places_is_one_loss(void) {
  begin_with_images();
  thread.state = 4096;
  torn = 0;
  is_torn = true;
  poll_still(10, 12);
  move_to(2);
  poll_at(20, 1, 0, 12);
  poll_still(30, 12);
  check(native_reads == 1 && count == 2 && !torn);
  is_torn = false;
  account_forget(&thread);
  check(torn == 1);
}

static int64_t native_ms(uint64_t wanted) {
  int64_t sum = 0;
  for (unsigned i = 0; i < count; i++) sum += records[i].native == wanted ? records[i].waited_ns : 0;
  return sum / MS;
}

static void test_the_native_stack_is_read_once_when_the_wait_is_observed_again(void) {
  begin_with_images();
  poll_at(10, 0, 0, 11);
  check(native_reads == 0 && !account_rests(&thread));
  poll_at(20, 0, 0, 11);
  check(native_reads == 1 && account_rests(&thread));
  for (int64_t at = 30; at <= 500; at += 10) poll_at(at, 0, 0, 11);
  check(native_reads == 1 && count == 1 && records[0].native == 101 && native_ms(101) == 500);
}

/* The thread has run in between, as one that repeats a short wait. */
static void test_a_wait_that_repeats_in_one_place_counts_as_one(void) {
  begin_with_images();
  for (int64_t at = 10; at <= 500; at += 10) poll_at(at, 1, 0, 11);
  check(native_reads == 1 && count == 1 && native_ms(101) == 450);
}

/* It runs for most of the time between two polls, and some of them find it running. */
static void test_a_thread_that_runs_much_keeps_the_place_where_it_waits(void) {
  begin_with_images();
  for (int64_t at = 10; at <= 500; at += 10) poll_at(at, 8, 0, 11);
  check(native_reads == 1 && native_ms(0) == 2 + 1 && native_ms(101) == 97);
  begin_with_images();
  for (int64_t at = 10; at <= 500; at += 10) poll_at(at, 8, 0, at % 50 == 0 ? 11 : 0);
  check(native_reads == 1 && native_ms(0) == 12 && native_ms(101) == 88);
  poll_at(510, 8, 0, 12);
  poll_at(520, 8, 0, 11); /* it was elsewhere in the meantime */
  check(native_reads == 1 && native_ms(101) == 89 && native_ms(0) == 12 + 1 + 2);
}

/* Its stack is not known for good then: a library may have been loaded since. */
static void test_a_place_that_could_not_be_read_is_read_again_in_another_wait(void) {
  begin_with_images();
  unplaced = 0;
  for (int64_t at = 10; at <= 500; at += 10) {
    native = at < 40 ? 0 : 101;
    poll_at(at, 8, 0, 11);
  }
  check(native_reads == 2 && unplaced == 1 && native_ms(101) == 93);
}

static void test_waits_in_changing_places_have_no_native_stack(void) {
  begin_with_images();
  for (int64_t at = 10; at <= 500; at += 10) {
    move_to((uint64_t)at);
    poll_at(at, 1, 0, 11);
  }
  check(native_reads == 0 && count == 1 && native_ms(0) == 450);
}

static void test_each_place_has_its_own_time(void) {
  begin_with_images();
  poll_at(10, 1, 0, 11);
  move_to(2);
  poll_at(20, 1, 0, 11); /* nothing is known of either place, so both are in one wait */
  poll_at(40, 1, 0, 11); /* from here on, the place is known */
  poll_at(100, 0, 0, 11);
  move_to(3);
  poll_at(110, 2, 0, 11); /* 8 ms: half of them still in the second place */
  check(native_ms(0) == 9 + 9 + 4 && native_ms(102) == 19 + 60 + 4);
  poll_at(130, 0, 0, 11);
  check(native_ms(0) == 9 + 9 && native_ms(103) == 4 + 20 && native_ms(102) == 19 + 60 + 4);
}

static void test_the_native_stack_of_a_thread_that_runs_is_not_taken(void) {
  begin_with_images();
  poll_at(10, 0, 0, 11);
  runs_while_read = true;
  poll_at(20, 0, 0, 11);
  check(native_reads == 1 && native_ms(101) == 0);
  runs_while_read = false;
  poll_at(30, 0, 0, 11);
  check(native_reads == 2 && native_ms(101) == 30);
}

static void test_the_gil_and_unknown_images_need_no_native_stack(void) {
  begin_with_images();
  blocked_in.number = SYS_futex;
  blocked_in.arguments = 4096;
  for (int64_t at = 10; at <= 50; at += 10) poll_at(at, at == 30, 0, 11);
  check(native_reads == 0 && account_rests(&thread) && waited_ms(11, WAIT_GIL) == 49);
  begin_with_images();
  thread.entry.images = 0;
  for (int64_t at = 10; at <= 50; at += 10) poll_at(at, at == 30, 0, 11);
  check(native_reads == 0 && account_rests(&thread));
}

static void test_a_stack_that_cannot_be_read_is_tried_once(void) {
  begin_with_images();
  native = 0;
  unplaced = 0;
  for (int64_t at = 10; at <= 50; at += 10) poll_at(at, at == 30, 0, 11);
  check(native_reads == 1 && account_rests(&thread) && native_ms(0) == 49 && unplaced == 1);
}

/* The stacks of one process take 30 ms each: after the first one, the next has to wait for 0.5 s. */
static void test_native_stacks_that_take_long_are_read_later(void) {
  static const int64_t first_ms = 20, second_ms = 520;
  begin_with_images();
  native_cost_ns = 30 * MS;
  unplaced = 0;
  poll_at(10, 1, 0, 11);
  poll_at(first_ms, 0, 0, 11);
  check(native_reads == 1 && account_rests(&thread));
  move_to(2);
  poll_at(30, 1, 0, 11);
  for (int64_t at = 40; at < second_ms; at += 10) poll_at(at, at == 100, 0, 11);
  check(native_reads == 1 && !account_rests(&thread) && native_ms(0) > 400);
  poll_at(second_ms, 0, 0, 11);
  check(native_reads == 2 && account_rests(&thread));
  poll_at(600, 0, 0, 11);
  check(native_ms(102) == 573 && native_ms(101) == 23 && native_ms(0) == 0);
  check(unplaced == 0);
  move_to(3); /* it has left this place before its stack may be read */
  poll_at(610, 1, 0, 11);
  poll_at(700, 0, 0, 11);
  check(native_reads == 2 && unplaced == 0);
  move_to(4);
  poll_at(710, 1, 0, 12);
  check(unplaced == 1);
  poll_at(720, 0, 0, 12);
  thread.entry.end_ns = 730 * MS;
  thread.entry.cpu_end_ns = schedule.run_ns;
  account_ended(&thread);
  check(native_reads == 2 && unplaced == 2);
  native_cost_ns = 0;
}

static void test_random_lives_add_up(void) {
  srand(7);
  for (int turn = 0; turn < 200; turn++) {
    int64_t at = 0, run = 0, delay = 0, sum = 0;
    begin_with_images();
    for (int i = 0; i < 20; i++) {
      int64_t ran = rand() % 3 ? rand() % 6 : 0, delayed = ran ? rand() % 20 : 0;
      at += 1 + ran + delayed + rand() % 30;
      run += ran;
      delay += delayed;
      if (ran) move_to((uint64_t)(rand() % 3));
      poll_at(at, ran, delayed,
              ran                       ? 11 + (uint64_t)(rand() % 3)
              : thread.wait.facts.stack ? thread.wait.facts.stack
                                        : 11);
    }
    for (unsigned i = 0; i < count; i++) sum += records[i].wait_class == WAIT_RUNNABLE ? 0 : records[i].waited_ns;
    check(sum == (at - run - delay) * MS && thread.charged_ns == sum);
  }
}

static void test_a_kernel_that_does_not_count_is_refused(void) {
  begin_at_start();
  schedule = (struct schedule){0, 0, 0};
  process.refusals = 0;
  for (int i = 0; i < REFUSED; i++) check(account_observe(&thread, 10 * MS));
  check(process.refusals == REFUSED && count == 0);
}

static void test_a_process_given_up_during_a_poll_stays_so(void) {
  begin_at_start();
  process.refusals = 1;
  poll_at(100, 0, 0, 11);
  check(process.refusals == 0);
  is_given_up = true;
  poll_at(130, 1, 0, 12);
  is_given_up = false;
  check(process.refusals == REFUSED);
  process.refusals = 0;
}

static void test_nothing_is_recorded_of_another_program_under_the_pid(void) {
  begin_at_start();
  poll_at(100, 0, 0, 11);
  is_replaced = true;
  schedule.run_ns += MS, schedule.count++;
  clock_ns = 200 * MS, stack = 12;
  check(!account_observe(&thread, 10 * MS));
  is_replaced = false;
  check(count == 1 && waited_ms(11, WAIT_SLEEP) == 100);
}

int main(void) {
  test_one_long_wait_is_one_record();
  test_the_stack_of_a_wait_is_read_again_until_the_threads_state_is_found();
  test_the_stack_of_a_wait_is_read_when_another_thread_has_found_the_state();
  test_a_torn_stack_is_read_again_and_counted_if_it_stays_so();
  test_reads_without_a_state_do_not_count_as_torn();
  test_a_torn_wait_in_two_places_is_one_loss();
  test_a_wait_gets_the_class_with_its_stack();
  test_time_before_the_account_is_not_charged();
  test_time_between_two_waits_is_halved();
  test_late_polls_that_find_another_wait_are_counted();
  test_a_poll_that_is_due_late_is_not_late();
  test_a_running_thread_has_ended_its_wait();
  test_time_that_is_not_counted_yet_is_no_wait();
  test_the_rest_of_a_wait_is_known_better_while_the_thread_runs();
  test_time_on_the_cpu_after_the_last_poll_is_no_wait();
  test_delay_after_a_wait_is_no_part_of_it();
  test_most_of_a_long_rest_is_charged_at_once();
  test_the_rest_of_a_wait_is_charged_when_no_other_follows();
  test_an_attached_threads_last_tick_is_no_wait();
  test_waits_with_work_between_them_have_their_time();
  test_the_rest_of_a_wait_is_forgotten_with_it();
  test_unobserved_time_is_charged_to_the_next_wait();
  test_delay_of_a_woken_thread_is_subtracted();
  test_classes();
  test_a_stopped_thread_does_not_wait();
  test_a_wait_continues_in_a_new_record_when_its_chunk_is_closed();
  test_the_end_in_the_entry_closes_the_account();
  test_the_native_stack_is_read_once_when_the_wait_is_observed_again();
  test_a_wait_that_repeats_in_one_place_counts_as_one();
  test_a_thread_that_runs_much_keeps_the_place_where_it_waits();
  test_a_place_that_could_not_be_read_is_read_again_in_another_wait();
  test_waits_in_changing_places_have_no_native_stack();
  test_each_place_has_its_own_time();
  test_the_native_stack_of_a_thread_that_runs_is_not_taken();
  test_the_gil_and_unknown_images_need_no_native_stack();
  test_a_stack_that_cannot_be_read_is_tried_once();
  test_native_stacks_that_take_long_are_read_later();
  test_random_lives_add_up();
  test_a_kernel_that_does_not_count_is_refused();
  test_a_process_given_up_during_a_poll_stays_so();
  test_nothing_is_recorded_of_another_program_under_the_pid();
  return 0;
}
