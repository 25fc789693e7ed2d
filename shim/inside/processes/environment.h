/* The environment of a new image: adds the variables that it needs to be recorded, or removes them. */
#ifndef SCALENE_TRACE_PROCESSES_ENVIRONMENT_H
#define SCALENE_TRACE_PROCESSES_ENVIRONMENT_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Stores the paths of the shim's library and of the spool, which children need. Called once, at load.
 * Context: normal. */
void environment_init(const char *library, const char *spool_path);

/* An environment, and the values of our variables in it. */
struct environment {
  char *const *entries;
  size_t count;
  const char *preload;  /* value of the last LD_PRELOAD, which is the one that counts; null = none */
  const char *spool;    /* value of the last SCALENE_TRACE_SPOOL; null = none */
  bool lists_libraries; /* the loader only prints which libraries it would load; ours must not be among them */
};

/* What to do with our variables: LD_PRELOAD with our library, and SCALENE_TRACE_SPOOL. */
enum environment_change { UNCHANGED, ADD_OURS, REMOVE_OURS };

/* Returns the entries (null = empty) with the values of our variables. Context: signal. */
struct environment environment_read(char *const *entries);
/* Returns the change that makes the child recorded if children are followed and it takes a preloaded library, and
 * unrecorded if not. An environment with the spool of another recorder stays unchanged. Context: signal. */
enum environment_change environment_needed_change(const struct environment *found, bool takes_library);
/* Returns how many bytes of memory environment_build needs. Context: signal. */
size_t environment_bytes(const struct environment *found);
/* Builds the changed environment in `memory` and returns it; it refers to strings of `found`. Context: signal. */
char *const *environment_build(const struct environment *found, enum environment_change change, void *memory);
/* Removes our library from the LD_PRELOAD of the environment, in place. Context: normal. */
void environment_remove_ours(const struct environment *found);

#pragma GCC visibility pop

#endif
