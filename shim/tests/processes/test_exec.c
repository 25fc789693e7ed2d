/* exec.c alone: every way to start an image, from a forked child, a vfork child and a spawn, with environments that
 * hold all, some or none of our variables. The started image is this program again; it prints its arguments and
 * environment. */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/processes/environment.h"
#include "inside/processes/process.h"
#include "inside/signals/signals.h"
#include "shared/base.h"
#include "shared/executable.h"
#include "shared/loss.h"
#include "shared/spool.h"
#include "tests/check.h"

extern char **environ;

/* ---- stand-ins for the other files of the shim ---- */

/* Options for a build with the address sanitizer: images are started with other libraries in front of the sanitizer. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "verify_asan_link_order=0:detect_leaks=0"; }

struct next_functions next;
static struct spool_header header;
struct spool_header *spool = &header;
/* Volatile, because <unistd.h> promises the compiler that exec calls nothing here. */
static volatile int counted[LOSS_COUNT], before_exec_calls, after_exec_calls, before_mask_calls, after_mask_calls;

void next_resolve(void) {
#define INTERPOSED(result, name, arguments) next.name = (__typeof__(next.name))dlsym(RTLD_NEXT, #name);
#include "inside/core/interposed.h"
#undef INTERPOSED
  next.resolved = true;
}
void loss_add(enum loss loss) { counted[loss]++; }
void fork_check(void) {}
bool fork_shares_memory(void) { return false; }
pid_t fork_own_pid(void) { return 1; }
void process_before_exec(void) { before_exec_calls++; }
void process_after_failed_exec(void) { after_exec_calls++; }
void signals_before_exec(void) { before_mask_calls++; }
void signals_after_failed_exec(void) { after_mask_calls++; }

/* A build with a sanitizer starts images with a sanitizer, which are not recorded. Here they are taken for others. */
static enum executable_kind without_sanitizer(enum executable_kind kind) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
  if (kind == EXECUTABLE_REFUSES) return EXECUTABLE_RECORDABLE;
#endif
  return kind;
}
enum executable_kind __real_executable_kind_at(int directory, const char *file);
enum executable_kind __wrap_executable_kind_at(int directory, const char *file);
enum executable_kind __wrap_executable_kind_at(int directory, const char *file) {
  return without_sanitizer(__real_executable_kind_at(directory, file));
}
enum executable_kind __real_executable_kind_open(int fd, const char *file);
enum executable_kind __wrap_executable_kind_open(int fd, const char *file);
enum executable_kind __wrap_executable_kind_open(int fd, const char *file) {
  return without_sanitizer(__real_executable_kind_open(fd, file));
}

/* ---- images and the ways to start them ---- */

static char self_path[4096], folder[] = "/tmp/test_exec.XXXXXX";
static const char *library; /* the path of libc: a real library, so that the loader does not complain */
static char preload_ours[4200], preload_both[4300], spool_ours[200];
static const char *const spool_path = spool_ours + sizeof "SCALENE_TRACE_SPOOL=" - 1;

static void describe(int count, char **arguments) {
  for (int i = 2; i < count; i++) printf("<%s>", arguments[i]);
  int entries = 0;
  for (char **entry = environ; *entry != NULL; entry++, entries++)
    if (strncmp(*entry, "LD_", 3) == 0 || strncmp(*entry, "SCALENE", 7) == 0) printf("[%s]", *entry);
  printf(" %d\n", entries);
}

enum way { EXECVE, EXECV, EXECVP, EXECVPE, EXECL, EXECLP, EXECLE, FEXECVE, EXECVEAT, SPAWN, SPAWNP, WAYS };
static const char *const way_names[] = {"execve", "execv",   "execvp",   "execvpe",     "execl",       "execlp",
                                        "execle", "fexecve", "execveat", "posix_spawn", "posix_spawnp"};

static char *arguments[] = {"me", "describe", "one", "two words", NULL};

/* Starts an image. Functions without an environment argument get it through environ. */
static int start(enum way way, const char *path, char **environment) {
  pid_t child;
  if (way == EXECV || way == EXECVP || way == EXECL || way == EXECLP) environ = environment;
  switch (way) {
  case EXECVE: return execve(path, arguments, environment);
  case EXECV: return execv(path, arguments);
  case EXECVP: return execvp(path, arguments);
  case EXECVPE: return execvpe(path, arguments, environment);
  case EXECL: return execl(path, "me", "describe", "one", "two words", (char *)NULL);
  case EXECLP: return execlp(path, "me", "describe", "one", "two words", (char *)NULL);
  case EXECLE: return execle(path, "me", "describe", "one", "two words", (char *)NULL, environment);
  case FEXECVE: return fexecve(open(path, O_RDONLY | O_CLOEXEC), arguments, environment);
  case EXECVEAT: return execveat(AT_FDCWD, path, arguments, environment, 0);
  case SPAWN: return posix_spawn(&child, path, NULL, NULL, arguments, environment) ?: (int)child;
  default: return posix_spawnp(&child, path, NULL, NULL, arguments, environment) ?: (int)child;
  }
}

static char output[8192];

static int end_of(pid_t child, int from) {
  size_t length = 0;
  ssize_t got;
  int status;
  while ((got = read(from, output + length, sizeof output - 1 - length)) > 0) length += (size_t)got;
  output[length] = '\0';
  close(from);
  check(waitpid(child, &status, 0) == child);
  return status;
}

/* Starts `path` in a child and stores its standard output in `output`; returns the wait status. */
static int run(enum way way, bool vforked, const char *path, char **environment) {
  int ends[2], kept = dup(1);
  char **own_environ = environ;
  check(pipe2(ends, O_CLOEXEC) == 0 && dup2(ends[1], 1) == 1);
  pid_t child = way >= SPAWN ? start(way, path, environment) : vforked ? vfork() : fork();
  if (child == 0) {
    start(way, path, environment);
    _exit(99);
  }
  environ = own_environ;
  dup2(kept, 1);
  close(kept);
  close(ends[1]);
  return end_of(child, ends[0]);
}

static void expect(enum way way, char **environment, const char *wanted) {
  for (int vforked = 0; vforked < (way < SPAWN ? 2 : 1); vforked++) {
    char *before[8] = {NULL};
    for (int i = 0; environment[i] != NULL; i++) before[i] = environment[i];
    int status = run(way, vforked, self_path, environment);
    if (status != 0 || strcmp(output, wanted) != 0) {
      fprintf(stderr, "%s, vfork %d: status %x\n%swanted\n%s", way_names[way], vforked, status, output, wanted);
      abort();
    }
    for (int i = 0; environment[i] != NULL; i++) check(environment[i] == before[i]);
  }
}

static void expect_all(char **environment, const char *entries) {
  char wanted[8192];
  snprintf(wanted, sizeof wanted, "<one><two words>%s\n", entries);
  for (int way = 0; way < WAYS; way++) expect((enum way)way, environment, wanted);
}

static void clear_losses(void) {
  for (int i = 0; i < LOSS_COUNT; i++) counted[i] = 0;
}

/* ---- environments ---- */

static char *text(const char *format, const char *first, const char *second) {
  static char texts[16][8192];
  static int used;
  char *to = texts[used++ % 16];
  snprintf(to, 8192, format, first, second);
  return to;
}

static void missing_variables_are_added(void) {
  header.features = FEATURE_CHILDREN;
  char *nothing[] = {NULL}, *other[] = {"A=1", "LD_PRELOAD=libm.so.6", NULL};
  char *library_only[] = {preload_ours, NULL}, *spool_only[] = {spool_ours, "B=", NULL};
  char *empty[] = {"LD_PRELOAD=", NULL}, *twice[] = {"LD_PRELOAD=gone", "LD_PRELOAD=libm.so.6", NULL};
  expect_all(nothing, text("[%2$s][%1$s] 2", preload_ours, spool_ours));
  expect_all(other, text("[%2$s][%1$s] 3", preload_both, spool_ours));
  expect_all(library_only, text("[%s][%s] 2", preload_ours, spool_ours));
  expect_all(spool_only, text("[%2$s][%1$s] 3", preload_ours, spool_ours));
  expect_all(empty, text("[%2$s][%1$s] 2", preload_ours, spool_ours));
  expect_all(twice, text("[%2$s][%1$s] 2", preload_both, spool_ours));
}

static void existing_variables_stay(void) {
  header.features = FEATURE_CHILDREN;
  char *whole[] = {"A=1", preload_both, spool_ours, NULL};
  char *spaced[] = {text("LD_PRELOAD=libm.so.6 %s", library, NULL), spool_ours, NULL};
  char *others_spool[] = {"SCALENE_TRACE_SPOOL=/elsewhere", NULL};
  expect_all(whole, text("[%s][%s] 3", preload_both, spool_ours));
  expect_all(spaced, text("[%s][%s] 2", spaced[0], spool_ours));
  expect_all(others_spool, "[SCALENE_TRACE_SPOOL=/elsewhere] 1");
}

static void without_children_our_variables_are_removed(void) {
  header.features = 0;
  char *nothing[] = {"A=1", NULL}, *whole[] = {"A=1", preload_ours, spool_ours, NULL};
  char *both[] = {preload_both, spool_ours, NULL}, *theirs[] = {"LD_PRELOAD=libm.so.6", NULL};
  expect_all(nothing, " 1");
  expect_all(whole, " 1");
  expect_all(both, "[LD_PRELOAD=libm.so.6] 1");
  expect_all(theirs, "[LD_PRELOAD=libm.so.6] 1");
  header.features = FEATURE_CHILDREN;
}

static void after_the_recording_our_variables_are_removed(void) {
  char *nothing[] = {NULL}, *whole[] = {"A=1", preload_both, spool_ours, NULL};
  header.ended = 1;
  expect_all(nothing, " 0");
  expect_all(whole, "[LD_PRELOAD=libm.so.6] 2");
  header.ended = 0;
  spool = NULL;
  expect_all(nothing, " 0");
  expect_all(whole, "[LD_PRELOAD=libm.so.6] 2");
  spool = &header;
}

static void rename_spool(const char *from, const char *to) {
  check(rename(text("%s/%s", folder, from), text("%s/%s", folder, to)) == 0);
}

/* A vfork child and a spawn count in this process's memory, a forked child in its own. ThreadSanitizer turns vfork into
 * fork. */
#ifdef __SANITIZE_THREAD__
#define COUNTS_HERE false
#else
#define COUNTS_HERE true
#endif
static void inaccessible_files_are_not_passed_on(void) {
  char *nothing[] = {NULL}, *whole[] = {"A=1", preload_both, spool_ours, NULL};
  rename_spool("a spool", "hidden");
  clear_losses();
  expect_all(nothing, " 0");
  expect_all(whole, "[LD_PRELOAD=libm.so.6] 2");
  check(counted[LOSS_process_slots] == 2 * WAYS || !COUNTS_HERE);
  check(counted[LOSS_environment_lost] == 0);
  rename_spool("hidden", "a spool");
}

static size_t mapped_pages(void) {
  size_t pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  check(file != NULL && fscanf(file, "%zu", &pages) == 1);
  fclose(file);
  return pages;
}

static void large_environments_are_changed_too(void) {
  enum { ENTRIES = 20011 };
  static char *large[ENTRIES + 1];
  for (int i = 0; i < ENTRIES; i++) large[i] = "A=1";
  char wanted[8192];
  snprintf(wanted, sizeof wanted, "<one><two words>[%s][%s] %d\n", spool_ours, preload_ours, ENTRIES + 2);
  check(run(EXECVE, false, self_path, large) == 0 && strcmp(output, wanted) == 0);
  check(run(SPAWN, false, self_path, large) == 0 && strcmp(output, wanted) == 0);
  size_t before = mapped_pages();
  check(execve("/dev/null/x", arguments, large) == -1 && execve(folder, arguments, large) == -1);
  check(mapped_pages() == before);
}

/* ---- failures ---- */

static const char *write_file(const char *name, const void *bytes, size_t size, mode_t mode) {
  char *path = text("%s/%s", folder, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  check(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && fchmod(fd, mode) == 0 && close(fd) == 0);
  return path;
}

static void same_failure(const char *path) {
  char *empty[] = {NULL};
  check(next.execve(path, arguments, empty) == -1);
  int bare = errno;
  check(execve(path, arguments, empty) == -1 && errno == bare);
  check(execveat(AT_FDCWD, path, arguments, empty, 0) == -1 && errno == bare);
  int spawned = next.posix_spawn(NULL, path, NULL, NULL, arguments, empty);
  check(posix_spawn(NULL, path, NULL, NULL, arguments, empty) == spawned);
}

static void same_failure_on_path(const char *name) {
  char *empty[] = {NULL};
  check(next.execvpe(name, arguments, empty) == -1);
  int bare = errno;
  check(execvpe(name, arguments, empty) == -1 && errno == bare);
  check(execlp(name, name, (char *)NULL) == -1 && errno == bare);
  check(posix_spawnp(NULL, name, NULL, NULL, arguments, empty) ==
        next.posix_spawnp(NULL, name, NULL, NULL, arguments, empty));
}

static void failures_are_the_same(void) {
  static char long_name[5000];
  memset(long_name, 'x', sizeof long_name - 1);
  const char *paths[] = {"/nowhere/at/all", "", "/", "/etc/passwd", "/etc/passwd/x", long_name, folder};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) same_failure(paths[i]);
  same_failure(write_file("garbage", "\177ELFgarbage", 11, 0755));
  same_failure(write_file("no_interpreter", "#!/nowhere\n", 11, 0755));
  same_failure(write_file("empty_interpreter", "#!  \n", 5, 0755));
  same_failure(write_file("private", "#!/bin/sh\n", 10, 0));
  same_failure_on_path("no such program");
  same_failure_on_path("");
  same_failure_on_path(long_name);
  check(fexecve(-1, arguments, environ) == -1 && (errno == EINVAL || errno == EBADF));
}

static void exec_is_reported_and_masks_are_restored(void) {
  char *empty[] = {NULL};
  const char *garbage = write_file("garbage", "\177ELFgarbage", 11, 0755);
  before_exec_calls = after_exec_calls = before_mask_calls = after_mask_calls = 0;
  check(execve("/nowhere", arguments, empty) == -1 && before_exec_calls == 0 && before_mask_calls == 0);
  check(execve(garbage, arguments, empty) == -1 && errno == ENOEXEC);
  check(before_exec_calls == 1 && after_exec_calls == 1 && before_mask_calls == 1 && after_mask_calls == 1);
  check(posix_spawn(NULL, garbage, NULL, NULL, arguments, empty) == ENOEXEC);
  check(before_exec_calls == 1 && after_exec_calls == 1 && before_mask_calls == 2 && after_mask_calls == 2);
}

static void a_script_without_a_first_line_runs_in_a_shell(void) {
  char *empty[] = {NULL};
  check(run(EXECVPE, false, write_file("script", "echo $LD_PRELOAD", 16, 0755), empty) == 0);
  check(strncmp(output, library, strlen(library)) == 0);
}

static void path_is_searched(void) {
  char *empty[] = {NULL};
  const char *program = strrchr(self_path, '/') + 1;
  *strrchr(self_path, '/') = '\0';
  setenv("PATH", text("/nowhere::%s:/bin", self_path, NULL), 1);
  self_path[strlen(self_path)] = '/';
  check(run(EXECVPE, false, program, empty) == 0 && strstr(output, library) != NULL);
  check(run(SPAWNP, false, program, empty) == 0 && strstr(output, library) != NULL);
  check(run(EXECVPE, true, program, empty) == 0 && strstr(output, library) != NULL);
}

/* ---- losses ---- */

#ifdef __aarch64__ /* mov x8, #93; mov x0, #7; svc #0 */
static const uint32_t exit_7[] = {0xd2800ba8, 0xd28000e0, 0xd4000001};
#else
static const unsigned char exit_7[] = {0xb8, 60, 0, 0, 0, 0xbf, 7, 0, 0, 0, 0x0f, 0x05};
#endif

static const char *write_static_program(void) {
  struct {
    Elf64_Ehdr elf;
    Elf64_Phdr segment;
    _Alignas(4) unsigned char code[sizeof exit_7];
  } image;
  int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  check(read(fd, &image.elf, sizeof image.elf) == (ssize_t)sizeof image.elf && close(fd) == 0);
  image.elf.e_type = ET_EXEC;
  image.elf.e_phnum = 1;
  image.elf.e_phoff = sizeof image.elf;
  image.elf.e_shnum = image.elf.e_shstrndx = 0;
  image.elf.e_entry = 0x400000 + offsetof(__typeof__(image), code);
  image.segment = (Elf64_Phdr){PT_LOAD, PF_R | PF_X, 0, 0x400000, 0x400000, sizeof image, sizeof image, 0x1000};
  memcpy(image.code, exit_7, sizeof exit_7);
  return write_file("static", &image, sizeof image, 0755);
}

static int losses_of(enum loss loss, const char *path) {
  char *empty[] = {NULL};
  clear_losses();
  int status = run(SPAWN, false, path, empty);
  check(status >= 0);
  return counted[loss];
}

static void static_programs_are_losses(void) {
  char line[512];
  char *empty[] = {NULL};
  const char *program = write_static_program();
  check(losses_of(LOSS_unrecorded_static, program) == 1);
  check(WEXITSTATUS(run(EXECVE, false, program, empty)) == 7);
  int length = snprintf(line, sizeof line, "#! %s an argument\n", program);
  check(losses_of(LOSS_unrecorded_static, write_file("of_static", line, (size_t)length, 0755)) == 1);
  check(losses_of(LOSS_unrecorded_static, self_path) == 0 && losses_of(LOSS_unrecorded_setuid, self_path) == 0);
}

/* As root, the test makes a setuid program of another user; otherwise it uses /bin/su. */
static void setuid_programs_are_losses(void) {
  const char *program = "/bin/su";
  if (geteuid() == 0) {
    program = write_file("setuid", "\177ELF", 4, 0700);
    char copy[8192];
    snprintf(copy, sizeof copy, "cp /bin/true %s && chown 65534 %s && chmod 4755 %s", program, program, program);
    check(next.system(copy) == 0);
  }
  check(losses_of(LOSS_unrecorded_setuid, program) == 1);
}

/* libc starts a shell with environ as it is, so the shim removes inaccessible files from environ itself. */
static void shells_do_not_get_inaccessible_files(void) {
  char preload[sizeof preload_both], **own = environ, *whole[] = {preload, spool_ours, NULL};
  rename_spool("a spool", "hidden");
  clear_losses();
  strcpy(preload, preload_both);
  environ = whole;
  check(system("test \"$LD_PRELOAD\" = libm.so.6") == 0 && strcmp(preload, "LD_PRELOAD=libm.so.6") == 0);
  strcpy(preload, preload_ours);
  check(system("test \"$LD_PRELOAD\" = ''") == 0 && strcmp(preload, "LD_PRELOAD=") == 0);
  snprintf(preload, sizeof preload, "LD_PRELOAD=::%s libm.so.6:%s", library, library);
  check(pclose(popen("test \"$LD_PRELOAD\" = libm.so.6", "r")) == 0);
  check(counted[LOSS_process_slots] == 3 && counted[LOSS_environment_lost] == 0);
  rename_spool("hidden", "a spool");
  environ = own;
}

/* The environment of the shell cannot be completed, so only the loss is counted. */
static void shells_without_our_variables_are_losses(void) {
  char *empty[] = {NULL}, *whole[] = {preload_ours, spool_ours, NULL}, **own = environ;
  clear_losses();
  environ = whole;
  check(system("exit 3") == 3 << 8 && counted[LOSS_environment_lost] == 0);
  environ = empty;
  check(system("exit 3") == 3 << 8 && counted[LOSS_environment_lost] == 1);
  check(pclose(popen("exit 4", "r")) == 4 << 8 && counted[LOSS_environment_lost] == 2);
  check(system(NULL) != 0 && counted[LOSS_environment_lost] == 2);
  environ = own;
}

static void remove_folder(void) {
  char command[512];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  check(next.system(command) == 0);
}

static void set_up(void) {
  Dl_info libc;
  next_resolve();
  check(dladdr((void *)next.execve, &libc) != 0 && mkdtemp(folder) != NULL);
  check(readlink("/proc/self/exe", self_path, sizeof self_path - 1) > 0);
  library = libc.dli_fname;
  snprintf(preload_ours, sizeof preload_ours, "LD_PRELOAD=%s", library);
  snprintf(preload_both, sizeof preload_both, "LD_PRELOAD=%s:libm.so.6", library);
  snprintf(spool_ours, sizeof spool_ours, "SCALENE_TRACE_SPOOL=%s/a spool", folder);
  check(close(open(spool_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) == 0);
  environment_init(library, spool_path);
  header.features = FEATURE_CHILDREN;
}

int main(int count, char **given) {
  if (count > 1 && strcmp(given[1], "describe") == 0) {
    describe(count, given);
    return 0;
  }
  set_up();
  missing_variables_are_added();
  existing_variables_stay();
  without_children_our_variables_are_removed();
  after_the_recording_our_variables_are_removed();
  inaccessible_files_are_not_passed_on();
  large_environments_are_changed_too();
  failures_are_the_same();
  exec_is_reported_and_masks_are_restored();
  a_script_without_a_first_line_runs_in_a_shell();
  static_programs_are_losses();
  setuid_programs_are_losses();
  shells_without_our_variables_are_losses();
  shells_do_not_get_inaccessible_files();
  path_is_searched();
  remove_folder();
  printf("ok\n");
  return 0;
}
