/* Divides the waiting time of a thread among its waits.
 *
 * From schedstat it follows exactly how long a thread was neither on the CPU nor runnable. Polls only divide that time
 * among the stacks and classes that they observe. The time between two polls that observed the same wait is charged to
 * that wait; between two different waits, half to each. If the thread was observed running after a wait, the rest of that
 * wait is the middle of what is possible. Time that no poll has observed is owed, and is charged to the next wait that is
 * observed. So the sum is exact, and short waits get their share because they are observed in proportion to their
 * length; beside much longer ones, they get less (docs/design/waits.md). */
#include "watch/threads.h"

#include <sys/syscall.h>
#include <time.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "watch/native/images.h"
#include "watch/native/waiting.h"
#include "watch/reading/proc.h"
#include "watch/stack.h"

#define LEAST_WAIT_NS 100000      /* a wait is published when it is known to be at least this long */
#define DELAY_PORTION_NS 20000000 /* delays are charged to a stack in portions of at least this, */
#define DELAY_SHARE 50            /* and of at least 1/50 of the thread's delays so far */
#define LEAST_LEFT_NS 1000000     /* a smaller rest at the end of a thread is discarded */
#define GAP_NS 100000000          /* delays on one stack that are further apart are separate waits */
#define LITTLE 4                  /* two polls see one wait if at most 1/4 of the time between them was CPU time */
#define BACK_OFF 40               /* a wait is polled again after 1/40 of its length, so its end is that exact, */
#define CROWD 128                 /* and earlier if the process has fewer threads than this */
#define NATIVE_BURST_NS 20000000  /* CPU time that reading the native stacks of one process may take at once, */
#define NATIVE_SHARE 50           /* and 1/50 of a core in the long run */
#define RARE_NS 200000000         /* a poll that comes so late, and finds another wait, is counted as a loss */
#define LEAST_TICK_NS 1000000     /* time between two of the kernel's ticks, */
#define LONGEST_TICK_NS 10000000  /* if it does not say how long */
#define MOST_REST_NS 100000000    /* of a wait that has ended, so much is charged later */
#define LONGEST_NS 2000000000     /* longest pause between two polls of a thread */
#define ATTEMPTS 3                /* to read a consistent stack, in one poll */
#define MOST_TORN 16              /* reads of a stack that stays torn, of one wait */

/* ---- waits and their records ---- */

static bool is_same(const struct wait *wait, uint32_t class, uint64_t stack) {
  return wait->facts.wait_class == class && wait->facts.stack == stack;
}

/* What was to be read of it later is not there any more. */
static void note_unread(struct wait *wait) {
  if (wait->put_off && !wait->is_read) loss_add(LOSS_waits_unplaced);
  if (wait->torn) loss_add(LOSS_waits_torn);
  wait->put_off = wait->torn = false;
}

static void wait_open(struct wait *wait, const struct watched *thread, uint32_t class, uint64_t stack, int64_t t_ns) {
  note_unread(wait);
  *wait = (struct wait){.record = NULL};
  wait->facts = (struct record_wait){.thread = thread->entry.thread,
                                     .process = thread->entry.process,
                                     .t_ns = t_ns,
                                     .end_ns = t_ns,
                                     .stack = stack,
                                     .wait_class = (uint16_t)class,
                                     .syscall = -1};
}

static void publish(struct wait *wait) {
  struct record_wait *record = wait->record;
  if (!record) record = spool_claim(1);
  if (!record) return;
  memcpy((char *)record + sizeof record->head, (char *)&wait->facts + sizeof record->head,
         sizeof *record - sizeof record->head);
  if (!wait->record) spool_publish(record, RECORD_WAIT, 1);
  if (!wait->record) wait->chunk = spool_chunk();
  wait->record = record;
}

/* Adds `waited_ns` that ended at `end_ns`. If the chunk of the wait's record is closed, the wait continues in a new
 * record. */
static void wait_add(struct wait *wait, int64_t waited_ns, int64_t end_ns) {
  struct record_wait *facts = &wait->facts;
  if (wait->record && wait->chunk != spool_chunk()) {
    wait->record = NULL;
    facts->t_ns = facts->end_ns;
    facts->waited_ns = 0;
    facts->looks = 0;
  }
  facts->waited_ns += waited_ns;
  if (end_ns > facts->end_ns) facts->end_ns = end_ns;
  if (facts->end_ns - facts->t_ns < facts->waited_ns) facts->t_ns = facts->end_ns - facts->waited_ns;
  if (wait->record || facts->waited_ns >= LEAST_WAIT_NS) publish(wait);
}

/* ---- waiting time and the waits it is charged to ---- */

/* Returns the waiting time that was not charged to a wait yet, in ns. It is negative if too much was charged: see
 * give_back. */
static int64_t owed_ns(const struct watched *thread, const struct schedule *now, int64_t t_ns) {
  const struct thread_entry *entry = &thread->entry;
  int64_t run_ns = now->run_ns - entry->cpu_start_ns, delay_ns = now->delay_ns - thread->base_delay_ns;
  return t_ns - entry->start_ns - run_ns - delay_ns - thread->charged_ns;
}

static void charge(struct watched *thread, int64_t waited_ns, int64_t end_ns) {
  if (waited_ns <= 0) return;
  thread->charged_ns += waited_ns;
  wait_add(&thread->wait, waited_ns, end_ns);
}

/* A thread that was woken but has no CPU yet looks like one that waits. When it gets the CPU, schedstat says how long
 * that was, and this time is subtracted from its wait again. */
static void give_back(struct watched *thread, int64_t owed) {
  struct record_wait *facts = &thread->wait.facts;
  int64_t back_ns = -owed < facts->waited_ns ? -owed : facts->waited_ns;
  if (owed >= 0 || thread->condition != CONDITION_BLOCKED) return;
  if (thread->wait.record && thread->wait.chunk != spool_chunk()) return;
  facts->waited_ns -= back_ns;
  facts->end_ns -= back_ns;
  thread->charged_ns -= back_ns;
  if (thread->wait.record) publish(&thread->wait);
}

/* ---- the rest of a wait that has ended since the poll before ----
 *
 * The kernel counts the time of a thread that runs at its own ticks, 1 to 10 ms apart. So what is owed when a thread is
 * observed running is too much: it includes time on the CPU that is not counted yet, and time without a CPU, which is
 * counted when the thread gets one. The rest is charged when the thread is observed waiting again, and all of that is
 * known. */

/* Time between two of the kernel's ticks. */
static int64_t kernel_tick_ns(void) {
  static int64_t tick_ns;
  struct timespec resolution = {0, 0};
  if (tick_ns) return tick_ns;
  if (clock_getres(CLOCK_MONOTONIC_COARSE, &resolution)) resolution.tv_nsec = LONGEST_TICK_NS;
  tick_ns = resolution.tv_nsec < LEAST_TICK_NS ? LEAST_TICK_NS : resolution.tv_nsec;
  return tick_ns;
}

/* The rest is at most `owed`, and most probably at least `least_ns`. */
static void bound_rest(struct watched *thread, int64_t owed, int64_t least_ns) {
  struct rest *rest = &thread->rest;
  if (owed < 0) owed = 0;
  if (rest->most_ns > owed) rest->most_ns = owed;
  if (rest->least_ns > rest->most_ns) rest->least_ns = 0; /* the thread had no CPU, which was not counted yet */
  if (rest->least_ns < least_ns) rest->least_ns = least_ns;
}

static void charge_part(struct watched *thread, int64_t part_ns) {
  if (part_ns <= 0) return;
  thread->rest.most_ns -= part_ns;
  thread->rest.least_ns -= part_ns;
  charge(thread, part_ns, thread->wait.facts.end_ns + part_ns);
}

static void observed_running(struct watched *thread, const struct schedule *now, int64_t owed, int64_t t_ns) {
  struct rest *rest = &thread->rest;
  int64_t passed_ns = t_ns - thread->polled_ns, tick_ns = kernel_tick_ns();
  bool counted = now->run_ns != thread->seen.run_ns, is_first = thread->condition == CONDITION_BLOCKED;
  if (is_first) {
    give_back(thread, owed);
    *rest = (struct rest){.is_open = true, .most_ns = t_ns - thread->wait.facts.end_ns};
  }
  if (!rest->is_open) return;
  if ((counted || is_first) && passed_ns < tick_ns) tick_ns = passed_ns;
  bound_rest(thread, owed, owed - tick_ns);
  charge_part(thread, rest->most_ns - MOST_REST_NS);
  rest->ran_ns = t_ns;
  rest->run_ns = now->run_ns;
}

void account_settle(struct watched *thread) {
  struct rest *rest = &thread->rest;
  int64_t least_ns = rest->least_ns < 0 ? 0 : rest->least_ns < rest->most_ns ? rest->least_ns : rest->most_ns;
  if (rest->is_open) charge_part(thread, (least_ns + rest->most_ns) / 2); /* the middle of what is possible */
  rest->is_open = false;
}

/* `owed` is exact, as the thread waits or has ended. Since rest.ran_ns, it can have waited only when it did not run, and
 * how long it has run is known but for a tick. */
static void end_rest(struct watched *thread, const struct schedule *now, int64_t owed, int64_t t_ns) {
  int64_t waited_ns = t_ns - thread->rest.ran_ns, ran_ns = now->run_ns - thread->rest.run_ns - kernel_tick_ns();
  if (ran_ns > 0) waited_ns -= ran_ns;
  if (thread->rest.is_open) bound_rest(thread, owed, owed - waited_ns);
  account_settle(thread);
}

void account_forget(struct watched *thread) {
  account_settle(thread);
  note_unread(&thread->wait);
}

/* Closes the wait of a thread that has ended. The time that is owed is charged to the wait in which the last poll found
 * it, but at most the time since that poll. The CPU time of an attached thread is that of the last poll. */
static void close_wait(struct watched *thread, const struct schedule *end, int64_t owed, int64_t t_ns) {
  int64_t passed_ns = t_ns - thread->wait.facts.end_ns;
  give_back(thread, owed);
  if (thread->process->attached) {
    account_settle(thread);
  } else {
    end_rest(thread, end, owed, t_ns);
  }
  if (thread->condition == CONDITION_BLOCKED) charge(thread, owed < passed_ns ? owed : passed_ns, t_ns);
}

/* ---- delays: runnable, not running ---- */

static void charge_delay(struct watched *thread, int64_t delay_ns, uint64_t stack, int64_t t_ns) {
  struct wait *wait = &thread->runnable;
  if (!is_same(wait, WAIT_RUNNABLE, stack) || t_ns - wait->facts.end_ns > GAP_NS)
    wait_open(wait, thread, WAIT_RUNNABLE, stack, t_ns - delay_ns);
  wait->facts.looks++;
  thread->delay_charged_ns += delay_ns;
  wait_add(wait, delay_ns, t_ns);
}

static int64_t delay_owed(const struct watched *thread, const struct schedule *now) {
  return now->delay_ns - thread->base_delay_ns - thread->delay_charged_ns;
}

/* Charges the thread's delay to its current stack. A running thread may change its stack while it is read; then the
 * next poll tries again. */
static void observe_delay(struct watched *thread, const struct schedule *now, bool moving, int64_t t_ns) {
  int64_t delay_ns = delay_owed(thread, now);
  if (delay_ns < DELAY_PORTION_NS || delay_ns < thread->delay_charged_ns / DELAY_SHARE) return;
  uint64_t stack = thread->stack;
  if (moving && !stack_read(thread, &stack)) return;
  charge_delay(thread, delay_ns, stack, t_ns);
}

/* ---- the class of a wait ---- */

static bool in_runtime(const struct thread_entry *entry, uint64_t address) {
  return address - entry->runtime < entry->runtime_bytes;
}

/* The parent of a vfork is in state D until the child calls exec or exits, but it does not wait for a disk. */
static bool starts_child(int32_t number) {
  return ARCH_IS_VFORK(number) || number == SYS_clone || number == SYS_clone3;
}

/* True for calls that never wait for a disk, so that the thread's state need not be read. */
static bool never_waits_for_disk(int32_t number) {
  static const int32_t calls[] = {SYS_futex,     SYS_ppoll,           SYS_pselect6,        SYS_epoll_pwait,
                                  SYS_nanosleep, SYS_clock_nanosleep, SYS_rt_sigtimedwait, ARCH_OLDER_WAITS};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    if (calls[i] == number) return true;
  }
  return false;
}

/* Returns WAIT_*, or 0 if the thread is stopped: that is not a wait. */
static uint32_t class_of(const struct watched *thread, const struct system_call *call) {
  const struct thread_entry *entry = &thread->entry;
  if (call->number == SYS_futex && in_runtime(entry, call->arguments)) return WAIT_GIL;
  if (never_waits_for_disk(call->number)) return WAIT_SLEEP;
  char state = proc_state(entry->pid, entry->tid);
  if (state == 'T' || state == 't' || state == 'Z') return 0;
  return state == 'D' && !starts_child(call->number) ? WAIT_DISK : WAIT_SLEEP;
}

/* ---- the native stack of a wait ----
 *
 * It is read when a second poll finds the thread in the same place, so short waits cost nothing. A wait holds the stack
 * of one place: time from other places is in waits of their own, or in waits without a native stack. */

static bool is_at(const struct wait *wait, const struct system_call *call) {
  return wait->sp == call->sp && wait->pc == call->pc;
}

static bool has_images(const struct watched *thread) {
  const struct attached *attached = thread->process->attached;
  return thread->entry.images || (attached && attached->source.list);
}

/* True if the native stack of the thread's wait is to be read when it is observed there again. The GIL needs none. */
static bool lacks_native(const struct watched *thread) {
  const struct wait *wait = &thread->wait;
  return has_images(thread) && wait->facts.wait_class && wait->facts.wait_class != WAIT_GIL && !wait->is_read;
}

/* True if it may be read now. The lists and tables of a process may be made so that they take long to read, and the
 * threads of all others are not observed in that time. */
static bool may_read_native(struct watched *thread, int64_t t_ns) {
  struct process *process = thread->process;
  if (!lacks_native(thread)) return false;
  process->native_debt_ns -= (t_ns - process->native_ns) / NATIVE_SHARE;
  if (process->native_debt_ns < 0) process->native_debt_ns = 0;
  process->native_ns = t_ns;
  thread->wait.put_off = process->native_debt_ns > NATIVE_BURST_NS;
  return !thread->wait.put_off;
}

/* Returns the hash of the native stack, 0 = it cannot be read. The caller must verify that the thread did not run. */
static uint64_t read_native(const struct watched *thread) {
  struct process *process = thread->process;
  safe_read_of(process_reads_by(thread), process->challenge);
  int64_t began_ns = clock_thread_cpu_ns();
  uint64_t native = 0;
  if (remote_images_refresh(&process->images, process->pid, thread->entry.images))
    native = waiting_read(&process->images, thread->wait.sp, thread->wait.pc);
  process->native_debt_ns += clock_thread_cpu_ns() - began_ns;
  return native;
}

/* The thread was observed in the place of its wait again, with this native stack. The time that was charged before to
 * other places stays without one. */
static void take_native(struct watched *thread, uint64_t native, int64_t owed, int64_t t_ns) {
  struct wait *wait = &thread->wait;
  wait->is_read = true;
  if (!native) loss_add(LOSS_waits_unplaced);
  if (native && wait->mixed) {
    struct wait before = *wait;
    wait->torn = false; /* one wait, and one loss */
    wait_open(wait, thread, before.facts.wait_class, before.facts.stack, t_ns - (owed > 0 ? owed : 0));
    wait->facts.syscall = before.facts.syscall;
    wait->sp = before.sp;
    wait->pc = before.pc;
    wait->count = before.count;
    wait->has_stack = before.has_stack;
    wait->torn = before.torn;
    wait->torn_reads = before.torn_reads;
    wait->is_read = true;
  }
  wait->facts.native = native;
}

/* ---- polls ---- */

/* What one poll of a thread has found. */
struct poll {
  struct schedule schedule;
  int64_t t_ns;
  struct system_call call;
  uint32_t class;
  uint64_t stack;
  bool has_stack, is_torn; /* as of struct wait */
  bool has_native;         /* the thread is in the place of its wait again, and `native` was read there */
  uint64_t native;
};

static bool same_schedule(const struct schedule *a, const struct schedule *b) {
  return a->run_ns == b->run_ns && a->count == b->count;
}

/* Reads where the thread waits. The result is consistent, because the thread was blocked before the walk and did not
 * get the CPU until after it: otherwise the count in schedstat, which is never stale, would have risen. */
static enum call_state read_wait(struct watched *thread, struct poll *poll) {
  const struct thread_entry *entry = &thread->entry;
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    struct schedule later;
    enum call_state state = proc_call(&thread->call_fd, entry->pid, entry->tid, &poll->call);
    if (state != CALL_BLOCKED) return state;
    poll->class = class_of(thread, &poll->call);
    safe_read_of(process_reads_by(thread), thread->process->challenge);
    if (!safe_read_proves()) return CALL_GONE; /* of another program: nothing of the call must be recorded */
    poll->is_torn = !stack_read(thread, &poll->stack);
    poll->has_stack = !poll->is_torn && thread->state;
    poll->has_native = is_same(&thread->wait, poll->class, poll->stack) && is_at(&thread->wait, &poll->call) &&
                       may_read_native(thread, poll->t_ns);
    if (poll->has_native) poll->native = read_native(thread);
    if (!proc_schedule(thread->schedule_fd, &later)) return CALL_GONE;
    if (same_schedule(&poll->schedule, &later)) return CALL_BLOCKED;
    poll->schedule = later;
    poll->t_ns = clock_now_ns();
  }
  return CALL_RUNNING;
}

/* A wait whose stack could not be read until now has had it from the beginning, if the thread has not run since. */
static void name_wait(struct watched *thread, const struct poll *poll) {
  struct wait *wait = &thread->wait;
  bool has_run = thread->condition != CONDITION_BLOCKED || wait->count != poll->schedule.count;
  bool lacks = !wait->has_stack && !wait->facts.stack && wait->facts.wait_class;
  if (!lacks || has_run || !poll->has_stack) return;
  wait->facts.stack = poll->stack;
  wait->facts.wait_class = (uint16_t)poll->class; /* the GIL is known since then, too */
}

static bool continues(const struct watched *thread, const struct poll *poll) {
  int64_t run_ns = poll->schedule.run_ns - thread->seen.run_ns;
  return thread->condition == CONDITION_BLOCKED && is_same(&thread->wait, poll->class, poll->stack) &&
         (!thread->wait.facts.native || is_at(&thread->wait, &poll->call)) &&
         run_ns <= (poll->t_ns - thread->polled_ns) / LITTLE;
}

/* The thread's wait has ended since the last poll, nobody knows when: of what is owed, any part may belong to that wait. Polls
 * are as close as waits need unless the watcher has no CPU, or has used its budget. */
static void note_late(const struct watched *thread, int64_t owed, int64_t t_ns) {
  int64_t from_ns = thread->polled_ns > thread->due_ns ? thread->polled_ns : thread->due_ns;
  if (thread->condition == CONDITION_BLOCKED && owed > RARE_NS && t_ns - from_ns > RARE_NS) loss_add(LOSS_waits_rare);
}

/* The thread has run much since the wait before, but is in the same place again: what is known of that place stays. */
static void keep_place(struct watched *thread, const struct wait *before, const struct poll *poll, int64_t owed) {
  if (!is_same(before, poll->class, poll->stack) || !is_at(before, &poll->call)) return;
  thread->wait.is_read = before->facts.native != 0;
  thread->wait.facts.native = before->facts.native;
  if (poll->has_native) take_native(thread, poll->native, owed, poll->t_ns);
}

/* Begins another wait. Half of the time between the two belongs to the one before; returns how much that is. */
static int64_t begin_wait(struct watched *thread, const struct poll *poll, int64_t owed) {
  int64_t half = thread->condition == CONDITION_BLOCKED && owed > 0 ? owed / 2 : 0, rest = owed - half;
  charge(thread, half, thread->wait.facts.end_ns + half);
  struct wait before = thread->wait;
  wait_open(&thread->wait, thread, poll->class, poll->stack, poll->t_ns - (rest > 0 ? rest : 0));
  thread->wait.facts.syscall = poll->call.number;
  thread->wait.count = poll->schedule.count;
  thread->blocked_ns = poll->t_ns;
  keep_place(thread, &before, poll, rest);
  return half;
}

static void observed_waiting(struct watched *thread, const struct poll *poll) {
  int64_t owed = owed_ns(thread, &poll->schedule, poll->t_ns);
  thread->stack = poll->stack;
  end_rest(thread, &poll->schedule, owed, poll->t_ns);
  owed = owed_ns(thread, &poll->schedule, poll->t_ns);
  if (!poll->class) {
    thread->charged_ns += owed;
    thread->wait.facts.wait_class = 0;
    return;
  }
  give_back(thread, owed);
  name_wait(thread, poll);
  if (!continues(thread, poll)) {
    note_late(thread, owed, poll->t_ns);
    owed -= begin_wait(thread, poll, owed);
  } else if (!is_at(&thread->wait, &poll->call)) {
    thread->wait.mixed = true;
    thread->wait.is_read = false;
  } else if (poll->has_native) {
    take_native(thread, poll->native, owed, poll->t_ns);
  }
  thread->wait.sp = poll->call.sp;
  thread->wait.pc = poll->call.pc;
  thread->wait.has_stack = poll->has_stack;
  thread->wait.torn = poll->is_torn;
  thread->wait.torn_reads += poll->is_torn;
  thread->wait.facts.looks++;
  charge(thread, owed, poll->t_ns);
}

/* Returns when the thread is polled next: the later, the longer its wait has lasted and the more threads there are. */
static int64_t next_poll(const struct watched *thread, int64_t period_ns) {
  int64_t length_ns = thread->polled_ns - thread->blocked_ns, crowd = thread->process->count;
  int64_t pause_ns = length_ns / BACK_OFF * (crowd < CROWD ? crowd : CROWD) / CROWD;
  if (thread->condition != CONDITION_BLOCKED || pause_ns < period_ns) pause_ns = 0;
  return thread->polled_ns + (pause_ns < LONGEST_NS ? pause_ns : LONGEST_NS);
}

/* The kernel has refused a read, so it is unknown what the thread waits for now. Closes its wait. */
static bool refuse(struct watched *thread) {
  if (thread->condition == CONDITION_BLOCKED) thread->condition = CONDITION_RUNNING;
  thread->wait.facts.wait_class = 0;
  thread->rest.is_open = false;
  if (thread->process->refusals + 1 >= REFUSED) {
    process_give_up(thread);
  } else {
    thread->process->refusals++;
  }
  return true;
}

static bool observe_changed(struct watched *thread, struct poll *poll) {
  enum call_state state = read_wait(thread, poll);
  if (state == CALL_GONE) return false;
  if (state == CALL_REFUSED) return refuse(thread);
  if (thread->process->refusals < REFUSED) thread->process->refusals = 0; /* else given up in this poll */
  if (thread->process->layout) thread->process->given_up = 0;
  if (state == CALL_BLOCKED) {
    observed_waiting(thread, poll);
  } else {
    int64_t owed = owed_ns(thread, &poll->schedule, poll->t_ns);
    note_late(thread, owed, poll->t_ns);
    observed_running(thread, &poll->schedule, owed, poll->t_ns);
  }
  observe_delay(thread, &poll->schedule, state != CALL_BLOCKED, poll->t_ns);
  bool waits = state == CALL_BLOCKED && poll->class;
  thread->condition = waits ? CONDITION_BLOCKED : CONDITION_RUNNING;
  return true;
}

void account_begin(struct watched *thread, int64_t since_ns) {
  struct thread_entry *entry = &thread->entry;
  struct schedule now;
  bool known = proc_schedule(thread->schedule_fd, &now);
  if (known && entry->start_ns < since_ns) {
    entry->start_ns = since_ns;
    entry->cpu_start_ns = now.run_ns;
  }
  thread->polled_ns = entry->start_ns;
  if (known) thread->base_delay_ns = now.delay_ns;
}

/* True if the stack of the wait is to be read again. While an interpreter starts, the state of a thread is not found, and it is
 * often a search for that of another thread that finds it; the next wait may come only when this one, a long one, has ended.
 * Native threads never get a state, so this ends soon. */
static bool lacks_stack(const struct watched *thread) {
  const struct wait *wait = &thread->wait;
  if (wait->has_stack || !wait->facts.wait_class) return false;
  if (thread->state) return !wait->torn || wait->torn_reads < MOST_TORN;
  return stack_may_find_state(thread, thread->polled_ns);
}

bool account_rests(const struct watched *thread) {
  return thread->condition == CONDITION_BLOCKED && !lacks_stack(thread) && !lacks_native(thread);
}

/* The thread has not run since the last poll. False = it does not exist any more. */
static bool observe_same(struct watched *thread, const struct poll *poll) {
  int64_t owed = owed_ns(thread, &poll->schedule, poll->t_ns);
  if (may_read_native(thread, poll->t_ns)) {
    struct schedule later;
    uint64_t native = read_native(thread);
    if (!proc_schedule(thread->schedule_fd, &later)) return false;
    if (same_schedule(&poll->schedule, &later)) take_native(thread, native, owed, poll->t_ns);
  }
  thread->wait.facts.looks++;
  charge(thread, owed, poll->t_ns);
  return true;
}

bool account_observe(struct watched *thread, int64_t period_ns) {
  struct poll poll = {.stack = 0};
  if (!proc_schedule(thread->schedule_fd, &poll.schedule)) return false;
  if (!poll.schedule.count && thread->process->attached) return true; /* it was found before it has run */
  if (!poll.schedule.count) return refuse(thread);                    /* this kernel does not count */
  poll.t_ns = clock_now_ns();
  bool same = thread->condition == CONDITION_BLOCKED && same_schedule(&poll.schedule, &thread->seen);
  bool exists = same && !lacks_stack(thread) ? observe_same(thread, &poll) : observe_changed(thread, &poll);
  if (!exists) return false;
  thread->seen = poll.schedule;
  thread->polled_ns = poll.t_ns;
  thread->due_ns = next_poll(thread, period_ns);
  return true;
}

void account_rest(struct watched *thread, int64_t t_ns) {
  charge(thread, owed_ns(thread, &thread->seen, t_ns), t_ns);
  thread->polled_ns = t_ns;
}

/* ---- ends ---- */

static void charge_rest_of_delay(struct watched *thread, int64_t t_ns) {
  int64_t delay_ns = delay_owed(thread, &thread->seen);
  if (delay_ns >= LEAST_LEFT_NS) charge_delay(thread, delay_ns, thread->stack, t_ns);
}

void account_gone(struct watched *thread, int64_t until_ns) {
  note_unread(&thread->wait);
  account_settle(thread);
  if (thread->condition == CONDITION_BLOCKED && until_ns > thread->polled_ns)
    charge(thread, owed_ns(thread, &thread->seen, until_ns), until_ns);
  if (thread->condition != CONDITION_NEW) charge_rest_of_delay(thread, thread->polled_ns);
}

/* Owed time that no poll could attribute becomes a wait without a stack. */
void account_ended(struct watched *thread) {
  const struct thread_entry *entry = &thread->entry;
  struct schedule end = {entry->cpu_end_ns, thread->seen.delay_ns, 0};
  note_unread(&thread->wait);
  if (thread->condition == CONDITION_NEW) end.delay_ns = thread->base_delay_ns;
  int64_t owed = owed_ns(thread, &end, entry->end_ns);
  close_wait(thread, &end, owed, entry->end_ns);
  int64_t left_ns = thread->condition == CONDITION_BLOCKED ? 0 : owed_ns(thread, &end, entry->end_ns);
  int64_t uncounted_ns = thread->process->attached ? kernel_tick_ns() : 0;
  if (left_ns >= LEAST_LEFT_NS + uncounted_ns) {
    wait_open(&thread->wait, thread, WAIT_SLEEP, 0, entry->end_ns - left_ns);
    charge(thread, left_ns, entry->end_ns);
  }
  if (thread->condition != CONDITION_NEW) charge_rest_of_delay(thread, entry->end_ns);
}
