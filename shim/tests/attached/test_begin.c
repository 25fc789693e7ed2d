/* attached.c and calls.c: the order in which a recording begins and ends, what a forked child does, and when the recorder has gone. Whatever
 * it calls is noted by its name. */
#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/accounts/live.h"
#include "inside/arenas/arenas.h"
#include "inside/attached/attached.h"
#include "inside/attached/loader.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/memory/memory.h"
#include "inside/memory/pyalloc.h"
#include "inside/python/python.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/random.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/table/entries.h"
#include "tests/check.h"

void *PyInit_scalene_attached(void);

static char noted[1024];
static void note(const char *name) {
  strcat(noted, name);
  strcat(noted, " ");
}
static void forget(void) { noted[0] = 0; }
/* True if these were noted, in this order. */
static bool was(const char *names) {
  const char *at = noted;
  char each[64];
  for (int length; sscanf(names, " %63s%n", each, &length) == 1; names += length) {
    if (!(at = strstr(at, each))) return false;
    at += strlen(each);
  }
  return true;
}

#define NOTES(function, arguments)                                                                                     \
  void function arguments { note(#function); }
#define GIVES(type, function, arguments, result)                                                                       \
  type function arguments { return result; }

/* ---- what it calls ---- */

static _Alignas(64) char space[SPOOL_THREAD_TABLE_OFFSET + sizeof(struct thread_entry)];
struct spool_header *spool = (struct spool_header *)space;
struct next_functions next = {.resolved = true};
enum memory_mode memory_mode;
uint32_t memory_session;
void (*memory_at_stop)(bool);
THREAD_LOCAL struct thread_state this_thread;
const struct python_layout *python_layout;
uint32_t python_version;
struct python_symbols python_symbols;
static const struct python_layout layout;
static bool has_arenas = true, is_child;
static void (*in_child)(void);
static enum loader_locks locks;

NOTES(arenas_release, (void))
NOTES(entries_begin, (uint32_t index __attribute__((unused))))
NOTES(entries_changed, (void))
NOTES(filters_watch, (void))
NOTES(events_end, (void))
NOTES(fork_begin_process, (void))
NOTES(fork_check, (void))
NOTES(fork_in_child, (void))
NOTES(kernel_clock_ensure, (void))
NOTES(live_release, (void))
NOTES(loader_end, (void))
NOTES(loader_postfork_child, (void))
NOTES(memory_begin_with, (int64_t total __attribute__((unused)), int64_t python __attribute__((unused))))
NOTES(memory_init, (void))
NOTES(memory_thread_end, (void))
NOTES(memory_write_heap, (void))
NOTES(next_resolve, (void))
NOTES(pristine_restore, (void))
NOTES(pyalloc_wrap, (void))
NOTES(safe_read_init, (void))
NOTES(slots_lead_back, (void))
NOTES(slots_lead_here, (void))
NOTES(slots_refresh, (int64_t now_ns __attribute__((unused))))
NOTES(spool_begin_process, (uint32_t process __attribute__((unused))))
NOTES(spool_close, (void))
NOTES(spool_finish_chunk, (void))
NOTES(spool_publish, (void *record __attribute__((unused)), unsigned kind __attribute__((unused)),
                      unsigned slots __attribute__((unused))))
NOTES(thread_ensure, (void))
NOTES(thread_set_begin, (void (*begin)(bool) __attribute__((unused))))
NOTES(threads_count, (int change __attribute__((unused))))
GIVES(int64_t, arenas_used_bytes, (void), 0)
GIVES(int64_t, clock_now_ns, (void), 1000000000)
GIVES(int64_t, clock_thread_cpu_ns, (void), 0)
GIVES(uint32_t, entries_take, (void), SPOOL_THREAD_TABLE)
GIVES(bool, fork_is_recorded_process, (void), !is_child)
GIVES(pid_t, fork_own_pid, (void), getpid())
GIVES(const char *, loader_find, (void), NULL)
GIVES(bool, next_has_libc_headers, (void), true)
GIVES(bool, older_arenas, (void), has_arenas)
GIVES(int64_t, older_native_bytes, (void), 0)
GIVES(bool, pristine_keep, (void), true)
GIVES(bool, pyalloc_can_wrap, (void), true)
GIVES(bool, pyalloc_find_places, (void), true)
GIVES(uint64_t, random_seed, (int32_t salt __attribute__((unused))), 1)
GIVES(bool, safe_read_refused, (void), false)
GIVES(bool, slots_are_libcs, (void), true)
GIVES(void *, spool_claim, (unsigned slots __attribute__((unused))), NULL)
GIVES(uint32_t, spool_new_thread, (void), 1)
GIVES(uint64_t, spool_pid_namespace, (void), 0)
GIVES(uint32_t, spool_process, (void), 1)

void python_init(void) {
  python_layout = &layout;
  python_symbols.data.start = 1;
}
bool pyalloc_unwrap(void) {
  note("pyalloc_unwrap");
  return true;
}
int spool_open(const char *path) {
  (void)path;
  note("spool_open");
  return 0;
}
void fork_watch(void (*child)(void)) {
  in_child = child;
  note("fork_watch");
}
bool loader_begin(enum loader_locks wanted) {
  locks = wanted;
  note("loader_begin");
  return true;
}
void loss_add(enum loss loss) { note(loss == LOSS_attached_memory_children ? "children" : "ended"); }

static int kill_error;
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
  if (number != SYS_kill || !kill_error) return __real_syscall(number, a, b, c, d, e, f);
  errno = kill_error;
  return -1;
}

/* ---- the interpreter that runs the script ---- */

static char command[256], path[64], answer[64];
static void *error_type;
static void *get_object(const char *name) { return strcmp(name, "_scalene_trace") ? NULL : command; }
static int set_object(const char *name, void *value) { return name && !value ? 0 : -1; }
static const char *as_text(void *object) { return object; }
static void set_error(void *type, const char *text) { (void)type, (void)text; }
void *__wrap_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name) {
  (void)handle;
  if (strcmp(name, "PySys_GetObject") == 0) return (void *)&get_object;
  if (strcmp(name, "PySys_SetObject") == 0) return (void *)&set_object;
  if (strcmp(name, "PyUnicode_AsUTF8") == 0) return (void *)&as_text;
  if (strcmp(name, "PyErr_SetString") == 0) return (void *)&set_error;
  return &error_type;
}

/* Carries out a command, and returns the answer. */
static const char *tell(const char *what) {
  forget();
  snprintf(command, sizeof command, "%s\n%s", path, what);
  check(!PyInit_scalene_attached());
  FILE *file = fopen(path, "r");
  check(file && fgets(answer, sizeof answer, file));
  fclose(file);
  check(!unlink(path));
  answer[strcspn(answer, "\n")] = 0;
  return answer;
}

/* ---- tests ---- */

/* A child that is forked at any moment must not record as its parent, and slots lead here last: all is ready then. */
static void test_the_order(void) {
  check(strcmp(tell("start /spool"), "done") == 0 && locks == BOTH_LOCKS);
  check(was("loader_begin fork_watch fork_begin_process spool_open spool_begin_process thread_set_begin memory_init "
            "pyalloc_wrap slots_lead_here loader_end"));
  check(strcmp(tell("start /spool"), "recorded") == 0);
  check(strcmp(tell("stop"), "done") == 0 && locks == LIST_LOCK && memory_mode == MEMORY_FORWARD);
  check(was("loader_begin pyalloc_unwrap slots_lead_back loader_end spool_finish_chunk spool_close"));
  check(strcmp(tell("stop"), "not recorded") == 0);
}

static void test_a_beginning_that_fails_is_taken_back(void) {
  has_arenas = false;
  check(strcmp(tell("start /spool"), "arenas") == 0 && was("spool_open slots_lead_back loader_end spool_close"));
  check(!attached_is_on());
  has_arenas = true;
}

static void test_a_forked_child(void) {
  check(strcmp(tell("start /spool"), "done") == 0);
  pid_t child = fork();
  check(child >= 0);
  if (!child) {
    forget();
    is_child = true;
    in_child();
    check(was("loader_postfork_child children spool_close") && memory_mode == MEMORY_FORWARD && !attached_is_on());
    forget();
    in_child();
    check(was("loader_postfork_child") && !was("spool_close"));
    _exit(0);
  }
  int status;
  check(__real_syscall(SYS_wait4, child, (long)&status, 0, 0, 0, 0) == child && !status);
  check(attached_is_on());
}

/* It is asked every quarter of a second, but the clock stands still. */
static void test_a_recorder_that_may_not_be_signalled_lives(void) {
  kill_error = EPERM; /* the program has become another user */
  forget();
  memory_at_stop(true);
  check(attached_is_on() && was("slots_refresh"));
  kill_error = ESRCH;
  check(strcmp(tell("start /spool"), "done") == 0); /* the one before has gone */
  check(was("pyalloc_unwrap slots_lead_back spool_close spool_open"));
  kill_error = 0;
}

int main(void) {
  snprintf(path, sizeof path, "/tmp/test_begin.%d", (int)getpid());
  spool->table_end = 1;
  spool->features = FEATURE_CHILDREN;
  *entries_at(0) = (struct thread_entry){.state = ENTRY_LIVE, .pid = getpid(), .process = 1};
  test_the_order();
  test_a_beginning_that_fails_is_taken_back();
  test_a_forked_child();
  test_a_recorder_that_may_not_be_signalled_lives();
  puts("ok");
  return 0;
}
