/* The interposed exec and spawn functions. They pass on what the new image needs to be recorded, whatever environment
 * the program gives it.
 *
 * All of it may run in a vfork child, which shares its parent's memory. So no static state changes, and nothing is
 * allocated that exec would leave behind in the parent (except environments that are too large for the stack). errno is
 * preserved, and calls that do not concern us fail exactly as they do without the shim. */
#undef _FORTIFY_SOURCE
#include <alloca.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/processes/environment.h"
#include "inside/processes/process.h"
#include "inside/signals/signals.h"
#include "shared/base.h"
#include "shared/executable.h"
#include "shared/loss.h"
#include "shared/sealed/sealed.h"
#include "shared/spool.h"

/* ---- the calls ---- */

enum exec_kind { EXEC, EXEC_PATH, EXEC_FD, EXEC_AT, SPAWN, SPAWN_PATH };

struct exec_call {
  enum exec_kind kind;
  int fd; /* EXEC_FD, EXEC_AT */
  int flags;
  const char *path;
  char *const *arguments;
  char *const *environment;
  pid_t *pid; /* SPAWN and SPAWN_PATH */
  const posix_spawn_file_actions_t *actions;
  const posix_spawnattr_t *attributes;
};

static bool spawns(const struct exec_call *call) { return call->kind == SPAWN || call->kind == SPAWN_PATH; }

static int run(const struct exec_call *call, char *const *environment) {
  switch (call->kind) {
  case EXEC: return next.execve(call->path, call->arguments, environment);
  case EXEC_PATH: return next.execvpe(call->path, call->arguments, environment);
  case EXEC_FD: return next.fexecve(call->fd, call->arguments, environment);
  case EXEC_AT: return next.execveat(call->fd, call->path, call->arguments, environment, call->flags);
  case SPAWN:
    return next.posix_spawn(call->pid, call->path, call->actions, call->attributes, call->arguments, environment);
  default:
    return next.posix_spawnp(call->pid, call->path, call->actions, call->attributes, call->arguments, environment);
  }
}

/* What is known of the file that a call will run. */
struct image {
  bool exists; /* else the call will only fail */
  enum executable_kind kind;
};

static struct image find_named_image(const struct exec_call *call) {
  char found[PATH_MAX];
  bool search = (call->kind == EXEC_PATH || call->kind == SPAWN_PATH) && strchr(call->path, '/') == NULL;
  if (search && !executable_find(found, call->path)) return (struct image){false, EXECUTABLE_RECORDABLE};
  const char *path = search ? found : call->path;
  if (!search && !executable_may_run(path)) return (struct image){false, EXECUTABLE_RECORDABLE};
  return (struct image){true, executable_kind_at(AT_FDCWD, path)};
}

static struct image find_image(const struct exec_call *call) {
  if (call->kind == EXEC_FD) return (struct image){true, executable_kind_open(call->fd, "")};
  if (call->path == NULL) return (struct image){false, EXECUTABLE_RECORDABLE};
  if (call->kind != EXEC_AT) return find_named_image(call);
  if (call->path[0] == '\0') return (struct image){true, executable_kind_open(call->fd, "")};
  return (struct image){true, executable_kind_at(call->fd, call->path)};
}

static void count_unrecorded(enum executable_kind kind) {
  int loss = executable_loss(kind);
  if (loss >= 0) loss_add((enum loss)loss);
}

/* Runs the call between its preparations and their reversal. The new image gets the signal mask that the program has
 * set, and for an exec, the records of the old image end. */
static int run_prepared(const struct exec_call *call, char *const *environment) {
  if (!spawns(call))
    process_before_exec(); /* first, so that no tick arrives between the change of the real mask and the new image */
  signals_before_exec();
  int result = run(call, environment);
  int error = errno;
  signals_after_failed_exec();
  if (!spawns(call)) process_after_failed_exec();
  errno = error;
  return result;
}

#define STACK_LIMIT_BYTES 16384

/* A plain system call, because the interposed mmap counts memory. */
static void *map_block(size_t bytes) {
  void *block = (void *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
  if (block != MAP_FAILED) return block;
  loss_add(LOSS_environment_lost);
  return NULL;
}

static int run_with_changed_environment(const struct exec_call *call, const struct environment *found,
                                        enum environment_change change) {
  size_t bytes = environment_bytes(found);
  bool large = bytes > STACK_LIMIT_BYTES;
  void *memory = large ? map_block(bytes) : alloca(bytes);
  if (memory == NULL) return run_prepared(call, call->environment);
  int result = run_prepared(call, environment_build(found, change, memory));
  int error = errno;
  if (large) syscall(SYS_munmap, memory, bytes);
  errno = error;
  return result;
}

/* The kind of the image in the environment that it is started with. */
static enum executable_kind kind_with(enum executable_kind kind, const struct environment *found) {
  bool sanitizer = found->preload != NULL && executable_preload_has_sanitizer(found->preload);
  return kind == EXECUTABLE_RECORDABLE && sanitizer ? EXECUTABLE_REFUSES : kind;
}

#define SEALED_STACK_BYTES 131072

/* The new image has our filter, so it must run without the shim. Only memory is read and written here. */
static int start_sealed_image(const struct exec_call *call) {
  struct environment found = environment_read(call->environment);
  size_t bytes = environment_bytes(&found);
  bool flagged = seal_end_vfork_child(); /* its memory is its parent's, where the flag must not stay */
  if (spool) loss_add(LOSS_seccomp);
  bool unchanged = environment_needed_change(&found, false) == UNCHANGED || bytes > SEALED_STACK_BYTES;
  int result =
      unchanged ? run(call, call->environment) : run(call, environment_build(&found, REMOVE_OURS, alloca(bytes)));
  if (flagged) seal_vfork_child(true);
  return result;
}

static int start_image(const struct exec_call *call) {
  next_ensure();
  if (sealed()) return start_sealed_image(call);
  if (fork_own_pid() == 0) return run(call, call->environment); /* nothing is recorded here, nor was it ever */
  if (fork_shares_memory() && !arch_thread_is_set_up()) return run(call, call->environment);
  fork_check();
  int error = errno;
  struct image image = {true, EXECUTABLE_RECORDABLE};
  if (recording()) image = find_image(call);
  errno = error;
  /* A spawn may change its directory first, and find the file there. */
  if (!image.exists && !spawns(call)) return run(call, call->environment);
  struct environment found = environment_read(call->environment);
  enum executable_kind kind = kind_with(image.kind, &found);
  if (recording()) count_unrecorded(kind);
  enum environment_change change = environment_needed_change(&found, kind != EXECUTABLE_REFUSES);
  return change == UNCHANGED ? run_prepared(call, call->environment)
                             : run_with_changed_environment(call, &found, change);
}

/* ---- exported ---- */

static int exec_path(const char *path, char *const arguments[], char *const environment[]) {
  return start_image(
      &(struct exec_call){.kind = EXEC, .path = path, .arguments = arguments, .environment = environment});
}

static int exec_name(const char *name, char *const arguments[], char *const environment[]) {
  return start_image(
      &(struct exec_call){.kind = EXEC_PATH, .path = name, .arguments = arguments, .environment = environment});
}

EXPORT int execve(const char *path, char *const arguments[], char *const environment[]) {
  return exec_path(path, arguments, environment);
}

EXPORT int execv(const char *path, char *const arguments[]) { return exec_path(path, arguments, environ); }

EXPORT int execvp(const char *name, char *const arguments[]) { return exec_name(name, arguments, environ); }

EXPORT int execvpe(const char *name, char *const arguments[], char *const environment[]) {
  return exec_name(name, arguments, environment);
}

EXPORT int fexecve(int fd, char *const arguments[], char *const environment[]) {
  return start_image(
      &(struct exec_call){.kind = EXEC_FD, .fd = fd, .arguments = arguments, .environment = environment});
}

EXPORT int execveat(int directory, const char *path, char *const arguments[], char *const environment[], int flags) {
  next_ensure();
  if (next.execveat == NULL) return (int)syscall(SYS_execveat, directory, path, arguments, environment, flags);
  return start_image(&(struct exec_call){.kind = EXEC_AT,
                                         .fd = directory,
                                         .flags = flags,
                                         .path = path,
                                         .arguments = arguments,
                                         .environment = environment});
}

/* Returns the number of arguments, including the terminating null. */
static size_t count_arguments(const char *first, va_list *arguments) {
  size_t count = 1;
  for (const char *at = first; at != NULL; count++) at = va_arg(*arguments, const char *);
  return count;
}

/* Copies all arguments and the null. The list then stands after the null, where execle has its environment. */
static void copy_arguments(char **to, const char *first, va_list *arguments) {
  for (const char *at = first;; at = va_arg(*arguments, const char *)) {
    *to++ = (char *)at;
    if (at == NULL) return;
  }
}

EXPORT int execl(const char *path, const char *first, ...) {
  va_list list;
  va_start(list, first);
  size_t count = count_arguments(first, &list);
  va_end(list);
  char *arguments[count];
  va_start(list, first);
  copy_arguments(arguments, first, &list);
  va_end(list);
  return exec_path(path, arguments, environ);
}

EXPORT int execlp(const char *name, const char *first, ...) {
  va_list list;
  va_start(list, first);
  size_t count = count_arguments(first, &list);
  va_end(list);
  char *arguments[count];
  va_start(list, first);
  copy_arguments(arguments, first, &list);
  va_end(list);
  return exec_name(name, arguments, environ);
}

EXPORT int execle(const char *path, const char *first, ...) {
  va_list list;
  va_start(list, first);
  size_t count = count_arguments(first, &list);
  va_end(list);
  char *arguments[count];
  va_start(list, first);
  copy_arguments(arguments, first, &list);
  char *const *environment = va_arg(list, char *const *);
  va_end(list);
  return exec_path(path, arguments, environment);
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
  return start_image(&(struct exec_call){.kind = SPAWN,
                                         .path = path,
                                         .arguments = arguments,
                                         .environment = environment,
                                         .pid = pid,
                                         .actions = actions,
                                         .attributes = attributes});
}

EXPORT int posix_spawnp(pid_t *pid, const char *name, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
  return start_image(&(struct exec_call){.kind = SPAWN_PATH,
                                         .path = name,
                                         .arguments = arguments,
                                         .environment = environment,
                                         .pid = pid,
                                         .actions = actions,
                                         .attributes = attributes});
}

/* libc starts the shell itself, with `environ` and the real signal mask as they are. */
static void before_shell(void) {
  int error = errno;
  struct environment found = environment_read(environ);
  next_ensure();
  if (sealed()) {
    if (spool) loss_add(LOSS_seccomp);
    environment_remove_ours(&found);
    return;
  }
  enum executable_kind kind = kind_with(EXECUTABLE_RECORDABLE, &found);
  enum environment_change change = environment_needed_change(&found, kind != EXECUTABLE_REFUSES);
  if (recording()) count_unrecorded(kind);
  if (change == ADD_OURS) loss_add(LOSS_environment_lost);
  if (change == REMOVE_OURS) environment_remove_ours(&found);
  signals_before_exec();
  errno = error;
}

EXPORT int system(const char *command) {
  if (command != NULL) before_shell();
  next_ensure();
  int result = next.system(command);
  if (command != NULL) signals_after_failed_exec();
  return result;
}

EXPORT FILE *popen(const char *command, const char *mode) {
  before_shell();
  FILE *result = next.popen(command, mode);
  signals_after_failed_exec();
  return result;
}
