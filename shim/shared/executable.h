/* The file that exec or spawn will run: whether it can be recorded, and whether it can be given a preloaded library. All
 * functions may run in a vfork child. */
#ifndef SCALENE_TRACE_SHARED_EXECUTABLE_H
#define SCALENE_TRACE_SHARED_EXECUTABLE_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

enum executable_kind {
  EXECUTABLE_RECORDABLE, /* or not known */
  EXECUTABLE_STATIC,     /* loads no library */
  EXECUTABLE_PRIVILEGED, /* gains privileges: its loader ignores LD_PRELOAD */
  /* A preloaded library would stop or disturb it: another libc, another processor or word size, or a sanitizer. */
  EXECUTABLE_REFUSES
};

/* True for a regular file with an execute bit. Context: signal. */
bool executable_may_run(const char *path);
/* Stores the first file of that name on PATH that may run, as execvp searches for it; false = there is none. `to` has
 * PATH_MAX bytes. Context: signal. */
bool executable_find(char *to, const char *name);
/* Returns the kind of a file; for a script, that of its interpreter. `directory` is as for openat(). Context: signal. */
enum executable_kind executable_kind_at(int directory, const char *path);
/* The same for an open file. `path` is only used to recognize the loader by its name. Context: signal. */
enum executable_kind executable_kind_open(int fd, const char *path);
/* Returns the loss (enum loss) that counts a program of this kind; -1 = the program can be recorded. Context: signal. */
int executable_loss(enum executable_kind kind);
/* True if a value of LD_PRELOAD lists the runtime of a sanitizer. No library may be initialized before it, but the shim is
 * initialized before all others: a program with both crashes. Context: signal. */
bool executable_preload_has_sanitizer(const char *preload);

#pragma GCC visibility pop

#endif
