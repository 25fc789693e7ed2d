/* Measures how long tasks are suspended, and where: those of asyncio, and the greenlets of gevent.
 *
 * A poll of a process observes all of its tasks of one kind, or a sample that stands for all. The time between two polls that
 * observed a task at the same place is charged to that place; between two different places, half to each. A task that
 * appeared or disappeared between two polls gets half of the time between them. So the sums are right on average,
 * however rare the polls are. */
#include "watch/tasks.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/stacks/dictionary.h"
#include "shared/stacks/pylayout.h"
#include "shared/words.h"
#include "watch/asyncio.h"
#include "watch/greenlets/greenlets.h"
#include "watch/greenlets/pools.h"
#include "watch/reading/lists.h"
#include "watch/reading/observation.h"
#include "watch/reading/remote.h"
#include "watch/stack.h"
#include "watch/threads.h"

#define LEAST_PAUSE_NS 20000000
#define MOST_PAUSE_NS 5000000000
#define COST_SHARE 400              /* polls may take 1/400 of a core */
#define GREENLETS_BURST_NS 50000000 /* those of greenlets this much at once: their names are read one by one */
#define RARE_NS 500000000           /* observations that are so far apart are counted as a loss */
#define ROWS_FREE 4096              /* this many records may be written at once, */
#define ROW_PAUSE_NS 5000000        /* and one per 5 ms in the long run */
#define MOST_OBSERVED 1024          /* of a process's tasks: if there are more, one stands for several */
#define MOST_SHIFT 20               /* one stands for 2^20 at most */
#define MOST_TABLE 4194304          /* slots of the set of tasks */
#define TORN_POLLS 3                /* successive polls whose lists were torn, until what was found of them counts */
#define FOLLOWED 32768              /* tasks that can be followed, over all processes */
#define BUCKETS 16384
#define PUBLISH_LEAST_NS 100000000 /* a record is updated after this time, and after 1/8 of the suspension's length; */
#define PUBLISH_SHARE 8
#define RENEW_LEAST_NS 500000000 /* if that needs a new record, after this time, and after 1/2 of the length */
#define RENEW_SHARE 2
#define REST_SHARE 20                         /* a resting process is handled again after 1/20 of its rest */
#define MOST_STACK ((uintptr_t)1 << 30)       /* of a thread; */
#define MOST_FIRST_STACK ((uintptr_t)1 << 27) /* of the first one: other mappings keep this distance */
#define SLOT_BYTES 16
#define SET_BYTES 48
#define SET_USED 24
#define SET_MASK 32
#define SET_TABLE 40
#define NONE UINT32_MAX

/* A task that is followed. Invariant: facts.suspended_ns is the suspended time up to seen_ns that is in its record, or
 * will be. */
struct task {
  uintptr_t address, coroutine;
  uint64_t name_check;
  struct record_task facts;
  struct record_task *record;             /* its published record; null = not published yet */
  uint64_t chunk;                         /* spool_chunk() of that record */
  int64_t seen_ns;                        /* up to when it is accounted for */
  int64_t since_ns;                       /* since when it has been suspended at this place */
  int64_t published_ns, published_end_ns; /* suspended_ns and end_ns as published */
  const struct task_polls *polls;         /* of its kind, in its process */
  uint32_t id, pass, next;
  bool suspended;
  bool alone; /* it stands only for itself */
};
static struct task tasks[FOLLOWED];
static uint32_t buckets[BUCKETS], free_list = NONE, task_end, last_id;
static bool prepared;
static int64_t rows_until_ns; /* end of the time whose allowance of records is used up */
static uintptr_t references[MOST_OBSERVED + HUBS];
static struct task_observation observations[TASKS_AT_ONCE];

static void prepare(void) {
  if (prepared) return;
  memset(buckets, 0xff, sizeof buckets);
  prepared = true;
}

/* ---- which tasks are followed ---- */

static uint32_t *bucket_of(uint32_t process, uintptr_t address) {
  return &buckets[dictionary_node_hash(process, address, 0) % BUCKETS];
}

static struct task *find_task(uint32_t process, const struct task_observation *observation) {
  for (uint32_t at = *bucket_of(process, observation->task); at != NONE; at = tasks[at].next) {
    if (tasks[at].address == observation->task && tasks[at].facts.process == process) return &tasks[at];
  }
  return NULL;
}

static struct task *new_task(uint32_t process, const struct task_polls *polls,
                             const struct task_observation *observation) {
  uint32_t at = free_list != NONE ? free_list : task_end, *bucket = bucket_of(process, observation->task);
  if (at >= FOLLOWED) return NULL;
  if (at == free_list) {
    free_list = tasks[at].next;
  } else {
    task_end++;
  }
  tasks[at] = (struct task){.address = observation->task, .polls = polls, .id = ++last_id, .next = *bucket};
  tasks[at].facts.process = process;
  *bucket = at;
  return &tasks[at];
}

static void drop_task(struct task *task) {
  uint32_t index = (uint32_t)(task - tasks), *at = bucket_of(task->facts.process, task->address);
  while (*at != NONE && *at != index) at = &tasks[*at].next;
  if (*at == index) *at = task->next;
  *task = (struct task){.next = free_list};
  free_list = index;
}

/* ---- records ---- */

static void count_row(int64_t now_ns) {
  int64_t least_ns = now_ns - (int64_t)ROWS_FREE * ROW_PAUSE_NS;
  rows_until_ns = (rows_until_ns > least_ns ? rows_until_ns : least_ns) + ROW_PAUSE_NS;
}

static void publish(struct task *task) {
  struct record_task *record = task->record, *facts = &task->facts;
  if (record && task->chunk != spool_chunk()) { /* its chunk is closed: the rest goes into a new record */
    facts->t_ns = task->published_end_ns;
    facts->suspended_ns -= task->published_ns;
    record = task->record = NULL;
  }
  if (!facts->suspended_ns) return;
  if (!record) record = spool_claim(1);
  if (!record) return;
  memcpy((char *)record + sizeof record->head, (char *)facts + sizeof record->head,
         sizeof *record - sizeof record->head);
  if (!task->record) {
    spool_publish(record, RECORD_TASK, 1);
    task->chunk = spool_chunk();
    count_row(facts->end_ns);
  }
  task->record = record;
  task->published_ns = facts->suspended_ns;
  task->published_end_ns = facts->end_ns;
}

void tasks_publish(void) {
  for (uint32_t i = 0; i < task_end; i++) {
    if (tasks[i].address && tasks[i].suspended) publish(&tasks[i]);
  }
}

/* True if the task's record should be updated, so that a killed recorder loses little. */
static bool is_due(const struct task *task, int64_t now_ns) {
  int64_t passed_ns = now_ns - task->published_end_ns, length_ns = now_ns - task->since_ns;
  if (task->record && task->chunk == spool_chunk())
    return passed_ns >= PUBLISH_LEAST_NS && passed_ns >= length_ns / PUBLISH_SHARE;
  return passed_ns >= RENEW_LEAST_NS && passed_ns >= length_ns / RENEW_SHARE && rows_until_ns < now_ns;
}

/* Adds the time from `from_ns` to `until_ns` if the task is suspended, times the number of tasks that it stands for. */
static void suspended_until(struct task *task, int64_t from_ns, int64_t until_ns) {
  if (!task->suspended || until_ns <= from_ns) return;
  task->facts.suspended_ns += (int64_t)((double)(until_ns - from_ns) * (task->alone ? 1 : task->polls->weight));
  task->facts.end_ns = until_ns;
}

static void begin(struct task *task, const struct task_observation *observation, int64_t t_ns) {
  task->suspended = observation->state == TASK_SUSPENDED;
  task->record = NULL;
  task->since_ns = task->published_end_ns = task->facts.t_ns = task->facts.end_ns = task->seen_ns = t_ns;
  task->published_ns = 0;
  task->facts.suspended_ns = 0;
  task->facts.stack = observation->stack;
  task->facts.thread = observation->thread;
}

static void close_at(struct task *task, int64_t t_ns) {
  suspended_until(task, task->seen_ns, t_ns);
  if (task->suspended) publish(task);
}

/* ---- observations ---- */

static bool is_same(const struct task *task, const struct task_observation *observation) {
  return task->suspended == (observation->state == TASK_SUSPENDED) && task->facts.stack == observation->stack;
}

static bool are_greenlets(const struct process *process, const struct task_polls *polls) {
  return polls == &process->greenlets.polls;
}

static void name_task(struct process *process, struct task *task, const struct task_observation *observation) {
  struct task_name name;
  if (are_greenlets(process, task->polls)) {
    names_of_greenlet(process, observation, &name);
  } else {
    names_read(process, observation->name_object, &name);
  }
  task->name_check = observation->name_check;
  task->facts.task = task->id;
  task->facts.name = name.prefix;
  task->facts.number = name.number;
}

/* True if another task has taken the address of this one, which is recognized by the coroutine or the name. */
static bool is_another(const struct task *task, const struct task_observation *observation) {
  if (task->coroutine != observation->coroutine) return true;
  return observation->state == TASK_SUSPENDED && task->name_check && task->name_check != observation->name_check;
}

/* True if only the name's object has changed, not the name: 3.13 replaces an automatic name's int by a str when it is
 * first asked for. */
static bool is_renamed(struct process *process, struct task *task, const struct task_observation *observation) {
  struct task_name name;
  if (task->coroutine != observation->coroutine || !names_read(process, observation->name_object, &name)) return false;
  if (name.prefix != task->facts.name || name.number != task->facts.number) return false;
  task->name_check = observation->name_check;
  return true;
}

static void forget_if_another(struct process *process, const struct task_observation *observation, int64_t now_ns) {
  struct task *task = find_task(process->id, observation);
  if (!task || !is_another(task, observation) || is_renamed(process, task, observation)) return;
  close_at(task, task->seen_ns + (now_ns - task->seen_ns) / 2);
  drop_task(task);
}

static void update_task(struct task *task, const struct task_observation *observation, int64_t now_ns) {
  if (!is_same(task, observation)) {
    int64_t middle_ns = task->seen_ns + (now_ns - task->seen_ns) / 2;
    close_at(task, middle_ns);
    begin(task, observation, middle_ns);
  }
  suspended_until(task, task->seen_ns, now_ns);
  task->seen_ns = now_ns;
  if (task->suspended && is_due(task, now_ns)) publish(task);
}

/* `before_ns`: the time from which on a new task is accounted for. */
static void observe_task(struct process *process, struct task_polls *polls, const struct task_observation *observation,
                         int64_t before_ns, int64_t now_ns) {
  forget_if_another(process, observation, now_ns);
  struct task *task = find_task(process->id, observation);
  bool moves = observation->state == TASK_MOVING; /* the next poll finds its place */
  if (!task && moves) return;
  if (!task && (task = new_task(process->id, polls, observation))) {
    task->coroutine = observation->coroutine;
    task->alone = observation->alone;
    begin(task, observation, before_ns);
  }
  polls->crowded_now += !task;
  if (!task) return;
  task->pass = polls->pass;
  if (moves) return;
  if (observation->state == TASK_SUSPENDED && !task->name_check) name_task(process, task, observation);
  update_task(task, observation, now_ns);
}

/* Closes the accounts of the process's tasks that this poll has not observed. */
static void sweep(struct process *process, const struct task_polls *polls, int64_t now_ns) {
  for (uint32_t i = 0; i < task_end; i++) {
    struct task *task = &tasks[i];
    if (!task->address || task->polls != polls || task->facts.process != process->id || task->pass == polls->pass)
      continue;
    close_at(task, task->seen_ns + (now_ns - task->seen_ns) / 2);
    drop_task(task);
  }
}

/* True if the address lies on the stack of the process's first thread, which lies above everything else. Unlike the
 * stacks of other threads, it does not end at pthread_self(). */
static bool is_on_first_stack(const struct watched *thread, uintptr_t address) {
  uintptr_t sp = thread->wait.sp;
  return address > thread->entry.pthread && (!sp || (address > sp ? address - sp : sp - address) < MOST_FIRST_STACK);
}

/* A greenlet belongs to the thread whose C stack it has used. */
static uint32_t thread_of_stack(const struct process *process, uintptr_t address) {
  uintptr_t least = MOST_STACK;
  uint32_t found = 0;
  for (const struct watched *each = process->threads; each; each = each->next) {
    uintptr_t self = each->entry.pthread;
    bool first = each->entry.tid == each->entry.pid && (!each->wait.sp || each->wait.sp > self);
    if (first && !found && is_on_first_stack(each, address)) found = each->entry.thread;
    if (first || address >= self || self - address >= least) continue;
    least = self - address;
    found = each->entry.thread;
  }
  return found;
}

static void read_greenlets(struct process *process, int from, int count) {
  greenlets_read(&process->greenlets, &process->asyncio.kinds, process->pid, references + from, observations, count);
  for (int i = 0; i < count; i++) {
    struct task_observation *each = &observations[i];
    if (each->state == TASK_GONE) continue;
    each->thread = each->stack_start ? thread_of_stack(process, each->stack_start) : 0;
    if (!each->thread && each->state == TASK_SUSPENDED) each->state = TASK_GONE;
  }
}

static void observe_block(struct process *process, struct task_polls *polls, int from, int count, int64_t before_ns) {
  int64_t now_ns = clock_now_ns(), searched_ns = polls->searched_ns + (now_ns - polls->searched_ns) / 2;
  if (are_greenlets(process, polls)) {
    read_greenlets(process, from, count);
  } else {
    awaits_read(process, references + from, observations, count, now_ns);
  }
  for (int i = 0; i < count; i++) {
    polls->unread_now += observations[i].state == TASK_UNREAD;
    if (observations[i].state == TASK_GONE || observations[i].state == TASK_UNREAD) continue;
    observe_task(process, polls, &observations[i], observations[i].fresh ? searched_ns : before_ns, now_ns);
  }
}

/* ---- which of the tasks are observed ---- */

/* True for one reference in 1 << shift. It depends only on the address, so the same tasks are chosen at each poll. */
static bool is_chosen(uintptr_t reference, uint32_t shift) {
  return (dictionary_node_hash(1, reference, 1) & ((1u << shift) - 1)) == 0;
}

static int chosen; /* number of references */

/* Keeps half of the chosen references. */
static void thin_out(struct task_polls *polls) {
  int kept = 0;
  polls->shift++;
  for (int i = 0; i < chosen; i++) {
    if (is_chosen(references[i], polls->shift)) references[kept++] = references[i];
  }
  chosen = kept;
}

static void choose(struct task_polls *polls, uintptr_t reference) {
  while (chosen == MOST_OBSERVED && polls->shift < MOST_SHIFT && is_chosen(reference, polls->shift)) thin_out(polls);
  if (chosen < MOST_OBSERVED && is_chosen(reference, polls->shift)) references[chosen++] = reference;
}

/* Chooses references of the set's table. False = it cannot be read. */
static bool choose_of_set(struct task_polls *polls, uintptr_t table, uint64_t slots) {
  static char block[1024 * SLOT_BYTES];
  for (uint64_t at = 0; at < slots; at += 1024) {
    uint64_t count = slots - at < 1024 ? slots - at : 1024;
    if (!safe_read(block, (void *)(table + at * SLOT_BYTES), count * SLOT_BYTES)) return false;
    for (uint64_t i = 0; i < count; i++) {
      uintptr_t reference = word_at(block, (int)(i * SLOT_BYTES));
      if (reference >= 65536 && !(reference & 7)) choose(polls, reference);
    }
  }
  return true;
}

/* Chooses tasks of one list. False = the walk is broken. */
static bool choose_of_list(struct process *process, uintptr_t head) {
  static struct list_walk walk;
  list_begin(&walk, head);
  for (uintptr_t node; (node = list_next(&walk));) {
    uintptr_t task = asyncio_task_of(process, node);
    process->asyncio.listed++;
    process->asyncio.polls.unread_now += !task;
    if (task) choose(&process->asyncio.polls, task);
  }
  return !walk.broken;
}

/* Chooses tasks of the lists of 3.14. False = one of them was torn, so that tasks may be missing. If that does not pass,
 * they are missing indeed: then the others count, with a loss. */
static bool choose_of_lists(struct process *process) {
  static uintptr_t heads[TASK_LISTS];
  struct asyncio *asyncio = &process->asyncio;
  uint32_t broken = 0;
  int count = asyncio_lists(process, process->threads->entry.runtime, heads);
  asyncio->listed = 0;
  for (int i = 0; i < count; i++) broken += !choose_of_list(process, heads[i]);
  asyncio->broken = broken ? asyncio->broken + 1 : 0;
  if (asyncio->broken >= TORN_POLLS) asyncio->polls.unread_now += broken;
  return !broken || asyncio->broken >= TORN_POLLS;
}

enum choice { CHOSEN, NO_SET, TORN };

/* Sets the number of tasks that each chosen one stands for; `used`: the number of all. */
static void weigh(struct task_polls *polls, uint64_t used) {
  if (polls->shift && !polls->sampled) loss_add(LOSS_tasks_sampled);
  polls->sampled = polls->sampled || polls->shift;
  polls->weight = polls->shift && chosen > 0 ? (double)used / chosen : 1;
}

/* Chooses the tasks of asyncio to observe. NO_SET = the object cannot be read or is not a set any more. */
static enum choice choose_tasks(struct process *process) {
  struct asyncio *asyncio = &process->asyncio;
  struct task_polls *polls = &asyncio->polls;
  char set[SET_BYTES];
  if (!safe_read(set, (void *)asyncio->tasks, sizeof set)) return NO_SET;
  uint64_t used = word_at(set, SET_USED), slots = word_at(set, SET_MASK) + 1;
  if (remote_kind(&asyncio->kinds, word_at(set, OBJECT_TYPE)) != KIND_SET || slots > MOST_TABLE) return NO_SET;
  if (used > slots) used = slots; /* only in a set that lies: its number of tasks is a factor of times */
  if (polls->shift && (used + asyncio->listed) >> polls->shift < MOST_OBSERVED / 4) polls->shift--;
  if (!choose_of_set(polls, word_at(set, SET_TABLE), slots)) return NO_SET;
  if (target.layout->tstate_tasks >= 0 && !choose_of_lists(process)) return TORN;
  weigh(polls, used + asyncio->listed);
  return CHOSEN;
}

/* Chooses the greenlets to observe. TORN = not all memory was searched in this poll, because that was not due yet. */
static enum choice choose_greenlets(struct process *process, int64_t now_ns) {
  struct greenlets *greenlets = &process->greenlets;
  struct task_polls *polls = &greenlets->polls;
  uintptr_t found[POOL_BLOCKS];
  uint64_t used = 0;
  greenlets_refresh_hubs(greenlets);
  bool searched = pools_search(greenlets, &process->asyncio.kinds, process->threads->entry.arenas, now_ns);
  if (polls->shift && greenlets->used >> polls->shift < MOST_OBSERVED / 4) polls->shift--;
  for (int i = greenlets->pool_count - 1; i >= 0; i--) {
    int count = pools_greenlets(greenlets, i, found);
    used += (uint64_t)count;
    for (int at = 0; at < count; at++) choose(polls, found[at]);
  }
  weigh(polls, used);
  for (int i = 0; i < greenlets->hub_count; i++) {
    if (greenlets->hubs[i].has_run && greenlets->hubs[i].main) references[chosen++] = greenlets->hubs[i].main;
  }
  greenlets->used = used;
  return searched ? CHOSEN : TORN;
}

/* ---- a poll of a process ---- */

/* Returns the pause before the next poll that keeps CPU time and records within their budgets. */
static int64_t next_pause(struct task_polls *polls, int64_t now_ns, int64_t cost_ns) {
  int64_t least_ns = now_ns - polls->burst_ns * COST_SHARE;
  polls->paid_until_ns = (polls->paid_until_ns > least_ns ? polls->paid_until_ns : least_ns) + cost_ns * COST_SHARE;
  int64_t pause_ns = polls->paid_until_ns - now_ns;
  if (rows_until_ns - now_ns > pause_ns) pause_ns = rows_until_ns - now_ns;
  if (pause_ns > MOST_PAUSE_NS) pause_ns = MOST_PAUSE_NS;
  if (pause_ns >= RARE_NS && polls->observed && !polls->rare) loss_add(LOSS_tasks_rare);
  polls->rare = polls->rare || (pause_ns >= RARE_NS && polls->observed);
  return pause_ns > LEAST_PAUSE_NS ? pause_ns : LEAST_PAUSE_NS;
}

/* Raises the count of the loss to the largest number in one poll. */
static void count_most(uint32_t *most, uint32_t now, enum loss loss) {
  for (; *most < now; (*most)++) loss_add(loss);
}

static void rest_all(struct process *process, struct task_polls *polls, int64_t now_ns) {
  for (uint32_t i = 0; i < task_end; i++) {
    struct task *task = &tasks[i];
    if (!task->address || task->polls != polls || task->facts.process != process->id || task->seen_ns >= now_ns)
      continue;
    suspended_until(task, task->seen_ns, now_ns);
    task->seen_ns = now_ns;
    if (task->suspended && is_due(task, now_ns)) publish(task);
  }
  polls->polled_ns = polls->searched_ns = now_ns;
}

/* Observes the chosen tasks, and closes the accounts of the others. */
static void observe_chosen(struct process *process, struct task_polls *polls, int64_t now_ns) {
  int64_t before_ns = polls->polled_ns ? polls->polled_ns + (now_ns - polls->polled_ns) / 2 : now_ns;
  polls->pass++;
  for (int at = 0; at < chosen; at += TASKS_AT_ONCE)
    observe_block(process, polls, at, chosen - at < TASKS_AT_ONCE ? chosen - at : TASKS_AT_ONCE, before_ns);
  if (chosen || polls->observed) sweep(process, polls, now_ns);
  polls->observed = chosen > 0;
  polls->polled_ns = now_ns;
}

/* Polls the tasks of asyncio. False = some could not be found at the moment: the next poll accounts for the time up to
 * now. */
static bool poll_asyncio(struct process *process, int64_t now_ns) {
  struct asyncio *asyncio = &process->asyncio;
  struct task_polls *polls = &asyncio->polls;
  enum choice choice = choose_tasks(process);
  if (choice == TORN) return false;
  if (choice == NO_SET) asyncio->tasks = asyncio->module = 0, chosen = 0;
  observe_chosen(process, polls, now_ns);
  count_most(&polls->unread, polls->unread_now, LOSS_tasks_unread);
  return true;
}

/* Polls the greenlets. False = there may be some that no poll has found yet. */
static bool poll_greenlets(struct process *process, int64_t now_ns) {
  struct task_polls *polls = &process->greenlets.polls;
  enum choice choice = choose_greenlets(process, now_ns);
  int hubs = process->greenlets.hub_count;
  observe_chosen(process, polls, now_ns);
  if (choice == CHOSEN) polls->searched_ns = now_ns;
  count_most(&polls->unread, polls->unread_now, LOSS_greenlets_unread);
  return choice == CHOSEN && process->greenlets.hub_count == hubs;
}

static bool poll_tasks(struct process *process, struct task_polls *polls, int64_t now_ns) {
  if (!polls->behind && process->quiet_ns > polls->polled_ns) rest_all(process, polls, process->quiet_ns);
  polls->unread_now = polls->crowded_now = 0;
  chosen = 0;
  bool done = are_greenlets(process, polls) ? poll_greenlets(process, now_ns) : poll_asyncio(process, now_ns);
  count_most(&polls->crowded, polls->crowded_now, LOSS_tasks_crowded);
  return done;
}

static bool may_poll(struct process *process) {
  return process->threads && process->refusals < REFUSED && stack_aim(process->threads) &&
         !target.layout->object_header;
}

static bool find(struct process *process, struct task_polls *polls, int64_t now_ns) {
  uintptr_t runtime = process->threads->entry.runtime;
  stack_search_labels(process->threads, now_ns);
  if (!are_greenlets(process, polls)) return asyncio_find(process, runtime, now_ns);
  return greenlets_find(&process->greenlets, &process->asyncio.kinds, asyncio_modules(process, runtime), now_ns);
}

static void rest(struct process *process, struct task_polls *polls, int64_t now_ns) {
  rest_all(process, polls, now_ns);
  polls->due_ns = now_ns + LEAST_PAUSE_NS + (now_ns - process->idle_ns) / REST_SHARE;
}

/* If the process has run since the last poll, it must be polled once even if it rests now; after that, the tasks'
 * suspensions are only extended. */
static void poll_kind(struct process *process, struct task_polls *polls, int64_t now_ns, bool still, bool all) {
  bool is_due = all || now_ns >= polls->due_ns;
  if (is_due && still && !polls->behind) {
    rest(process, polls, now_ns);
  } else if (!is_due || !may_poll(process)) {
    polls->behind = polls->behind || !still;
  } else if (find(process, polls, now_ns)) {
    prepare();
    int64_t started_ns = clock_thread_cpu_ns();
    polls->apart_ns = 0;
    polls->burst_ns = are_greenlets(process, polls) ? GREENLETS_BURST_NS : 0;
    polls->behind = !poll_tasks(process, polls, now_ns);
    polls->due_ns = now_ns + next_pause(polls, now_ns, clock_thread_cpu_ns() - started_ns - polls->apart_ns);
  } else {
    polls->behind = true;
  }
}

void tasks_poll(struct process *process, int64_t now_ns, bool still, bool all) {
  poll_kind(process, &process->asyncio.polls, now_ns, still, all);
  poll_kind(process, &process->greenlets.polls, now_ns, still, all);
}

/* The tasks get half of the time since the last poll, or all of it up to quiet_ns if the process has not run. */
static void end_kind(struct process *process, struct task_polls *polls, int64_t now_ns) {
  if (!polls->observed) return;
  if (!polls->behind && process->quiet_ns > polls->polled_ns) rest_all(process, polls, process->quiet_ns);
  polls->pass++;
  sweep(process, polls, now_ns);
  polls->observed = false;
}

void tasks_end(struct process *process, int64_t now_ns) {
  end_kind(process, &process->asyncio.polls, now_ns);
  end_kind(process, &process->greenlets.polls, now_ns);
}
