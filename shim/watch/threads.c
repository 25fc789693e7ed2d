/* The watched threads: those of the thread table, grouped by process, and when each of them is polled. */
#include "watch/threads.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/table/entries.h"
#include "watch/attached/attached.h"
#include "watch/attached/events.h"
#include "watch/greenlets/greenlets.h"
#include "watch/native/images.h"
#include "watch/native/instruction.h"
#include "watch/native/sampled.h"
#include "watch/reading/proc.h"
#include "watch/stack.h"
#include "watch/tasks.h"

#define MAX_PROCESSES 1024
#define PERIOD_NS 10000000
/* How often a resting process is polled. A pause is the length of its rest / SHARE + THREAD_NS per thread, but at most
 * MOST_THREAD_NS per thread and LONGEST_REST_NS. CLOCK_*: between two reads of its CPU clock, for which the kernel adds
 * up its threads. */
#define CLOCK_SHARE 50
#define CLOCK_THREAD_NS 30000
#define CLOCK_MOST_THREAD_NS 2000000
/* REFRESH_*: between two times that its waits are extended in the spool. */
#define REFRESH_SHARE 100
#define REFRESH_THREAD_NS 100000
#define REFRESH_MOST_THREAD_NS 5000000
#define LONGEST_REST_NS 1000000000
#define ALL_POLLED 64 /* in each pass, of an attached process with at most so many threads */

/* Every recorded process can write into the thread table, so an entry may hold anything and change at any moment. It is
 * copied, the copy is checked, and only the copy is used. A watched thread is forgotten when its entry changes. */
#define LONGEST_TIME_NS ((int64_t)1 << 60) /* later times do not occur; sums of a few earlier ones do not overflow */
#define UPDATE_NS 50000000 /* an update that has used this much CPU time is continued in the next pass */

static struct watched watched[SPOOL_THREAD_TABLE]; /* entry.state 0 = no thread is watched here */
static struct process processes[MAX_PROCESSES];
static uint32_t process_end;  /* one past the highest entry that was ever used */
static uint32_t seen_changes; /* header.table_changes when the last complete update began */
static uint32_t new_changes;  /* the same for the update that is under way */
static uint32_t next_entry;   /* where an update continues that has used up its time */
static int64_t passed_at_ns;  /* time of the last pass; 0 = there was none since the start or a pause */
static int64_t passed_ns;     /* from the pass before to the one that is under way */
static int64_t resumed_ns;    /* end of the last pause of the recording; 0 = there was none */
static int64_t moved_ns;      /* when a thread was last found to have begun, or to wait after it had run */

/* ---- processes ---- */

/* Returns the process of the entry, or a new one; null = there are too many. */
static struct process *find_process(const struct thread_entry *entry, int64_t now_ns) {
  struct process *free = NULL;
  for (uint32_t i = 0; i < process_end; i++) {
    if (processes[i].id == entry->process) return &processes[i];
    if (!processes[i].id && !free) free = &processes[i];
  }
  if (!free && process_end < MAX_PROCESSES) free = &processes[process_end++];
  if (!free) return NULL;
  *free = (struct process){.id = entry->process, .pid = entry->pid, .idle_ns = now_ns};
  free->attached = attached_find(entry->process, entry->pid);
  if (free->attached) free->images.given = &free->attached->source;
  return free;
}

static void drop_process(struct process *process) {
  remote_images_free(&process->images);
  sampled_forget(&process->code);
  greenlets_free(&process->greenlets);
  attached_release(process->attached);
  process->id = 0;
}

static void join_process(struct watched *thread, struct process *process) {
  thread->process = process;
  thread->next = process->threads;
  process->threads = thread;
  process->count++;
  process->resting = false;
}

static void leave_process(struct watched *thread) {
  struct process *process = thread->process;
  for (struct watched **at = &process->threads; *at; at = &(*at)->next) {
    if (*at != thread) continue;
    *at = thread->next;
    break;
  }
  if (--process->count) return;
  tasks_end(process, clock_now_ns());
  drop_process(process);
}

/* ---- entries ---- */

static bool is_time(int64_t t_ns) { return t_ns >= 0 && t_ns <= LONGEST_TIME_NS; }

static bool is_possible(const struct thread_entry *entry) {
  return entry->process && entry->process < PROCESS_WATCHER && entry->thread && entry->pid > 0 && entry->tid > 0 &&
         is_time(entry->start_ns) && is_time(entry->cpu_start_ns);
}

/* True if both describe the same thread. The times of the end do not count: a thread stores them while it is live. */
static bool is_same_thread(const struct thread_entry *a, const struct thread_entry *b) {
  return a->pid_namespace == b->pid_namespace &&
         !memcmp(&a->process, &b->process,
                 offsetof(struct thread_entry, end_ns) - offsetof(struct thread_entry, process));
}

/* Copies the entry, with its state as last read. False = it changes now, so it is read at the next update. */
static bool copy_entry(uint32_t index, struct thread_entry *entry) {
  struct thread_entry *table_entry = entries_at(index);
  uint32_t state = atomic_load_explicit(entries_state(table_entry), memory_order_acquire);
  memcpy(entry, table_entry, sizeof *entry);
  entry->state = state;
  return atomic_load(entries_state(table_entry)) == state;
}

/* Frees the entry, unless its state has changed: the thread itself may have just ended it. */
static void release(uint32_t index, uint32_t state) {
  atomic_compare_exchange_strong(entries_state(entries_at(index)), &state, ENTRY_FREE);
}

/* ---- threads ---- */

static void forget(struct watched *thread) {
  account_forget(thread);
  if (thread->process) leave_process(thread);
  if (thread->schedule_fd >= 0) close(thread->schedule_fd);
  if (thread->call_fd >= 0) close(thread->call_fd);
  *thread = (struct watched){.schedule_fd = -1, .call_fd = -1};
}

uint32_t threads_index(const struct watched *thread) { return (uint32_t)(thread - watched); }

void threads_set_ident(struct watched *thread, uint64_t ident) {
  thread->entry.pthread = ident;
  entries_at(threads_index(thread))->pthread = ident;
}

void threads_set_python_thread(struct watched *thread, uintptr_t object) {
  thread->entry.python_thread = object;
  entries_at(threads_index(thread))->python_thread = object;
}

bool threads_left(const struct watched *thread) {
  struct thread_entry *table_entry = entries_at(threads_index(thread));
  return atomic_load(entries_state(table_entry)) != ENTRY_LIVE || table_entry->thread != thread->entry.thread;
}

/* True if the thread's pid is of another pid namespace: here it names another process, or none. */
static bool is_elsewhere(const struct thread_entry *entry) {
  return entry->pid_namespace && spool_pid_namespace() && entry->pid_namespace != spool_pid_namespace();
}

/* True if the recorder can read processes that a recorded program cannot read. */
static bool is_privileged(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
  if (geteuid() == 0 || syscall(SYS_capget, &header, data)) return true;
  return data[0].effective & 1u << CAP_SYS_PTRACE;
}

/* True if the process belongs to the recording. The user has named an attached process, or its ancestor. A privileged recorder must read only processes that have the spool
 * mapped; otherwise a compromised process could make it copy the memory of any process. That is checked here once, and
 * again by each read (safe_read_of). Other recorders cannot read more than the program itself can. */
static bool is_of_recording(const struct watched *thread, struct process *process) {
  if (thread->schedule_fd < 0) return false;
  if (process->attached || process->count > 0 || !is_privileged()) return true;
  process->challenge = proc_shared_at(process->pid, &spool->challenge);
  return process->challenge != 0;
}

static void watch(struct watched *thread, struct process *process) {
  bool is_recorded = is_of_recording(thread, process);
  join_process(thread, process);
  if (is_recorded) {
    account_begin(thread, resumed_ns);
  } else if (threads_left(thread)) {
    forget(thread);
  } else {
    process_give_up(thread);
  }
}

static void begin(uint32_t index, const struct thread_entry *entry, int64_t now_ns) {
  struct watched *thread = &watched[index];
  struct process *process = is_possible(entry) ? find_process(entry, now_ns) : NULL;
  if (!is_possible(entry) || (process && process->pid != entry->pid)) {
    loss_add(LOSS_waits_impossible);
    release(index, ENTRY_LIVE);
    return;
  }
  bool elsewhere = is_elsewhere(entry);
  int fd = elsewhere || !process ? -1 : proc_open_schedule(entry->pid, entry->tid), error = errno;
  *thread = (struct watched){.entry = *entry, .schedule_fd = fd, .call_fd = -1, .name = entry->name};
  thread->python_ns = entry->start_ns;
  if (fd >= 0 || (process && elsewhere)) {
    watch(thread, process);
    return;
  }
  if (process && !process->count) drop_process(process);
  if (!process || error == EMFILE || error == ENFILE) {
    loss_add(LOSS_waits_crowded); /* the thread stays in `watched`, but is not polled */
  } else {                        /* it has already gone */
    forget(thread);
    release(index, ENTRY_LIVE);
  }
}

/* Closes the account of a thread that has ended, if it was watched: of others, only the lifetime is known. */
static void finish(struct watched *thread, const struct thread_entry *entry) {
  if (!thread->process || thread->process->refusals >= REFUSED) return;
  if (!is_time(entry->end_ns) || !is_time(entry->cpu_end_ns)) {
    loss_add(LOSS_waits_impossible);
    return;
  }
  thread->entry.end_ns = entry->end_ns;
  thread->entry.cpu_end_ns = entry->cpu_end_ns;
  account_ended(thread);
}

/* A program may load its interpreter late, and unload it. */
static void follow_python(struct watched *thread, const struct thread_entry *entry) {
  struct thread_entry *known = &thread->entry;
  if (known->runtime == entry->runtime || known->process != entry->process || known->thread != entry->thread) return;
  known->python_version = entry->python_version;
  known->runtime = entry->runtime;
  known->runtime_bytes = entry->runtime_bytes;
  known->code_type = entry->code_type;
  thread->state = 0;
  thread->state_tries = 0;
  thread->python_ns = clock_now_ns();
  thread->wait.has_stack = false;
  thread->due_ns = 0;
  if (thread->process) thread->process->resting = false; /* its waits have a stack now */
}

static void update(uint32_t index, int64_t now_ns) {
  struct watched *thread = &watched[index];
  struct thread_entry entry;
  if (!copy_entry(index, &entry)) return;
  if (thread->entry.state && entry.state == ENTRY_LIVE) follow_python(thread, &entry);
  bool known = thread->entry.state && is_same_thread(&thread->entry, &entry);
  if (known && entry.state == ENTRY_LIVE) return;
  if (known && entry.state == ENTRY_ENDED) finish(thread, &entry);
  if (thread->entry.state) forget(thread);
  if (entry.state == ENTRY_LIVE) begin(index, &entry, now_ns);
  if (entry.state == ENTRY_ENDED) release(index, ENTRY_ENDED);
}

void threads_update(int64_t now_ns) {
  uint32_t changes = atomic_load((_Atomic uint32_t *)&spool->table_changes);
  uint32_t end = atomic_load((_Atomic uint32_t *)&spool->table_end);
  if (end > SPOOL_THREAD_TABLE) end = SPOOL_THREAD_TABLE;
  if (changes == seen_changes && !next_entry) return;
  moved_ns = now_ns;
  if (!next_entry) new_changes = changes;
  int64_t until_ns = clock_thread_cpu_ns() + UPDATE_NS;
  for (; next_entry < end; next_entry++) {
    if (next_entry % 16 == 15 && clock_thread_cpu_ns() > until_ns) return;
    update(next_entry, now_ns);
  }
  next_entry = 0;
  seen_changes = new_changes;
}

void threads_pause(int64_t now_ns) {
  threads_update(now_ns);
  threads_poll(now_ns, true);
  for (uint32_t i = 0; i < SPOOL_THREAD_TABLE; i++) {
    if (watched[i].entry.state) forget(&watched[i]);
  }
}

void threads_resume(int64_t now_ns) {
  resumed_ns = now_ns;
  passed_at_ns = 0;
  seen_changes = atomic_load((_Atomic uint32_t *)&spool->table_changes) - 1;
}

/* ---- polls ---- */

/* A thread without a Python state runs native code, once it is certain that there is none. */
static bool read_running(void *context, uint64_t *stack, uint32_t *flags) {
  struct watched *thread = context;
  bool whole = stack_read(thread, stack);
  bool is_native = !thread->state && (!thread->entry.python_version || !stack_may_find_state(thread, clock_now_ns()));
  *flags = is_native ? TICK_NO_PYTHON : PC_UNREAD << TICK_PC_SHIFT;
  return whole && (thread->state || is_native);
}

static void read_python(void *context, struct attached_stack *out) {
  struct watched *thread = context;
  bool whole = read_running(thread, &out->hash, &out->flags);
  out->flags &= TICK_NO_PYTHON;
  instruction_read(stack_walked(thread), out);
  if (!whole) out->flags |= TICK_TORN;
  if (!whole) out->hash = 0;
}

static bool read_native(void *context, const struct ring_sample *sample, struct native_evidence *out) {
  struct watched *thread = context;
  struct process *process = thread->process;
  safe_read_of(process_reads_by(thread), process->challenge);
  return sampled_evidence(&process->images, &process->code, process_reads_by(thread), thread->entry.python_version,
                          sample, thread->entry.thread, out);
}

static void go_back(void *context, const struct ring_sample *sample, const struct native_evidence *native,
                    struct attached_stack *out) {
  struct watched *thread = context;
  struct loop_of_sample loop = {native->eval_frame, sampled_in_loop(), thread->process->code.places};
  instruction_of_sample(stack_walked(thread), sample, &loop, out);
}

static const struct attached_sampler sampler = {read_python, read_native, go_back};

void threads_take_samples(void) {
  for (struct attached_thread *found; (found = events_next());) {
    struct watched *thread = found->entry < SPOOL_THREAD_TABLE ? &watched[found->entry] : NULL;
    if (thread && thread->process && thread->entry.thread == found->id) attached_sample(found, &sampler, thread);
  }
}

/* Threads of attached processes have no other ticks. A sample that was not announced is taken late. */
static void charge_cpu(struct watched *thread) {
  if (!thread->process->attached) return;
  struct attached_thread *found = attached_thread_at(threads_index(thread), thread->entry.thread);
  bool ready = thread->condition == CONDITION_RUNNING;
  struct attached_poll poll = {thread->seen, thread->schedule_fd, ready, passed_ns};
  if (found && events_is_sampled(found)) attached_sample(found, &sampler, thread);
  if (found) attached_charge(found, &poll, read_running, thread);
}

/* True if the thread runs as before, or waits and has not run. */
static bool is_steady(const struct watched *thread, enum condition was, const struct schedule *seen) {
  bool ran = thread->seen.run_ns != seen->run_ns || thread->seen.count != seen->count;
  return thread->condition == was && !(was == CONDITION_BLOCKED && ran);
}

static void poll_thread(struct watched *thread) {
  uint32_t index = threads_index(thread);
  enum condition was = thread->condition;
  struct schedule seen = thread->seen;
  if (account_observe(thread, PERIOD_NS)) {
    if (!is_steady(thread, was, &seen)) moved_ns = thread->polled_ns;
    charge_cpu(thread);
    return;
  }
  if (atomic_load(entries_state(entries_at(index))) == ENTRY_ENDED) return; /* threads_update reads its entry */
  account_gone(thread, thread->process->quiet_ns);
  forget(thread);
  release(index, ENTRY_LIVE);
}

/* The kernel brings a process's clock up to date only at its own ticks, so the first milliseconds of a burst of work would go
 * unnoticed. That matters where polls are the ticks. */
static bool polls_all(const struct process *process) { return process->attached && process->count <= ALL_POLLED; }

/* True if no thread of the process has run since the last pass, and all of them were blocked then. */
static bool rests(struct process *process, int64_t now_ns) {
  int64_t clock_ns = proc_clock_ns(process->pid);
  bool still = clock_ns >= 0 && clock_ns == process->clock_ns && process->resting && !polls_all(process);
  process->clock_ns = clock_ns;
  if (!still) process->idle_ns = now_ns;
  if (still) process->quiet_ns = now_ns;
  return still;
}

static int64_t rest_pause(const struct process *process, int64_t share, int64_t least_ns, int64_t most_ns) {
  int64_t count = process->count, rest_ns = process->quiet_ns - process->idle_ns;
  int64_t pause_ns = (rest_ns > 0 ? rest_ns / share : 0) + count * least_ns;
  if (pause_ns > count * most_ns) pause_ns = count * most_ns;
  return pause_ns < LONGEST_REST_NS ? pause_ns : LONGEST_REST_NS;
}

static void plan_refresh(struct process *process, int64_t now_ns) {
  process->refresh_ns = now_ns + rest_pause(process, REFRESH_SHARE, REFRESH_THREAD_NS, REFRESH_MOST_THREAD_NS);
}

/* Extends the waits in the spool, so that a killed recorder loses little. */
static void refresh(struct process *process, int64_t now_ns) {
  if (now_ns < process->refresh_ns) return;
  for (struct watched *thread = process->threads; thread; thread = thread->next) account_rest(thread, now_ns);
  plan_refresh(process, now_ns);
}

/* Polls the threads of the process that are due, of those that were polled before, or of the new ones; `all`: even if
 * they are not due. */
static void poll_those(struct process *process, int64_t now_ns, bool are_new, bool all) {
  for (struct watched *thread = process->threads, *next; thread; thread = next) {
    next = thread->next;
    if ((thread->condition == CONDITION_NEW) != are_new) continue;
    if (all || thread->due_ns <= now_ns || polls_all(process)) poll_thread(thread);
    if (all) account_settle(thread);
  }
}

static void poll_process(struct process *process, int64_t now_ns, bool all) {
  if (process->refusals >= REFUSED) return;
  if (rests(process, now_ns) && !all) {
    refresh(process, now_ns);
    tasks_poll(process, now_ns, true, false);
    thread_names_poll(process, now_ns, true, false);
    return;
  }
  bool resting = true;
  poll_those(process, now_ns, false, all);
  poll_those(process, now_ns, true,
             all); /* their states are searched for, while others begin or end to wait for them */
  for (struct watched *thread = process->threads; thread && resting; thread = thread->next)
    resting = account_rests(thread);
  process->resting = resting;
  plan_refresh(process, now_ns);
  tasks_poll(process, now_ns, false, all);
  thread_names_poll(process, now_ns, false, all);
  if (all) tasks_end(process, now_ns);
}

void threads_poll(int64_t now_ns, bool all) {
  passed_ns = passed_at_ns ? now_ns - passed_at_ns : 0;
  passed_at_ns = now_ns;
  for (uint32_t i = 0; i < process_end; i++) {
    struct process *process = &processes[i];
    int64_t pause_ns = rest_pause(process, CLOCK_SHARE, CLOCK_THREAD_NS, CLOCK_MOST_THREAD_NS);
    if (process->id && (all || now_ns >= process->quiet_ns + pause_ns)) poll_process(process, now_ns, all);
  }
}

void threads_poll_new(int64_t now_ns) {
  for (uint32_t i = 0; i < process_end; i++) {
    struct process *process = &processes[i];
    if (!process->id || process->refusals >= REFUSED) continue;
    for (struct watched *thread = process->threads, *next; thread; thread = next) {
      next = thread->next;
      if (thread->condition == CONDITION_NEW && thread->entry.start_ns >= now_ns) poll_thread(thread);
    }
  }
}

uint32_t threads_processes(void) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < process_end; i++) count += processes[i].id != 0;
  return count;
}

int64_t threads_steady_since(void) { return moved_ns; }

int64_t threads_idle_since(int64_t now_ns) {
  int64_t since = 0;
  for (uint32_t i = 0; i < process_end; i++) {
    if (processes[i].id && processes[i].idle_ns > since) since = processes[i].idle_ns;
  }
  return since && threads_processes() ? since : now_ns;
}
