/* Finds the asyncio tasks of an observed process: the weak set in the module asyncio.tasks, from 3.14 on also lists, and
 * which thread runs which event loop. A task is observed only if a thread runs its loop; a forked child, for example, has
 * copies of its parent's tasks that never run. */
#include "watch/asyncio.h"

#include "shared/base.h"
#include "shared/clock.h"
#include "shared/objects/instances.h"
#include "shared/objects/reads.h"
#include "shared/saferead.h"
#include "shared/stacks/pylayout.h"
#include "shared/words.h"
#include "watch/reading/lists.h"
#include "watch/reading/observation.h"
#include "watch/reading/remote.h"
#include "watch/stack.h"
#include "watch/threads.h"

#define SEARCH_NS 15000000          /* least pause between two searches for asyncio.tasks, */
#define SEARCH_SHARE 100            /* which may take 1/100 of a core; */
#define SEARCH_AGAIN_NS 10000000000 /* after this time, search even if the number of modules is the same */
#define LOOPS_NS 10000000           /* pause between two searches for the thread of an unknown loop, */
#define LOOPS_THREAD_NS 1000000     /* plus this much for each thread */
#define SETTLED_NS 10000000         /* CPU time after which a forked child has certainly left its parent's loop */
#define MODULE_DICT 16
#define DICT_USED 16
#define HOLDER_LOOP 16 /* 3.10 and 3.11: in the _RunningLoopHolder that the thread's dict holds */
#define HOLDER_PID 24
#define FIRST_COROUTINE 96 /* the coroutine of a C task follows the fields of a future */
#define MOST_TASK_BYTES 512

/* ---- the set ---- */

static uintptr_t find_module(struct asyncio *asyncio, int64_t now_ns) {
  uintptr_t used = remote_word(asyncio->modules + DICT_USED);
  if (used == asyncio->modules_used && now_ns < asyncio->scanned_ns + SEARCH_AGAIN_NS) return 0;
  asyncio->scanned_ns = now_ns;
  asyncio->modules_used = used;
  return remote_find(&asyncio->kinds, asyncio->modules, "asyncio.tasks");
}

/* Returns the address of the set that a WeakSet holds; 0 = not found. */
static uintptr_t set_of(uintptr_t weak) {
  static const char *const name = "data";
  uintptr_t set = 0;
  struct instance_path path;
  struct reads reads;
  return instance_attributes(target.layout, weak, &name, 1, &set, &path, &reads) ? set : 0;
}

static uintptr_t find_set(struct asyncio *asyncio) {
  uintptr_t dict = remote_word(asyncio->module + MODULE_DICT);
  uintptr_t weak = dict ? remote_find(&asyncio->kinds, dict, "_scheduled_tasks") : 0; /* 3.12 on */
  if (dict && !weak) weak = remote_find(&asyncio->kinds, dict, "_all_tasks");
  return weak ? set_of(weak) : 0;
}

uintptr_t asyncio_modules(struct process *process, uintptr_t runtime) {
  struct asyncio *asyncio = &process->asyncio;
  uintptr_t interpreter = asyncio->modules ? 0 : remote_main_interpreter(runtime);
  if (interpreter) asyncio->modules = remote_word(interpreter + (uintptr_t)target.layout->interp_modules);
  return asyncio->modules;
}

static void search(struct process *process, uintptr_t runtime, int64_t now_ns) {
  struct asyncio *asyncio = &process->asyncio;
  if (asyncio_modules(process, runtime) && !asyncio->module) asyncio->module = find_module(asyncio, now_ns);
  if (asyncio->module) asyncio->tasks = find_set(asyncio);
}

bool asyncio_find(struct process *process, uintptr_t runtime, int64_t now_ns) {
  struct asyncio *asyncio = &process->asyncio;
  if (asyncio->tasks) return true;
  int64_t started_ns = clock_thread_cpu_ns();
  search(process, runtime, now_ns);
  if (asyncio->tasks) return true;
  int64_t pause_ns = (clock_thread_cpu_ns() - started_ns) * SEARCH_SHARE;
  asyncio->polls.due_ns = now_ns + (pause_ns > SEARCH_NS ? pause_ns : SEARCH_NS);
  asyncio->polls.polled_ns = now_ns; /* tasks that the next search finds are newer than this */
  return false;
}

/* ---- the lists ---- */

/* Keeps those that do not lead to themselves: of a thousand threads, one or two have tasks. */
static int without_empty(uintptr_t *heads, int count) {
  static uintptr_t words[2 * TASK_LISTS];
  int kept = 0;
  remote_read_each((char *)words, heads, count, 2 * sizeof *words);
  for (int i = 0; i < count; i++) {
    if (words[2 * (size_t)i] != heads[i]) heads[kept++] = heads[i];
  }
  return kept;
}

/* From 3.14 on, each thread state has a list of the tasks that the thread has created, and the interpreter has one of
 * those whose thread has ended. Tasks that are not based on the C task are in the set, as before. */
int asyncio_lists(struct process *process, uintptr_t runtime, uintptr_t *heads) {
  const struct python_layout *layout = process->layout;
  uintptr_t interpreter = layout->tstate_tasks < 0 ? 0 : remote_main_interpreter(runtime);
  if (!interpreter) return 0;
  uintptr_t newest = remote_word(interpreter + (uintptr_t)layout->interp_threads);
  int states = list_chain(newest, layout->tstate_next, heads + 1, TASK_LISTS - 1);
  process->asyncio.polls.unread_now += states == TASK_LISTS - 1;
  heads[0] = interpreter + (uintptr_t)layout->interp_tasks;
  for (int i = 1; i <= states; i++) heads[i] += (uintptr_t)layout->tstate_tasks;
  return without_empty(heads, states + 1);
}

/* ---- the loops ---- */

static uintptr_t loop_of_holder(struct process *process, uintptr_t holder) {
  char bytes[32];
  int32_t pid;
  if (!holder || !safe_read(bytes, (void *)holder, sizeof bytes)) return 0;
  if (remote_kind(&process->asyncio.kinds, word_at(bytes, OBJECT_TYPE)) != KIND_HOLDER) return holder; /* 3.12 */
  memcpy(&pid, bytes + HOLDER_PID, sizeof pid);
  return pid == process->pid ? word_at(bytes, HOLDER_LOOP) : 0; /* a forked child has its parent's loop */
}

static uintptr_t loop_of(struct process *process, uintptr_t state) {
  const struct python_layout *layout = target.layout;
  if (layout->tstate_loop >= 0) return remote_word(state + (uintptr_t)layout->tstate_loop);
  uintptr_t dict = remote_word(state + (uintptr_t)layout->tstate_dict);
  if (!dict) return 0;
  return loop_of_holder(process, remote_find(&process->asyncio.kinds, dict, "__asyncio_running_event_loop__"));
}

static void store_loop(struct asyncio *asyncio, uintptr_t loop, uint32_t thread) {
  for (uint32_t i = 0; i < LOOPS; i++) {
    if (asyncio->loops[i].loop == loop) {
      asyncio->loops[i].thread = thread;
      return;
    }
  }
  asyncio->loops[asyncio->loop_turn++ % LOOPS] = (struct event_loop){loop, thread};
}

/* True if the thread's loop can be trusted. From 3.12 on, a forked child has its parent's loop until Python removes it.
 * That takes little CPU time, but may take long on a loaded machine. The child does not block before it, so a thread
 * that has blocked or used SETTLED_NS of CPU time is past that point. */
static bool is_settled(const struct watched *thread) {
  return thread->condition == CONDITION_BLOCKED || thread->seen.run_ns - thread->entry.cpu_start_ns >= SETTLED_NS;
}

static void search_loops(struct process *process, int64_t now_ns) {
  for (struct watched *each = process->threads; each; each = each->next) {
    if (!is_settled(each)) continue;
    uintptr_t state = stack_state(each, now_ns), loop = state ? loop_of(process, state) : 0;
    if (loop) store_loop(&process->asyncio, loop, each->entry.thread);
  }
}

uint32_t asyncio_thread(struct process *process, uintptr_t loop, int64_t now_ns) {
  struct asyncio *asyncio = &process->asyncio;
  for (int attempt = 0; attempt < 2; attempt++) {
    for (uint32_t i = 0; i < LOOPS; i++) {
      if (loop && asyncio->loops[i].loop == loop) return asyncio->loops[i].thread;
    }
    if (attempt || now_ns < asyncio->loops_ns) break;
    asyncio->loops_ns = now_ns + LOOPS_NS + LOOPS_THREAD_NS * (int64_t)process->count;
    search_loops(process, now_ns);
  }
  return 0;
}

/* ---- a task ---- */

static bool is_coroutine(struct asyncio *asyncio, uintptr_t object) {
  enum kind kind =
      object && !(object & 7) ? remote_kind(&asyncio->kinds, remote_word(object + OBJECT_TYPE)) : KIND_OTHER;
  return kind == KIND_COROUTINE || kind == KIND_GENERATOR;
}

/* The offset of the coroutine in C tasks is in no public header and differs between patch releases, so it is searched
 * in the first task that has a coroutine. The future that the task waits for precedes the coroutine, the task's name
 * follows it. */
int asyncio_coroutine_at(struct process *process, uintptr_t task) {
  struct asyncio *asyncio = &process->asyncio;
  char bytes[MOST_TASK_BYTES];
  if (asyncio->coroutine_at) return asyncio->coroutine_at;
  size_t size = remote_instance_bytes(remote_word(task + OBJECT_TYPE));
  if (size > sizeof bytes || !safe_read(bytes, (void *)task, size)) return 0;
  for (int at = FIRST_COROUTINE; at + 16 <= (int)size && !asyncio->coroutine_at; at += 8) {
    if (is_coroutine(asyncio, word_at(bytes, at))) asyncio->coroutine_at = at;
  }
  return asyncio->coroutine_at;
}

static bool is_task(struct asyncio *asyncio, uintptr_t object, int node_at) {
  uintptr_t type = remote_word(object + OBJECT_TYPE);
  return type >= 65536 && !(type & 7) && remote_kind(&asyncio->kinds, type) == KIND_TASK &&
         remote_instance_bytes(type) >= (size_t)node_at + 16;
}

/* The offset of the node is in no public header, either. It follows the coroutine. */
uintptr_t asyncio_task_of(struct process *process, uintptr_t node) {
  struct asyncio *asyncio = &process->asyncio;
  for (int at = FIRST_COROUTINE + 8; !asyncio->node_at && at < MOST_TASK_BYTES; at += 8) {
    uintptr_t task = node - (uintptr_t)at;
    if (!is_task(asyncio, task, at)) continue;
    int coroutine_at = asyncio_coroutine_at(process, task);
    if (coroutine_at && coroutine_at < at) asyncio->node_at = at;
  }
  return asyncio->node_at ? node - (uintptr_t)asyncio->node_at : 0;
}
