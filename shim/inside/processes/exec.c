/* New images: exec and spawn calls hand on what the child needs to be recorded, whatever environment the program gives.
 *
 * All of it may run in a vfork child, which shares its parent's memory: no static state changes, nothing is allocated
 * that exec would leave behind in the parent (but for environments too large for the stack), errno is kept, and what is
 * not our business fails exactly as it does without us. */
#undef _FORTIFY_SOURCE
#include "inside/processes/exec.h"

#include <alloca.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "formats/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/processes/process.h"
#include "inside/signals/signals.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/spool.h"

#define PRELOAD "LD_PRELOAD="
#define SPOOL "SCALENE_TRACE_SPOOL="
#define STACK_LIMIT_BYTES 16384

extern char **environ;

static char library_entry[sizeof PRELOAD + PATH_MAX]; /* "LD_PRELOAD=/path/to/us" */
static char spool_entry[sizeof SPOOL + PATH_MAX];
static const char *const our_library = library_entry + sizeof PRELOAD - 1;

void exec_init(const char *library, const char *spool_path) {
  if (strlen(library) >= PATH_MAX || strlen(spool_path) >= PATH_MAX) return;
  strcpy(stpcpy(library_entry, PRELOAD), library);
  strcpy(stpcpy(spool_entry, SPOOL), spool_path);
}

/* ---- the environment that a child gets ---- */

static const char *value_of(const char *entry, const char *name_and_equals) {
  size_t length = strlen(name_and_equals);
  return strncmp(entry, name_and_equals, length) == 0 ? entry + length : NULL;
}

/* The loader splits at both. */
static bool separates(char c) { return c == ':' || c == ' '; }

static size_t item_length(const char *item) { return strcspn(item, ": "); }

static bool is_our_library(const char *item, size_t length) {
  return strncmp(item, our_library, length) == 0 && our_library[length] == '\0';
}

static bool lists_our_library(const char *preload) {
  for (const char *at = preload; *at != '\0'; at += separates(*at)) {
    size_t length = item_length(at);
    if (length > 0 && is_our_library(at, length)) return true;
    at += length;
  }
  return false;
}

/* What the given environment holds of ours. */
struct environment {
  char *const *entries;
  size_t count;
  const char *preload; /* value of its last LD_PRELOAD, the one that counts; null = none */
  const char *spool;   /* value of its last SCALENE_TRACE_SPOOL; null = none */
};

static struct environment look_at(char *const *entries) {
  static char *const none[] = {NULL};
  struct environment found = {.entries = entries != NULL ? entries : none};
  for (; found.entries[found.count] != NULL; found.count++) {
    const char *preload = value_of(found.entries[found.count], PRELOAD);
    const char *spool_value = value_of(found.entries[found.count], SPOOL);
    if (preload != NULL) found.preload = preload;
    if (spool_value != NULL) found.spool = spool_value;
  }
  return found;
}

static bool our_spool(const struct environment *found) {
  return found->spool != NULL && strcmp(found->spool, spool_entry + sizeof SPOOL - 1) == 0;
}

static bool has_library(const struct environment *found) {
  return found->preload != NULL && lists_our_library(found->preload);
}

static bool follows(void) { return (spool->features & FEATURE_CHILDREN) != 0; }

#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif

/* By the effective user where the kernel (5.8) can tell. */
static bool may_open(const char *path, int mode) {
  if (syscall(SYS_faccessat2, AT_FDCWD, path, mode, AT_EACCESS) == 0) return true;
  return errno == ENOSYS && syscall(SYS_faccessat, AT_FDCWD, path, mode) == 0;
}

/* After chroot, setns or setuid our files may be out of reach. Then a child cannot be recorded, and the loader would say
 * on its stderr that it does not find us. */
static bool within_reach(void) {
  int error = errno;
  bool library = may_open(our_library, R_OK), file = library && may_open(spool_entry + sizeof SPOOL - 1, R_OK | W_OK);
  if (!library) loss_add(LOSS_environment_lost);
  if (library && !file) loss_add(LOSS_process_slots);
  errno = error;
  return file;
}

/* What a child's environment is to hold of ours. Another spool than ours: the child belongs to another recorder. */
enum wanted { AS_IT_IS, WITH_OURS, WITHOUT_OURS };

static enum wanted wanted_in(const struct environment *found) {
  if (library_entry[0] == '\0' || (found->spool != NULL && !our_spool(found))) return AS_IT_IS;
  bool whole = found->spool != NULL && has_library(found), none = found->spool == NULL && !has_library(found);
  if (recording() && follows() && within_reach()) return whole ? AS_IT_IS : WITH_OURS;
  return none ? AS_IT_IS : WITHOUT_OURS;
}

/* One pointer for each entry, for the two of ours and the null; then the string that is new. */
static size_t pointers_needed(const struct environment *found) { return found->count + 3; }

static size_t bytes_needed(const struct environment *found) {
  size_t entry = strlen(library_entry) + 2 + (found->preload != NULL ? strlen(found->preload) : 0);
  return pointers_needed(found) * sizeof(char *) + entry;
}

/* Our library first, then theirs. */
static void write_with(char *to, const struct environment *found) {
  to = stpcpy(to, library_entry);
  if (found->preload == NULL || found->preload[0] == '\0') return;
  *to++ = ':';
  strcpy(to, found->preload);
}

/* Their libraries without ours; false when none is left. */
static bool write_without(char *to, const char *preload) {
  char *start = to = stpcpy(to, PRELOAD);
  for (const char *at = preload; *at != '\0'; at += separates(*at)) {
    size_t length = item_length(at);
    if (length > 0 && !is_our_library(at, length)) {
      if (to != start) *to++ = ':';
      memcpy(to, at, length);
      to += length;
    }
    at += length;
  }
  *to = '\0';
  return to != start;
}

static char *const *build_followed(const struct environment *found, void *memory) {
  char **out = memory, *text = (char *)(out + pointers_needed(found));
  bool keep = has_library(found);
  size_t used = 0;
  for (size_t i = 0; i < found->count; i++)
    if (keep || value_of(found->entries[i], PRELOAD) == NULL) out[used++] = found->entries[i];
  if (found->spool == NULL) out[used++] = spool_entry;
  if (!keep) {
    write_with(text, found);
    out[used++] = text;
  }
  out[used] = NULL;
  return out;
}

static char *const *build_unfollowed(const struct environment *found, void *memory) {
  char **out = memory, *text = (char *)(out + pointers_needed(found));
  bool change = has_library(found), others = change && write_without(text, found->preload);
  size_t used = 0;
  for (size_t i = 0; i < found->count; i++) {
    bool preload = value_of(found->entries[i], PRELOAD) != NULL;
    bool drop = (change && preload) || value_of(found->entries[i], SPOOL) != NULL;
    if (!drop) out[used++] = found->entries[i];
  }
  if (others) out[used++] = text;
  out[used] = NULL;
  return out;
}

static char *const *build(const struct environment *found, enum wanted wanted, void *memory) {
  return wanted == WITH_OURS ? build_followed(found, memory) : build_unfollowed(found, memory);
}

/* By the kernel's number: our own mmap, where there is one, counts memory. */
static void *map_block(size_t bytes) {
  void *block = (void *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
  if (block != MAP_FAILED) return block;
  loss_add(LOSS_environment_lost);
  return NULL;
}

/* ---- the file that will run ---- */

static int open_file(int directory, const char *path) {
  return (int)syscall(SYS_openat, directory, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
}

static ssize_t read_at(int fd, void *to, size_t bytes, size_t offset) {
  return syscall(SYS_pread64, fd, to, bytes, offset);
}

static bool may_run(const char *path) {
  struct stat file;
  return stat(path, &file) == 0 && S_ISREG(file.st_mode) && (file.st_mode & 0111);
}

/* The loader ignores preloads in programs that gain rights. */
static bool gains_rights(const struct stat *file) {
  bool user = (file->st_mode & S_ISUID) && file->st_uid != geteuid();
  bool group = (file->st_mode & S_ISGID) && (file->st_mode & S_IXGRP) && file->st_gid != getegid();
  bool already = geteuid() != getuid() || getegid() != getgid(); /* it keeps what the caller has gained */
  return S_ISREG(file->st_mode) && (user || group || already);
}

/* 1 = found, 0 = not, -1 = unreadable. */
static int names_a_loader(int fd, const Elf64_Ehdr *header) {
  for (unsigned i = 0; i < header->e_phnum && i < 64; i++) {
    Elf64_Phdr segment;
    size_t offset = header->e_phoff + (size_t)i * sizeof segment;
    if (read_at(fd, &segment, sizeof segment, offset) != (ssize_t)sizeof segment) return -1;
    if (segment.p_type == PT_INTERP) return 1;
  }
  return 0;
}

/* The loader itself, started as a program, names no loader and does honour a preload. */
static bool is_a_loader(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
  return strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "ld.so", 5) == 0 || strncmp(name, "ld-2.", 5) == 0;
}

static void judge_elf(int fd, const Elf64_Ehdr *header, const char *path) {
  struct stat file;
  if (fstat(fd, &file) == 0 && gains_rights(&file))
    loss_add(LOSS_unrecorded_setuid);
  else if (header->e_ident[EI_CLASS] == ELFCLASS64 && names_a_loader(fd, header) == 0 && !is_a_loader(path))
    loss_add(LOSS_unrecorded_static);
}

/* Cuts the interpreter out of a "#!" line, in place; null when there is none. */
static const char *interpreter_in(char *line) {
  char *start = line + 2 + strspn(line + 2, " \t");
  start[strcspn(start, " \t\n")] = '\0';
  return *start != '\0' ? start : NULL;
}

static void judge_path(int directory, const char *path, bool script);

static void judge_open(int fd, const char *path, bool script) {
  union {
    Elf64_Ehdr elf;
    char line[256];
  } head;
  ssize_t got = read_at(fd, &head, sizeof head - 1, 0);
  if (got < 4) return;
  head.line[got] = '\0';
  if (memcmp(head.line, "#!", 2) == 0) {
    const char *interpreter = script ? interpreter_in(head.line) : NULL;
    if (interpreter != NULL) judge_path(AT_FDCWD, interpreter, false);
  } else if (got >= (ssize_t)sizeof head.elf && memcmp(head.line, ELFMAG, SELFMAG) == 0) {
    judge_elf(fd, &head.elf, path);
  }
}

/* A program may be there to run and not to read. */
static void judge_unreadable(int directory, const char *path) {
  struct stat file;
  if (fstatat(directory, path, &file, 0) == 0 && gains_rights(&file)) loss_add(LOSS_unrecorded_setuid);
}

/* Counts a loss when the file cannot be recorded. script: may be one. */
static void judge_path(int directory, const char *path, bool script) {
  int fd = open_file(directory, path);
  if (fd < 0) {
    judge_unreadable(directory, path);
    return;
  }
  judge_open(fd, path, script);
  syscall(SYS_close, fd);
}

/* The first file of that name on PATH that may run, as execvp looks for it. */
static bool find_on_path(char *to, const char *name) {
  const char *path = getenv("PATH");
  size_t name_length = strlen(name);
  for (const char *at = path != NULL ? path : "/bin:/usr/bin";; at++) {
    size_t length = strcspn(at, ":");
    if (length + name_length + 2 <= PATH_MAX) {
      memcpy(to, at, length);
      to[length] = '/';
      memcpy(to + length + (length > 0), name, name_length + 1);
      if (may_run(to)) return true;
    }
    at += length;
    if (*at == '\0') return false;
  }
}

/* ---- the calls ---- */

enum exec_kind { EXEC, EXEC_PATH, EXEC_FD, EXEC_AT, SPAWN, SPAWN_PATH };

struct exec_call {
  enum exec_kind kind;
  int fd; /* EXEC_FD, EXEC_AT */
  int flags;
  const char *path;
  char *const *arguments;
  char *const *environment;
  pid_t *pid; /* SPAWN* */
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

/* Counts what cannot be recorded. False when the file is not there or may not run: then the call will only fail. */
static bool judge_by_name(const struct exec_call *call) {
  char found[PATH_MAX];
  bool search = (call->kind == EXEC_PATH || call->kind == SPAWN_PATH) && strchr(call->path, '/') == NULL;
  if (search && !find_on_path(found, call->path)) return false;
  const char *path = search ? found : call->path;
  if (!search && !may_run(path)) return false;
  judge_path(AT_FDCWD, path, true);
  return true;
}

static bool judge(const struct exec_call *call) {
  if (call->kind == EXEC_FD) {
    judge_open(call->fd, "", true);
    return true;
  }
  if (call->path == NULL) return false;
  if (call->kind != EXEC_AT) return judge_by_name(call);
  if (call->path[0] == '\0')
    judge_open(call->fd, "", true);
  else
    judge_path(call->fd, call->path, true);
  return true;
}

/* The new image gets the mask that the program believes in; of an exec, the old image is told. */
static int run_told(const struct exec_call *call, char *const *environment) {
  if (!spawns(call)) process_before_exec(); /* no tick may come between the real mask and the new image */
  signals_before_exec();
  int result = run(call, environment);
  int error = errno;
  signals_after_failed_exec();
  if (!spawns(call)) process_after_failed_exec();
  errno = error;
  return result;
}

static int run_changed(const struct exec_call *call, const struct environment *found, enum wanted wanted) {
  size_t bytes = bytes_needed(found);
  bool large = bytes > STACK_LIMIT_BYTES;
  void *memory = large ? map_block(bytes) : alloca(bytes);
  if (memory == NULL) return run_told(call, call->environment);
  int result = run_told(call, build(found, wanted, memory));
  int error = errno;
  if (large) syscall(SYS_munmap, memory, bytes);
  errno = error;
  return result;
}

static int make_image(const struct exec_call *call) {
  next_ensure();
  fork_check();
  int error = errno;
  bool runs = !recording() || judge(call);
  errno = error;
  if (!runs && !spawns(call)) return run(call, call->environment); /* a spawn may change its directory first */
  struct environment found = look_at(call->environment);
  enum wanted wanted = wanted_in(&found);
  return wanted == AS_IT_IS ? run_told(call, call->environment) : run_changed(call, &found, wanted);
}

/* ---- exported ---- */

static int exec_path(const char *path, char *const arguments[], char *const environment[]) {
  return make_image(
      &(struct exec_call){.kind = EXEC, .path = path, .arguments = arguments, .environment = environment});
}

static int exec_name(const char *name, char *const arguments[], char *const environment[]) {
  return make_image(
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
  return make_image(&(struct exec_call){.kind = EXEC_FD, .fd = fd, .arguments = arguments, .environment = environment});
}

EXPORT int execveat(int directory, const char *path, char *const arguments[], char *const environment[], int flags) {
  next_ensure();
  if (next.execveat == NULL) return (int)syscall(SYS_execveat, directory, path, arguments, environment, flags);
  return make_image(&(struct exec_call){.kind = EXEC_AT,
                                        .fd = directory,
                                        .flags = flags,
                                        .path = path,
                                        .arguments = arguments,
                                        .environment = environment});
}

/* How many arguments follow, the null included. */
static size_t count_arguments(const char *first, va_list *arguments) {
  size_t count = 1;
  for (const char *at = first; at != NULL; count++) at = va_arg(*arguments, const char *);
  return count;
}

/* All arguments, then null; leaves the list behind the null, where execle has its environment. */
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
  return make_image(&(struct exec_call){.kind = SPAWN,
                                        .path = path,
                                        .arguments = arguments,
                                        .environment = environment,
                                        .pid = pid,
                                        .actions = actions,
                                        .attributes = attributes});
}

EXPORT int posix_spawnp(pid_t *pid, const char *name, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) {
  return make_image(&(struct exec_call){.kind = SPAWN_PATH,
                                        .path = name,
                                        .arguments = arguments,
                                        .environment = environment,
                                        .pid = pid,
                                        .actions = actions,
                                        .attributes = attributes});
}

/* Cuts us out of an LD_PRELOAD, in place. */
static void cut_out(char *preload) {
  char *to = preload;
  for (const char *at = preload; *at != '\0'; at += separates(*at)) {
    size_t length = item_length(at);
    bool stays = length > 0 && !is_our_library(at, length);
    if (stays && to != preload) *to++ = ':';
    for (; length > 0; length--, at++)
      if (stays) *to++ = *at;
  }
  *to = '\0';
}

/* libc starts the shell by itself, with `environ` as it is and the mask as it really is. */
static void before_shell(void) {
  int error = errno;
  struct environment found = look_at(environ);
  next_ensure();
  enum wanted wanted = wanted_in(&found);
  if (wanted == WITH_OURS) loss_add(LOSS_environment_lost);
  if (wanted == WITHOUT_OURS && has_library(&found)) cut_out((char *)found.preload);
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
