/* The file that exec or spawn will run: whether the new program can be recorded. All functions may run in a vfork
 * child. */
#ifndef SCALENE_TRACE_PROCESSES_EXECUTABLE_H
#define SCALENE_TRACE_PROCESSES_EXECUTABLE_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* True for a regular file with an execute bit. Context: signal. */
bool executable_may_run(const char *path);
/* Stores the first file of that name on PATH that may run, as execvp searches for it; false = there is none. `to` has
 * PATH_MAX bytes. Context: signal. */
bool executable_find(char *to, const char *name);
/* Counts a loss if the file cannot be recorded: a program that gains privileges, or a static one. `directory` is as for
 * openat(). `script`: if the file is a script, check its interpreter. Context: signal. */
void executable_check_path(int directory, const char *path, bool script);
/* The same for an open file. `path` is only used to recognize the loader by its name. Context: signal. */
void executable_check_open(int fd, const char *path, bool script);

#pragma GCC visibility pop

#endif
