/* The recorder's calls into the library, by a script or by the interpreter's queue of pending calls. Each is a command, which is
 * carried out once. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inside/attached/attached.h"
#include "shared/base.h"
#include "shared/sealed/lasting.h"

/* What the interpreter offers to C code. */
static LASTING struct {
  void *(*get)(const char *);
  int (*set)(const char *, void *);
  const char *(*as_text)(void *);
  void (*raise)(void *, const char *);
  void **import_error;
  void *(*type_of)(void *);
  void (*raise_object)(void *, void *);
  void (*hold)(void *);
  void (*release)(void *);
  int (*call_later)(int (*)(void *), void *);
} python;

static bool find_python(void) {
  struct {
    void *to;
    const char *name;
  } wanted[] = {{&python.get, "PySys_GetObject"},
                {&python.set, "PySys_SetObject"},
                {&python.as_text, "PyUnicode_AsUTF8"},
                {&python.raise, "PyErr_SetString"},
                {&python.type_of, "PyObject_Type"},
                {&python.raise_object, "PyErr_SetObject"},
                {&python.hold, "Py_IncRef"},
                {&python.release, "Py_DecRef"},
                {&python.call_later, "Py_AddPendingCall"},
                {&python.import_error, "PyExc_ImportError"}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    void *found = dlsym(RTLD_DEFAULT, wanted[i].name);
    if (!found) return false;
    memcpy(wanted[i].to, &found, sizeof found);
  }
  return true;
}

/* Raises what a signal handler has raised in the script, and what belongs to the program. */
static int give_back(void *unused) {
  (void)unused;
  void *error = python.get("_scalene_raised");
  if (!error) return 0;
  python.hold(error);
  python.set("_scalene_raised", NULL);
  void *type = python.type_of(error);
  python.raise_object(type, error);
  python.release(type);
  python.release(error);
  return -1;
}

/* The interpreter makes that call after the one by which the script runs. */
static const char *loaded(void) {
  python.call_later(give_back, NULL);
  return NULL;
}

static const char *carry_out(const char *command) {
  if (strncmp(command, "start ", 6) == 0) return attached_start(command + 6);
  if (strcmp(command, "check") == 0) return attached_start(NULL);
  if (strcmp(command, "load") == 0) return loaded();
  return strcmp(command, "stop") == 0 ? attached_stop() : "command";
}

#define LONGEST_COMMAND 4096

/* Creates the file of the result, which the recorder does instead when it gives up: so a command is carried out once, or not
 * at all. `text` = the path of that file, a line feed, and the command. */
static void carry_out_once(const char *text) {
  char path[LONGEST_COMMAND], result[64];
  const char *command = strchr(text, '\n');
  if (!command || (size_t)(command - text) >= sizeof path) return;
  memset(path, 0, sizeof path);
  memcpy(path, text, (size_t)(command - text));
  long file = syscall(SYS_openat, (long)AT_FDCWD, path, (long)(O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC), 0600L);
  if (file < 0) return;
  const char *missing = carry_out(command + 1);
  int length = snprintf(result, sizeof result, "%s\n", missing ? missing : "done");
  syscall(SYS_write, file, result, (long)length);
  syscall(SYS_close, file);
}

/* The script imports the library as an extension module. It gives no module, but an ImportError, so nothing is left in
 * sys.modules. `sys._scalene_trace` is the command, which is taken away: so the script knows that it has arrived. */
__attribute__((visibility("default"))) void *PyInit_scalene_attached(void);
void *PyInit_scalene_attached(void) {
  char own[LONGEST_COMMAND] = "";
  if (!find_python()) return NULL;
  void *given = python.get("_scalene_trace");
  const char *text = given ? python.as_text(given) : NULL;
  if (text && strlen(text) < sizeof own) memcpy(own, text, strlen(text) + 1);
  if (given) python.set("_scalene_trace", NULL);
  carry_out_once(own);
  python.raise(*python.import_error, "scalene-trace");
  return NULL;
}

/* Before CPython 3.14, the recorder puts this function into the interpreter's queue of calls for the main thread, and a
 * command into this text; empty = it was withdrawn. */
__attribute__((visibility("default"))) extern char scalene_attached_text[LONGEST_COMMAND];
LASTING char scalene_attached_text[LONGEST_COMMAND];
__attribute__((visibility("default"))) int scalene_attached_call(const char *text);
int scalene_attached_call(const char *text) {
  char own[LONGEST_COMMAND] = "";
  int saved_errno = errno;
  memcpy(own, text, strnlen(text, sizeof own - 1));
  carry_out_once(own);
  errno = saved_errno;
  return 0;
}
