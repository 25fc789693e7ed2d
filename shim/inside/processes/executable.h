/* The file that will run: can it be recorded? */
#ifndef SCALENE_TRACE_PROCESSES_EXECUTABLE_H
#define SCALENE_TRACE_PROCESSES_EXECUTABLE_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* A regular file with an execute bit. Context: signal. */
bool executable_may_run(const char *path);
/* The first file of that name on PATH that may run, as execvp looks for it; `to` has PATH_MAX bytes. Context:
 * signal. */
bool executable_find(char *to, const char *name);
/* Counts a loss when the file cannot be recorded. script: it may be one. Context: signal. */
void executable_check_path(int directory, const char *path, bool script);
void executable_check_open(int fd, const char *path, bool script);

#pragma GCC visibility pop

#endif
