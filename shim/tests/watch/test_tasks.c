/* Tests tasks.c with a simulated program: given the results of polls, how is the time divided among tasks and
 * places? */
#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/stacks/dictionary.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/target.h"
#include "tests/check.h"
#include "watch/asyncio.h"
#include "watch/greenlets/greenlets.h"
#include "watch/greenlets/pools.h"
#include "watch/reading/lists.h"
#include "watch/reading/remote.h"
#include "watch/stack.h"
#include "watch/tasks.h"
#include "watch/threads.h"

#define MS 1000000

/* ---- stand-ins: the program's memory, its tasks, and a spool of one chunk ---- */

static struct python_layout layout = {.interp_modules = 8, .tstate_tasks = -1};
struct stack_target target = {.layout = &layout};
#define MOST 4000
#define SET_ADDRESS 65536
#define TABLE_ADDRESS 131072
static struct task_observation now_there[MOST]; /* what a poll finds at reference 8 * (65536 + index) */
static int tasks_there;
static int64_t clock_ns, cpu_ns, cost_ns;
static bool is_no_set, is_broken, has_greenlets, is_search_due;
static int in_lists;
static uint64_t chunk = 1; /* number of the current chunk */
static struct record_task records[32768];
static unsigned count, losses[LOSS_COUNT];

static uintptr_t reference_of(int index) { return 8 * (65536 + (uintptr_t)index); }

static int in_set(void) { return layout.tstate_tasks < 0 ? tasks_there : in_lists; }

bool stack_aim(struct watched *thread) { return thread != NULL; }
void stack_search_labels(struct watched *thread, int64_t now_ns) { (void)thread, (void)now_ns; }
bool asyncio_find(struct process *process, uintptr_t runtime, int64_t now_ns) {
  (void)runtime, (void)now_ns;
  process->asyncio.tasks = SET_ADDRESS;
  return !has_greenlets;
}
bool safe_read(void *to, const void *from, size_t size) {
  uint64_t *words = to;
  memset(to, 0, size);
  if ((uintptr_t)from == SET_ADDRESS) {
    words[1] = 1, words[3] = (uint64_t)in_set(), words[4] = 4095, words[5] = TABLE_ADDRESS;
    return true;
  }
  for (size_t i = 0; i < size / 16; i++) {
    int slot = (int)(((uintptr_t)from - TABLE_ADDRESS) / 16 + i);
    words[2 * i] = slot < in_set() ? reference_of(slot) : 0;
  }
  return true;
}
uintptr_t remote_at(const char *bytes, int offset) {
  uintptr_t value;
  memcpy(&value, bytes + offset, sizeof value);
  return value;
}
enum kind remote_kind(struct kinds *kinds, uintptr_t type) {
  (void)kinds;
  return type && !is_no_set ? KIND_SET : KIND_OTHER;
}
void awaits_read(struct process *process, const uintptr_t *references, struct task_observation *observations, int many,
                 int64_t now_ns) {
  (void)process, (void)now_ns;
  for (int i = 0; i < many; i++) observations[i] = now_there[references[i] / 8 - 65536];
}
bool names_read(struct process *process, uintptr_t object, struct task_name *out) {
  (void)process;
  *out = (struct task_name){object, (int64_t)object + 1};
  return true;
}
/* Greenlets have the references of tasks, and lie in one pool. */
uintptr_t asyncio_modules(struct process *process, uintptr_t runtime) {
  (void)process;
  return runtime;
}
bool greenlets_find(struct greenlets *greenlets, struct kinds *kinds, uintptr_t modules, int64_t now_ns) {
  (void)greenlets, (void)kinds, (void)modules, (void)now_ns;
  return has_greenlets;
}
void greenlets_refresh_hubs(struct greenlets *greenlets) { (void)greenlets; }
bool pools_search(struct greenlets *greenlets, struct kinds *kinds, uintptr_t arenas, int64_t now_ns) {
  (void)kinds, (void)arenas, (void)now_ns;
  greenlets->pool_count = 1;
  return is_search_due;
}
int pools_greenlets(struct greenlets *greenlets, int index, uintptr_t *out) {
  (void)greenlets, (void)index;
  for (int i = 0; i < tasks_there; i++) out[i] = reference_of(i);
  return tasks_there;
}
void greenlets_read(struct greenlets *greenlets, struct kinds *kinds, pid_t pid, const uintptr_t *states,
                    struct task_observation *out, int many) {
  (void)greenlets, (void)kinds, (void)pid;
  for (int i = 0; i < many; i++) out[i] = now_there[states[i] / 8 - 65536];
}
void names_of_greenlet(struct process *process, const struct task_observation *greenlet, struct task_name *out) {
  (void)process;
  *out = (struct task_name){greenlet->name_object, -1};
}
/* The lists of 3.14: the tasks from `in_lists` on are in two lists, whose heads are 8 and 16. */
int asyncio_lists(struct process *process, uintptr_t runtime, uintptr_t *heads) {
  (void)process, (void)runtime;
  heads[0] = 8, heads[1] = 16;
  return 2;
}
void list_begin(struct list_walk *walk, uintptr_t head) { *walk = (struct list_walk){.head = head}; }
uintptr_t list_next(struct list_walk *walk) {
  for (int index = in_lists + (int)walk->count; index < tasks_there; index = in_lists + (int)walk->count) {
    walk->count++;
    if (index % 2 == (walk->head == 16)) return reference_of(index) + 4;
  }
  walk->broken = is_broken;
  return 0;
}
uintptr_t asyncio_task_of(struct process *process, uintptr_t node) {
  (void)process;
  return node - 4;
}
uint64_t dictionary_node_hash(uint64_t parent, uint64_t code, int32_t instruction) {
  uint64_t hash = (parent ^ code * 0x9e3779b97f4a7c15u ^ (uint64_t)instruction) * 0xff51afd7ed558ccdu;
  return hash ^ hash >> 33;
}
int64_t clock_now_ns(void) { return clock_ns; }
int64_t clock_thread_cpu_ns(void) { return cpu_ns += cost_ns; }
void loss_add(enum loss loss) { losses[loss]++; }
void *spool_claim(unsigned slots) { return slots == 1 && count < 32768 ? &records[count++] : NULL; }
void spool_publish(void *record, unsigned kind, unsigned slots) {
  ((struct record_task *)record)->head = kind | slots << 16;
}
uint64_t spool_chunk(void) { return chunk; }

/* ---- a process with tasks ---- */

static struct watched thread;
static struct process process;
static uint32_t next_process = 1;

static void begin(int tasks) {
  if (process.id) tasks_end(&process, clock_ns);
  process = (struct process){.id = next_process++, .threads = &thread};
  process.idle_ns = process.quiet_ns = clock_ns;
  memset(now_there, 0, sizeof now_there);
  memset(losses, 0, sizeof losses);
  tasks_there = tasks;
  count = 0;
  is_no_set = false;
  cost_ns = 1000;
}

/* The task is suspended at `stack`, or runs (0). */
static void put(int index, uint64_t stack) {
  now_there[index] =
      (struct task_observation){.task = 8 * (uintptr_t)(index + 1000), .coroutine = 8, .thread = 3, .stack = stack};
  now_there[index].state = stack ? TASK_SUSPENDED : TASK_RUNNING;
  now_there[index].name_object = now_there[index].name_check = (uint64_t)index + 1;
}

/* The same, of a greenlet. `start`: an address on the stack of its thread. */
static void put_greenlet(int index, uint64_t stack, uintptr_t start) {
  put(index, stack);
  now_there[index].stack_start = start;
}

static void poll_at(int64_t at_ms) {
  clock_ns = at_ms * MS;
  tasks_poll(&process, clock_ns, false, true);
}

static void rest_at(int64_t at_ms) {
  clock_ns = process.quiet_ns = at_ms * MS;
  tasks_poll(&process, clock_ns, true, false);
}

static int64_t suspended_ms(uint64_t stack) {
  int64_t sum = 0;
  for (unsigned i = 0; i < count; i++) {
    check(records[i].t_ns <= records[i].end_ns && records[i].suspended_ns >= 0);
    if (records[i].stack == stack) sum += records[i].suspended_ns;
  }
  return sum / MS;
}

static int64_t start_ms; /* of the running test */

static void start(int tasks) {
  clock_ns += 1000 * (int64_t)MS;
  start_ms = clock_ns / MS;
  begin(tasks);
  for (int i = 0; i < tasks; i++) put(i, 11);
}

static void end_at(int64_t at_ms) {
  clock_ns = (start_ms + at_ms) * MS;
  tasks_end(&process, clock_ns);
}

static void test_one_long_suspension_is_one_record(void) {
  start(1);
  for (int64_t at = 0; at <= 500; at += 20) poll_at(start_ms + at);
  end_at(500);
  check(count == 1 && suspended_ms(11) == 500 && records[0].head == (RECORD_TASK | 1 << 16));
  check(records[0].t_ns == start_ms * MS && records[0].thread == 3 && records[0].name == 1 && records[0].number == 2);
}

static void test_time_between_two_places_is_halved(void) {
  start(1);
  poll_at(start_ms), poll_at(start_ms + 100);
  put(0, 12);
  poll_at(start_ms + 140), poll_at(start_ms + 200);
  end_at(200);
  check(suspended_ms(11) == 120 && suspended_ms(12) == 80);
}

static void test_a_task_that_runs_is_not_suspended(void) {
  start(1);
  poll_at(start_ms), poll_at(start_ms + 100);
  put(0, 0);
  poll_at(start_ms + 120), poll_at(start_ms + 200);
  put(0, 11);
  poll_at(start_ms + 220), poll_at(start_ms + 300);
  end_at(300);
  check(suspended_ms(11) == 110 + 90);
}

static void test_a_task_between_polls_gets_half_of_the_time(void) {
  start(1);
  tasks_there = 0;
  poll_at(start_ms);
  tasks_there = 1;
  poll_at(start_ms + 40);
  tasks_there = 0;
  poll_at(start_ms + 80);
  check(suspended_ms(11) == 40);
}

static void test_a_moving_task_is_left_to_the_next_poll(void) {
  start(1);
  poll_at(start_ms), poll_at(start_ms + 100);
  now_there[0].state = TASK_MOVING;
  poll_at(start_ms + 120);
  put(0, 12);
  poll_at(start_ms + 140);
  end_at(140);
  check(suspended_ms(11) == 120 && suspended_ms(12) == 20);
}

static void test_a_new_task_at_the_same_address_is_recognized(void) {
  start(1);
  poll_at(start_ms), poll_at(start_ms + 100);
  now_there[0].name_check = now_there[0].name_object = 77;
  poll_at(start_ms + 120);
  end_at(120);
  check(count == 2 && records[0].name == 1 && records[1].name == 77 && records[0].task != records[1].task);
  check(suspended_ms(11) == 120);
}

/* A resting process is not polled: its tasks stay where the last poll after it ran has found them. */
static void test_tasks_of_a_resting_process_stay_suspended(void) {
  start(1);
  poll_at(start_ms);
  rest_at(start_ms + 400), rest_at(start_ms + 900);
  put(0, 12);
  poll_at(start_ms + 940);
  end_at(940);
  check(suspended_ms(11) == 920 && suspended_ms(12) == 20);
}

/* The process ran after the last poll and has rested since then, so it must be polled once. */
static void test_a_process_that_ran_before_it_rests_is_polled_first(void) {
  start(1);
  poll_at(start_ms);
  clock_ns = (start_ms + 10) * MS;
  tasks_poll(&process, clock_ns, false, false); /* not due yet */
  put(0, 12);
  rest_at(start_ms + 40), rest_at(start_ms + 500);
  end_at(500);
  check(suspended_ms(11) == 20 && suspended_ms(12) == 480);
}

static void test_a_long_suspension_continues_in_a_new_record(void) {
  start(1);
  for (int64_t at = 0; at <= 4000; at += 20) {
    poll_at(start_ms + at);
    chunk++;
  }
  end_at(4000);
  check(count > 1 && count < 12 && suspended_ms(11) == 4000);
  for (unsigned i = 1; i < count; i++) check(records[i].t_ns == records[i - 1].end_ns);
}

static void test_of_very_many_tasks_some_stand_for_all(void) {
  start(MOST);
  poll_at(start_ms), poll_at(start_ms + 1000);
  end_at(1000);
  check(count < 1100 && count > 700 && losses[LOSS_tasks_sampled] == 1);
  check(suspended_ms(11) > 999 * MOST && suspended_ms(11) < 1001 * MOST);
}

static void test_a_lost_set_is_searched_for_again(void) {
  start(1);
  poll_at(start_ms), poll_at(start_ms + 100);
  is_no_set = true;
  poll_at(start_ms + 200);
  check(process.asyncio.tasks == 0 && suspended_ms(11) == 150);
}

/* ---- the lists of 3.14 ---- */

static void start_lists(int tasks, int of_set) {
  layout.tstate_tasks = 880;
  in_lists = of_set;
  is_broken = false;
  start(tasks);
}

static void stop_lists(void) { layout.tstate_tasks = -1; }

static void test_tasks_of_the_set_and_of_all_lists_count(void) {
  start_lists(10, 3);
  poll_at(start_ms), poll_at(start_ms + 100);
  end_at(100);
  check(count == 10 && suspended_ms(11) == 1000 && !losses[LOSS_tasks_unread]);
  stop_lists();
}

static void test_of_very_many_in_lists_some_stand_for_all(void) {
  start_lists(MOST, 100);
  poll_at(start_ms), poll_at(start_ms + 1000);
  end_at(1000);
  check(count < 1100 && count > 700 && losses[LOSS_tasks_sampled] == 1);
  check(suspended_ms(11) > 999 * MOST && suspended_ms(11) < 1001 * MOST);
  stop_lists();
}

/* Tasks behind the place where a list was torn have not ended: the next poll accounts for the time. */
static void test_a_torn_list_is_left_to_the_next_poll(void) {
  start_lists(4, 0);
  poll_at(start_ms), poll_at(start_ms + 100);
  is_broken = true;
  tasks_there = 1;
  poll_at(start_ms + 120), poll_at(start_ms + 140);
  check(process.asyncio.polls.behind);
  is_broken = false;
  tasks_there = 4;
  poll_at(start_ms + 200);
  end_at(200);
  check(count == 4 && suspended_ms(11) == 800 && !losses[LOSS_tasks_unread] && !process.asyncio.polls.behind);
  stop_lists();
}

static void test_a_list_that_stays_torn_is_a_loss(void) {
  start_lists(4, 0);
  is_broken = true;
  for (int64_t at = 0; at <= 400; at += 20) poll_at(start_ms + at);
  end_at(400);
  check(losses[LOSS_tasks_unread] == 2 && suspended_ms(11) > 4 * 300);
  stop_lists();
}

/* ---- losses and budgets ---- */

static void test_the_loss_is_the_largest_number_in_one_poll(void) {
  start(3);
  now_there[0].state = now_there[1].state = TASK_UNREAD;
  for (int64_t at = 0; at <= 100; at += 20) poll_at(start_ms + at);
  end_at(100);
  check(losses[LOSS_tasks_unread] == 2 && suspended_ms(11) == 100);
}

/* Polls may take 1/400 of a core: after a poll of 10 ms, the next one is due in 4 s. */
static void test_costly_polls_are_rare(void) {
  start(1);
  poll_at(start_ms);
  check(process.asyncio.polls.due_ns == clock_ns + 20 * MS && !losses[LOSS_tasks_rare]);
  cost_ns = 10 * MS;
  poll_at(start_ms + 100);
  check(process.asyncio.polls.due_ns == clock_ns + 4000 * (int64_t)MS && losses[LOSS_tasks_rare] == 1);
  poll_at(start_ms + 5000);
  check(losses[LOSS_tasks_rare] == 1);
}

static void test_rows_keep_within_their_budget(void) {
  start(900);
  unsigned polls = 0;
  for (int64_t at = 0; at < 60000; at += 20) {
    for (int i = 0; i < 900; i++) put(i, 11 + (uint64_t)(at / 20 % 2));
    clock_ns = (start_ms + at) * MS;
    uint32_t before = process.asyncio.polls.pass;
    tasks_poll(&process, clock_ns, false, false);
    polls += process.asyncio.polls.pass != before;
  }
  end_at(60000);
  check(count < 4096 + 60 * 200 + 2 * 900 && polls > 10);
  int64_t sum_ms = suspended_ms(11) + suspended_ms(12); /* half of the time since the last poll is not charged */
  check(sum_ms <= 900 * 60000LL && sum_ms >= 900 * 57500LL);
}

/* A greenlet that a search of everything has found may have been there since the last one. */
static void test_a_greenlet_that_was_searched_for_counts_from_the_last_search(void) {
  static struct watched owner = {.entry = {.thread = 5, .pid = 1, .tid = 2, .pthread = 90000}};
  start(0);
  process.threads = &owner;
  has_greenlets = is_search_due = true;
  poll_at(start_ms);
  is_search_due = false;
  poll_at(start_ms + 100);
  check(process.greenlets.polls.behind);
  tasks_there = 2, is_search_due = true;
  put_greenlet(0, 11, 80000), put_greenlet(1, 12, 80000);
  now_there[0].fresh = true;
  poll_at(start_ms + 200);
  check(!process.greenlets.polls.behind);
  end_at(200);
  check(count == 2 && suspended_ms(11) == 100 && suspended_ms(12) == 50);
  check(records[0].thread == 5 && records[0].number == -1);
  has_greenlets = false;
}

/* A greenlet belongs to the thread whose stack it has used. */
static void test_greenlets_belong_to_threads(void) {
  static struct watched first = {.entry = {.thread = 1, .pid = 1, .tid = 1, .pthread = 70000}};
  static struct watched others[2] = {{.entry = {.thread = 2, .pid = 1, .tid = 2, .pthread = 40000}},
                                     {.entry = {.thread = 3, .pid = 1, .tid = 3, .pthread = 60000}}};
  static const struct {
    uintptr_t start;
    uint32_t thread;
  } cases[] = {{39000, 2}, {41000, 3}, {60000, 0}, {100000, 1}, {(uintptr_t)1 << 40, 0}};
  others[0].next = &others[1], others[1].next = &first;
  first.wait.sp = 99000;
  has_greenlets = is_search_due = true;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    start(1);
    put_greenlet(0, 11, cases[i].start);
    process.threads = &others[0];
    poll_at(start_ms), poll_at(start_ms + 100);
    end_at(100);
    check(count == (cases[i].thread != 0) && (!count || records[0].thread == cases[i].thread));
  }
  has_greenlets = false;
}

/* One greenlet stands for several, but the main program of a thread only for itself. */
static void test_a_main_program_stands_for_itself(void) {
  static struct watched owner = {.entry = {.thread = 5, .pid = 1, .tid = 2, .pthread = 90000}};
  start(0);
  process.threads = &owner;
  tasks_there = POOL_BLOCKS;
  for (int i = 0; i < POOL_BLOCKS; i++) put_greenlet(i, 11, 80000);
  put_greenlet(POOL_BLOCKS, 12, 80000);
  now_there[POOL_BLOCKS].alone = true;
  process.greenlets.hubs[0] = (struct hub){.main = reference_of(POOL_BLOCKS), .has_run = true};
  process.greenlets.hub_count = 1;
  process.greenlets.polls.shift = 2;
  has_greenlets = is_search_due = true;
  for (int at = 0; at <= 100; at += 100) {
    process.greenlets.used = 1024 << 2; /* the sample stays as small as it is */
    poll_at(start_ms + at);
  }
  end_at(100);
  check(suspended_ms(12) == 100);
  check(suspended_ms(11) >= POOL_BLOCKS * 100 - 10 && suspended_ms(11) <= POOL_BLOCKS * 100);
  has_greenlets = false;
}

/* The first polls of greenlets may cost more than what they get in the long run. */
static void test_polls_of_greenlets_may_be_costly_at_first(void) {
  static struct watched owner = {.entry = {.thread = 5, .pid = 1, .tid = 2, .pthread = 90000}};
  start(0);
  process.threads = &owner;
  has_greenlets = is_search_due = true;
  cost_ns = 10 * MS;
  int64_t at = 0, pauses[8];
  for (int i = 0; i < 8; i++, at += pauses[i - 1]) {
    poll_at(start_ms + at);
    pauses[i] = (process.greenlets.polls.due_ns - clock_ns) / MS;
  }
  check(pauses[0] == 20 && pauses[3] == 20 && pauses[7] > 3900 && pauses[7] <= 4000);
  has_greenlets = false;
}

int main(void) {
  test_one_long_suspension_is_one_record();
  test_time_between_two_places_is_halved();
  test_a_task_that_runs_is_not_suspended();
  test_a_task_between_polls_gets_half_of_the_time();
  test_a_moving_task_is_left_to_the_next_poll();
  test_a_new_task_at_the_same_address_is_recognized();
  test_tasks_of_a_resting_process_stay_suspended();
  test_a_process_that_ran_before_it_rests_is_polled_first();
  test_a_long_suspension_continues_in_a_new_record();
  test_of_very_many_tasks_some_stand_for_all();
  test_a_lost_set_is_searched_for_again();
  test_tasks_of_the_set_and_of_all_lists_count();
  test_of_very_many_in_lists_some_stand_for_all();
  test_a_torn_list_is_left_to_the_next_poll();
  test_a_list_that_stays_torn_is_a_loss();
  test_the_loss_is_the_largest_number_in_one_poll();
  test_costly_polls_are_rare();
  test_rows_keep_within_their_budget();
  test_a_greenlet_that_was_searched_for_counts_from_the_last_search();
  test_greenlets_belong_to_threads();
  test_a_main_program_stands_for_itself();
  test_polls_of_greenlets_may_be_costly_at_first();
  return 0;
}
