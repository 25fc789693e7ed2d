/* A program that loads interpreters after its start: embeds_late WAY SCRIPT (LIBRARY HOME)...
 *
 * Each library runs the script once, in order. Words of WAY, joined by "+": global (RTLD_GLOBAL instead of RTLD_LOCAL), deep
 * (RTLD_DEEPBIND), namespace (dlmopen), thread (in a thread of its own), twice (each interpreter ends and starts again),
 * close (each library is closed before the next one is loaded), plugin (the library's main is called instead), stay (no
 * interpreter is finalized), crowd (100 threads wait meanwhile, and the first library is loaded when a byte was read). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *way, *script;

static int has(const char *word) { return strstr(way, word) != NULL; }

static int run(void *library) {
  void (*start)(void) = (void (*)(void))dlsym(library, "Py_Initialize");
  int (*end)(void) = (int (*)(void))dlsym(library, "Py_FinalizeEx");
  int (*execute)(const char *, void *) = (int (*)(const char *, void *))dlsym(library, "PyRun_SimpleStringFlags");
  char code[8192];
  start();
  snprintf(code, sizeof code, "exec(compile(open('%s').read(), '%s', 'exec'), {'__name__': '__main__'})", script, script);
  int failed = execute(code, NULL);
  return has("stay") ? failed : failed | end();
}

static int embed(const char *path, const char *home) {
  int flags = RTLD_NOW | (has("global") ? RTLD_GLOBAL : RTLD_LOCAL) | (has("deep") ? RTLD_DEEPBIND : 0);
  setenv("PYTHONHOME", home, 1);
  void *library = has("namespace") ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW) : dlopen(path, flags);
  if (!library) {
    fputs(dlerror(), stderr);
    return 1;
  }
  if (has("plugin")) return ((int (*)(void))dlsym(library, "main"))();
  if (has("namespace")) { /* its libc has an environment of its own */
    int (*set)(const char *, const char *, int) = (int (*)(const char *, const char *, int))dlsym(library, "setenv");
    set("PYTHONHOME", home, 1);
  }
  int failed = run(library);
  if (has("twice")) failed |= run(library);
  if (has("close")) failed |= dlclose(library);
  return failed;
}

static char **arguments;

static void *embed_all(void *unused) {
  intptr_t failed = 0;
  for (char **at = arguments; at[0] && at[1]; at += 2) failed |= embed(at[0], at[1]);
  return (void)unused, (void *)failed;
}

static void *stay(void *unused) {
  for (;;) pause();
  return unused;
}

static int gather(void) {
  pthread_t thread;
  int failed = 0;
  for (int i = 0; i < 100; i++) failed |= pthread_create(&thread, NULL, stay, NULL);
  return failed || getchar() == EOF;
}

int main(int count, char **values) {
  pthread_t thread;
  void *failed = NULL;
  if (count < 5) return 2;
  way = values[1];
  script = values[2];
  arguments = values + 3;
  if (has("crowd") && gather()) return 4;
  if (!has("thread")) return embed_all(NULL) != NULL;
  if (pthread_create(&thread, NULL, embed_all, NULL) || pthread_join(thread, &failed)) return 3;
  return failed != NULL;
}
