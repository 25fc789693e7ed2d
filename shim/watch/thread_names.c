/* Follows the names of Python's threads. A thread's name is written when the thread begins and when it or its process
 * ends; this is for threads that are renamed in between and do not end, because they are killed or run on. */
#include "watch/thread_names.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/objects/thread_name.h"
#include "watch/asyncio.h"
#include "watch/reading/remote.h"
#include "watch/stack.h"
#include "watch/threads.h"

#define SEARCH_NS 200000000 /* pause between two searches for the module threading */
#define MODULE_DICT 16
#define AT_ONCE 64 /* names that one poll reads */
#define LEAST_PAUSE_NS 20000000
#define MOST_PAUSE_NS 5000000000
#define LEAST_SHARE 200 /* reading names may take 1/200 of a core, and less as long as none changes, */
#define MOST_SHARE 1600
#define ROW_PAUSE_NS 5000000 /* and one name may be written per 5 ms */

static bool has_ended(const void *thread) { return threads_left(thread); }

/* ---- the Threads of an attached process, which nobody has seen begin ---- */

/* Returns the dict threading._active, by ident; 0 = it was not found yet. */
static uintptr_t find_active(struct process *process) {
  struct thread_names *names = &process->thread_names;
  int64_t now_ns = clock_now_ns();
  if (names->active || now_ns - names->searched_ns < SEARCH_NS) return names->active;
  names->searched_ns = now_ns;
  struct kinds *kinds = &process->asyncio.kinds;
  uintptr_t modules = asyncio_modules(process, process->threads->entry.runtime);
  uintptr_t module = modules ? remote_find(kinds, modules, "threading") : 0;
  uintptr_t dict = module ? remote_word(module + MODULE_DICT) : 0;
  return names->active = dict ? remote_find(kinds, dict, "_active") : 0;
}

/* False = the thread has none, or its ident is not known. */
static bool find_thread(struct process *process, struct watched *thread) {
  if (thread->entry.python_thread) return true;
  uintptr_t active = process->attached && thread->entry.pthread ? find_active(process) : 0;
  uintptr_t found = active ? remote_find_number(&process->asyncio.kinds, active, thread->entry.pthread) : 0;
  if (found) threads_set_python_thread(thread, found);
  return found != 0;
}

/* ---- polls ---- */

/* Reads at most `most` names that this pass has not read yet. Returns their number, and adds up those that were
 * written. */
static int read_some(struct process *process, int most, int *written) {
  struct thread_names *names = &process->thread_names;
  int count = 0;
  names->under_way = false;
  for (struct watched *each = process->threads; each; each = each->next) {
    const struct thread_entry *entry = &each->entry;
    if (each->name_pass == names->pass || (!entry->python_thread && !process->attached)) continue;
    if (count == most) {
      names->under_way = true;
      break;
    }
    count++;
    each->name_pass = names->pass;
    if (!find_thread(process, each)) continue;
    *written += thread_name_update(target.layout, entry->thread, entry->python_thread, entry->pthread, false,
                                   &each->name, NULL, has_ended, each);
  }
  return count;
}

static bool is_due(const struct process *process, int64_t now_ns) {
  const struct thread_names *names = &process->thread_names;
  int64_t count = process->count < AT_ONCE ? process->count : AT_ONCE;
  int64_t pause_ns = names->cost_ns * count * names->share;
  if (pause_ns < names->rows_ns) pause_ns = names->rows_ns;
  if (pause_ns < LEAST_PAUSE_NS) pause_ns = LEAST_PAUSE_NS;
  return now_ns - names->polled_ns >= (pause_ns < MOST_PAUSE_NS ? pause_ns : MOST_PAUSE_NS);
}

static void poll_names(struct process *process, int64_t now_ns, int most) {
  struct thread_names *names = &process->thread_names;
  int64_t started_ns = clock_thread_cpu_ns();
  int written = 0, count = read_some(process, most, &written);
  names->polled_ns = now_ns;
  names->rows_ns = written * (int64_t)ROW_PAUSE_NS;
  if (!count) return;
  names->cost_ns = (clock_thread_cpu_ns() - started_ns) / count;
  names->share = written || !names->share ? LEAST_SHARE : 2 * names->share;
  if (names->share > MOST_SHARE) names->share = MOST_SHARE;
}

void thread_names_poll(struct process *process, int64_t now_ns, bool still, bool all) {
  struct thread_names *names = &process->thread_names;
  names->behind = names->behind || !still;
  if (names->behind && !names->under_way) {
    names->under_way = true;
    names->behind = false;
    names->pass++;
  }
  if (!names->under_way || !process->threads || process->refusals >= REFUSED) return;
  if ((!all && !is_due(process, now_ns)) || !stack_aim(process->threads)) return;
  if (target.layout->type_cached_keys >= 0) poll_names(process, now_ns, all ? SPOOL_THREAD_TABLE : AT_ONCE);
}
