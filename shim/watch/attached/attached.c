/* Follows the attached processes: which threads they have, and when they end. */
#include "watch/attached/attached.h"

#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/table/entries.h"
#include "watch/attached/events.h"
#include "watch/reading/proc.h"

#define LIST_NS 100000000 /* the threads are listed at least so often, as one may end while another begins */
#define LIST_THREAD_NS 100000
#define NAME_NS 1000000000 /* between two readings of their names */
#define NAME_THREAD_NS 2000000
#define MAX_SEGMENTS_READ 64
#define MAX_DYNAMIC 128

#define SAME_START_NS 20000000
#define BUCKETS 4096
/* The kernel's times have steps of 10 ms, and those of running threads are some milliseconds old. */
#define LEAST_UNSEEN_NS 50000000
#define UNSEEN_SHARE 50

static struct attached *first;
static bool resuming;                                        /* what begins now has begun in a pause */
static struct attached_thread *buckets[BUCKETS];             /* all threads, by their ids */
static struct attached_thread *of_entry[SPOOL_THREAD_TABLE]; /* who was given an entry last */

bool attached_any(void) { return first != NULL; }

struct attached *attached_find(uint32_t process, pid_t pid) {
  for (struct attached *each = first; each; each = each->next) {
    if (each->writer.process != process || each->start.pid != pid) continue;
    each->users++;
    return each;
  }
  return NULL;
}

void attached_release(struct attached *process) {
  if (process && --process->users == 0 && process->gone) free(process);
}

struct attached_thread *attached_thread_at(uint32_t entry, uint32_t id) {
  struct attached_thread *thread = entry < SPOOL_THREAD_TABLE ? of_entry[entry] : NULL;
  return thread && thread->id == id ? thread : NULL;
}

static struct attached *find_pid(pid_t pid) {
  struct attached *found = first;
  while (found && found->start.pid != pid) found = found->next;
  return found;
}

/* ---- the loader's list ---- */

/* Returns the address of the executable's r_debug: the loader has stored it in the dynamic section. 0 = none. */
static uintptr_t find_debug(const ElfW(Phdr) * segments, size_t count, uintptr_t headers) {
  ElfW(Dyn) dynamic[MAX_DYNAMIC];
  uintptr_t bias = 0, section = 0;
  for (size_t i = 0; i < count; i++) {
    if (segments[i].p_type == PT_PHDR) bias = headers - segments[i].p_vaddr;
    if (segments[i].p_type == PT_DYNAMIC) section = segments[i].p_vaddr;
  }
  size_t got = section ? safe_read_some(dynamic, (void *)(bias + section), sizeof dynamic) / sizeof *dynamic : 0;
  for (size_t i = 0; i < got && dynamic[i].d_tag != DT_NULL; i++) {
    if (dynamic[i].d_tag == DT_DEBUG) return dynamic[i].d_un.d_ptr;
  }
  return 0;
}

static void find_source(struct attached *process) {
  ElfW(Phdr) segments[MAX_SEGMENTS_READ];
  uintptr_t headers, count;
  if (!proc_program_headers(process->start.pid, &headers, &count)) return;
  if (count > MAX_SEGMENTS_READ) count = MAX_SEGMENTS_READ;
  safe_read_of(process->start.pid, 0);
  size_t got = safe_read_some(segments, (void *)headers, count * sizeof *segments) / sizeof *segments;
  uintptr_t debug = find_debug(segments, got, headers);
  if (!debug) return;
  process->source.headers = headers;
  process->source.header_count = (uint32_t)count;
  process->source.interpreter = process->python.images;
  process->source.list = debug + offsetof(struct r_debug, r_map);
}

/* ---- threads ---- */

static struct attached_thread **bucket_of(pid_t tid) { return &buckets[(uint32_t)tid % BUCKETS]; }

static struct attached_thread *find_thread(const struct attached *process, pid_t tid) {
  struct attached_thread *found = *bucket_of(tid);
  while (found && (found->tid != tid || found->process != process)) found = found->next_in_bucket;
  return found;
}

static void free_bucket(struct attached_thread *thread) {
  struct attached_thread **at = bucket_of(thread->tid);
  while (*at && *at != thread) at = &(*at)->next_in_bucket;
  if (*at) *at = thread->next_in_bucket;
}

static void fill_python(struct thread_entry *entry, const struct attached *process) {
  entry->python_version = process->python.python_version;
  entry->runtime_bytes = process->python.runtime_bytes;
  entry->code_type = process->python.code_type;
  entry->runtime = process->python.runtime;
}

/* Returns the entry that the library in the process (inside/attached) has taken for the thread, which has allocated memory
 * before it was seen here; SPOOL_THREAD_TABLE = there is none. */
static uint32_t find_entry(const struct attached *process, pid_t tid) {
  uint32_t end = spool->features & FEATURE_MEMORY ? atomic_load((_Atomic uint32_t *)&spool->table_end) : 0;
  for (uint32_t i = 0; i < end && i < SPOOL_THREAD_TABLE; i++) {
    const struct thread_entry *entry = entries_at(i);
    if (atomic_load(entries_state((struct thread_entry *)entry)) == ENTRY_LIVE && entry->tid == tid &&
        entry->process == process->writer.process && !attached_thread_at(i, entry->thread))
      return i;
  }
  return SPOOL_THREAD_TABLE;
}

static void take_entry(struct attached_thread *thread, int64_t now_ns) {
  const struct attached *process = thread->process;
  if (thread->entry < SPOOL_THREAD_TABLE) {
    of_entry[thread->entry] = thread;
    return;
  }
  thread->entry = entries_take();
  if (thread->entry == SPOOL_THREAD_TABLE) {
    loss_add(LOSS_waits_crowded);
    return;
  }
  struct thread_entry *entry = entries_at(thread->entry);
  entry->process = process->writer.process;
  entry->thread = thread->id;
  entry->pid = process->start.pid;
  entry->tid = thread->tid;
  fill_python(entry, process);
  entry->pthread = entry->python_thread = entry->name = entry->arenas = 0;
  entry->images = 0; /* images.given has them */
  entry->pid_namespace = spool_pid_namespace();
  entry->start_ns = now_ns;
  entry->cpu_start_ns = thread->run_ns;
  entry->end_ns = entry->cpu_end_ns = 0;
  of_entry[thread->entry] = thread;
  entries_begin(thread->entry);
  entries_changed();
}

/* True if all CPU time of the thread belongs to the recording. What was used before an exec belongs to the image before. */
static bool is_born(const struct attached *process, pid_t tid) {
  if (resuming || (tid == process->start.pid && process->start.cause == CAUSE_EXEC)) return false;
  return proc_started_ns(process->start.pid, tid) > spool->start_mono_ns;
}

/* Returns the new thread; null = it has gone in the meantime, or there is no memory. */
static struct attached_thread *begin_thread(struct attached *process, pid_t tid) {
  struct attached_thread *thread = calloc(1, sizeof *thread);
  struct schedule schedule;
  int fd = thread ? proc_open_schedule(process->start.pid, tid) : -1;
  if (fd < 0 || !proc_schedule(fd, &schedule)) {
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) loss_add(LOSS_waits_crowded);
    if (fd >= 0) close(fd);
    free(thread);
    return NULL;
  }
  int64_t now_ns = clock_now_ns(); /* its time counts from here: what it has waited before is not known */
  close(fd);
  *thread = (struct attached_thread){.next = process->threads, .process = process, .tid = tid, .lead = NO_LEAD};
  thread->entry = tid == process->start.pid ? SPOOL_THREAD_TABLE : find_entry(process, tid);
  bool is_known = thread->entry < SPOOL_THREAD_TABLE;
  thread->id = is_known                    ? entries_at(thread->entry)->thread
               : tid == process->start.pid ? process->start.thread
                                           : spool_new_thread();
  thread->run_ns = schedule.run_ns;
  thread->system_seen_ns = proc_system_ns(process->start.pid, tid);
  if (thread->system_seen_ns < 0) thread->system_seen_ns = 0;
  if (!is_born(process, tid)) {
    thread->cpu_start_ns = thread->run_ns;
    thread->system_start_ns = thread->system_ns = thread->system_seen_ns;
  }
  process->threads = thread;
  process->count++;
  thread->next_in_bucket = *bucket_of(tid);
  *bucket_of(tid) = thread;
  events_open(thread);
  attached_write_thread_start(thread, now_ns);
  take_entry(thread, now_ns);
  return thread;
}

/* Nothing else reads the kernel time of threads whose events sample it. */
static void read_system(struct attached_thread *thread) {
  if (!thread->event || !thread->event->of_kernel) return;
  int64_t system_ns = proc_system_ns(thread->process->start.pid, thread->tid);
  if (system_ns > thread->system_seen_ns) thread->system_ns = thread->system_seen_ns = system_ns;
  thread->system_run_ns = thread->run_ns;
}

static void end_thread(struct attached_thread *thread, int64_t now_ns) {
  if (!thread->process->ends) read_system(thread);
  events_close(thread);
  attached_charge_rest(thread, now_ns);
  attached_write_thread_end(thread, now_ns);
  if (thread->entry < SPOOL_THREAD_TABLE) {
    entries_end(thread->entry, thread->id, now_ns, thread->run_ns);
    if (of_entry[thread->entry] == thread) of_entry[thread->entry] = NULL;
  }
  thread->process->count--;
  thread->process->ended_ns += attached_used_ns(thread);
  thread->process->ended_system_ns += thread->system_seen_ns - thread->system_start_ns;
  free_bucket(thread);
  free(thread);
}

/* A listing may leave out a thread that lives: the next one to a thread that ends meanwhile. */
static bool lives(const struct attached *process, pid_t tid) {
  char state = process->ends ? 0 : proc_state(process->start.pid, tid);
  return state && state != 'Z' && state != 'X';
}

static void end_missing(struct attached *process, int64_t now_ns) {
  for (struct attached_thread **at = &process->threads; *at;) {
    struct attached_thread *thread = *at;
    if (thread->listing == process->listing || lives(process, thread->tid)) {
      at = &thread->next;
    } else {
      *at = thread->next;
      end_thread(thread, now_ns);
    }
  }
}

/* Returns the id of the next thread in /proc that lives; 0 = there is no other. */
static pid_t next_task(const struct attached *process) {
  for (struct dirent *each; (each = readdir(process->tasks));) {
    pid_t tid = (pid_t)strtol(each->d_name, NULL, 10);
    if (tid == process->start.pid && proc_state(tid, tid) == 'Z') continue; /* it has ended before the others */
    if (tid > 0) return tid;
  }
  return 0;
}

/* Ends the threads that are not there any more, and finds out if there are new ones. */
static void list_threads(struct attached *process, int64_t now_ns) {
  bool names = now_ns - process->named_ns >= NAME_NS + (int64_t)process->count * NAME_THREAD_NS;
  process->listing++;
  process->listed_ns = now_ns;
  proc_usage(process->start.pid, &process->usage);
  if (!process->source.list) find_source(process);
  if (names) process->named_ns = now_ns;
  rewinddir(process->tasks);
  for (pid_t tid; (tid = next_task(process));) {
    struct attached_thread *thread = find_thread(process, tid);
    process->grows = process->grows || !thread;
    if (!thread) continue;
    thread->listing = process->listing;
    if (thread->system_run_ns != thread->run_ns) read_system(thread);
    if (names || !thread->name[0]) proc_name(process->start.pid, tid, thread->name, sizeof thread->name);
  }
  end_missing(process, now_ns);
}

/* Returns whether there were any. */
static bool begin_threads(struct attached *process) {
  bool any = false;
  process->grows = false;
  rewinddir(process->tasks);
  for (pid_t tid; (tid = next_task(process));) {
    struct attached_thread *thread = find_thread(process, tid) ? NULL : begin_thread(process, tid);
    if (!thread) continue;
    thread->listing = process->listing;
    proc_name(process->start.pid, tid, thread->name, sizeof thread->name);
    any = true;
  }
  return any;
}

/* ---- processes ---- */

/* CPU time of its threads, as far as it is known. */
static int64_t observed_ns(const struct attached *process) {
  int64_t sum_ns = process->ended_ns;
  for (const struct attached_thread *each = process->threads; each; each = each->next) sum_ns += attached_used_ns(each);
  return sum_ns;
}

static int64_t observed_system_ns(const struct attached *process) {
  int64_t sum_ns = process->ended_system_ns;
  for (const struct attached_thread *each = process->threads; each; each = each->next)
    sum_ns += each->system_seen_ns - each->system_start_ns;
  return sum_ns;
}

/* CPU time of it and of its children until now. Of a process whose parent was faster, the last reading is too low. */
static int64_t total_ns(const struct attached *process) {
  int64_t read_ns = process->usage.own_ns, known_ns = process->usage_start.own_ns + observed_ns(process);
  return (read_ns > known_ns ? read_ns : known_ns) + process->usage.children_ns;
}

/* Counts what the kernel has counted for the process and its children, and no thread or child that was observed. */
static void count_unseen(struct attached *process) {
  proc_usage(process->start.pid, &process->usage);
  int64_t own_ns = process->usage.own_ns - process->usage_start.own_ns - observed_ns(process);
  int64_t children_ns = process->usage.children_ns - process->usage_start.children_ns - process->children_ns;
  int64_t unseen_ns = (own_ns > 0 ? own_ns : 0) + (children_ns > 0 ? children_ns : 0);
  int64_t least_ns = LEAST_UNSEEN_NS + (process->usage.own_ns - process->usage_start.own_ns) / UNSEEN_SHARE;
  if (unseen_ns >= least_ns) loss_add_many(LOSS_attached_unseen, (uint64_t)unseen_ns / 1000000);
}

static void forget(struct attached *process, int64_t now_ns) {
  for (struct attached **at = &first; *at; at = &(*at)->next) {
    if (*at != process) continue;
    *at = process->next;
    break;
  }
  process->listing++;
  process->ends = true;
  end_missing(process, now_ns);
  attached_close_writer(process);
  if (process->tasks) closedir(process->tasks);
  if (process->pid_fd >= 0) close(process->pid_fd);
  process->gone = true;
  if (!process->users) free(process);
}

/* The recorder itself learns how the process has ended that it was asked to record. */
static void end(struct attached *process, int64_t now_ns) {
  int status;
  struct attached *parent = find_pid(process->start.parent_pid);
  bool is_root = process->start.cause == CAUSE_ROOT, is_told = false;
  if (parent) is_told = proc_zombie_status(process->start.pid, &status);
  if (is_told) attached_write_reaped(parent, process->start.pid, status, now_ns);
  count_unseen(process);
  for (struct attached_thread *thread = process->threads; thread; thread = thread->next) read_system(thread);
  if (!is_told && !is_root)
    attached_write_end(process, END_UNKNOWN, observed_ns(process), observed_system_ns(process), now_ns);
  if (parent) parent->children_ns += total_ns(process);
  forget(process, now_ns);
}

/* The pid may have been given to another process since the request was made; not while descriptors of it are open. */
static bool is_asked_for(const struct request *request) {
  int64_t apart_ns = proc_started_ns(request->start.pid, request->start.pid) - request->python.start_ns;
  return apart_ns > -SAME_START_NS && apart_ns < SAME_START_NS;
}

static struct attached *create(const struct request *request) {
  struct attached *process = calloc(1, sizeof *process);
  if (!process) return NULL;
  process->start = request->start;
  process->python = request->python;
  process->pid_fd = proc_pid_fd(request->start.pid);
  process->tasks = proc_tasks(request->start.pid);
  if (process->tasks && is_asked_for(request)) return process;
  int error = process->tasks ? ESRCH : errno;
  if (process->tasks) closedir(process->tasks);
  if (process->pid_fd >= 0) close(process->pid_fd);
  free(process);
  errno = error;
  return NULL;
}

/* Its interpreter was found: when the process was attached to, or called exec, it was not loaded yet. */
static void find_python(struct attached *process, const struct request *request, int64_t now_ns) {
  process->python = request->python;
  process->source.interpreter = request->python.images;
  process->start.exe_bytes = request->start.exe_bytes;
  process->start.argv_bytes = request->start.argv_bytes;
  process->start.stacks = request->start.stacks;
  process->start.python_version = request->start.python_version;
  for (struct attached_thread *thread = process->threads; thread; thread = thread->next) {
    if (attached_thread_at(thread->entry, thread->id)) fill_python(entries_at(thread->entry), process);
  }
  entries_changed();
  uint16_t cause = process->start.cause;
  process->start.cause = START_OF_PYTHON;
  attached_write_start(process, request->texts, now_ns);
  process->start.cause = cause;
}

static void begin(const struct request *request) {
  int64_t now_ns = clock_now_ns();
  struct attached *before = find_pid(request->start.pid), *process = create(request);
  if (!process && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) loss_add(LOSS_attached_missed);
  if (!process) return;
  if (before && proc_has_ended(before->pid_fd)) { /* its pid was given to another one */
    end(before, now_ns);
    before = NULL;
  }
  if (before) {
    process->start.cause = CAUSE_EXEC;
    process->start.parent = before->writer.process;
    attached_write_end(before, END_EXEC, observed_ns(before), observed_system_ns(before), now_ns);
    count_unseen(before);
    forget(before, now_ns);
  } else {
    struct attached *parent = find_pid(request->start.parent_pid);
    process->start.parent = parent ? parent->writer.process : 0;
  }
  process->writer = (struct spool_writer){.process = spool_new_process(), .pid = request->start.pid};
  process->start.thread = spool_new_thread();
  bool is_new = request->python.start_ns > spool->start_mono_ns && !before && !resuming;
  if (proc_usage(request->start.pid, &process->usage_start) && is_new) process->usage_start = (struct usage){0, 0};
  process->next = first;
  first = process;
  attached_write_start(process, request->texts, now_ns);
  list_threads(process, now_ns);
  begin_threads(process); /* at once: children may be short, and what was used before belongs to the image before */
}

static int64_t list_pause(const struct attached *process) { return LIST_NS + (int64_t)process->count * LIST_THREAD_NS; }

void attached_update(bool all) {
  for (struct request *request; (request = attached_next_request());) {
    struct attached *known = find_pid(request->start.pid);
    if (request->start.cause != START_OF_PYTHON) {
      begin(request);
    } else if (known) {
      find_python(known, request, clock_now_ns());
    }
    free(request);
  }
  int64_t now_ns = clock_now_ns(); /* after all that has begun */
  for (struct attached *process = first, *next; process; process = next) {
    next = process->next;
    if (proc_has_ended(process->pid_fd)) {
      end(process, now_ns);
    } else if (all || now_ns - process->listed_ns >= list_pause(process) ||
               proc_count(process->tasks) != process->count) {
      list_threads(process, now_ns);
      if (!process->count && !proc_count(process->tasks)) end(process, now_ns);
    }
  }
}

bool attached_begin_threads(void) {
  bool any = false;
  for (struct attached *process = first; process; process = process->next)
    any = (process->grows && begin_threads(process)) || any;
  return any;
}

void attached_settle(int64_t now_ns, bool ends) {
  for (struct attached *process = first; process; process = process->next) {
    if (ends) count_unseen(process);
    proc_usage(process->start.pid, &process->usage);
    for (struct attached_thread *thread = process->threads; thread; thread = thread->next) {
      events_enable(thread, false);
      read_system(thread);
      attached_charge_rest(thread, now_ns);
      if (ends) events_close(thread);
    }
  }
}

/* Nothing of what it has used since its last observation counts. */
static void leave_out(struct attached_thread *thread) {
  pid_t pid = thread->process->start.pid;
  struct schedule schedule;
  int fd = proc_open_schedule(pid, thread->tid);
  int64_t system_ns = proc_system_ns(pid, thread->tid);
  if (fd >= 0 && proc_schedule(fd, &schedule)) {
    thread->paused_ns += schedule.run_ns - thread->run_ns;
    thread->run_ns = schedule.run_ns;
  }
  if (fd >= 0) close(fd);
  if (system_ns < 0) return;
  thread->system_start_ns += system_ns - thread->system_seen_ns;
  thread->system_ns = thread->system_seen_ns = system_ns;
}

void attached_resume(void) {
  for (struct attached *process = first; process; process = process->next) {
    struct usage before = process->usage;
    for (struct attached_thread *thread = process->threads; thread; thread = thread->next) {
      leave_out(thread);
      events_enable(thread, true);
    }
    if (!proc_usage(process->start.pid, &process->usage)) continue;
    process->usage_start.own_ns += process->usage.own_ns - before.own_ns;
    process->usage_start.children_ns += process->usage.children_ns - before.children_ns;
  }
  resuming = true;
  attached_update(true);
  attached_begin_threads();
  resuming = false;
}
