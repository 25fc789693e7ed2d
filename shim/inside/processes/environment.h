/* The environment that a child gets. */
#ifndef SCALENE_TRACE_PROCESSES_ENVIRONMENT_H
#define SCALENE_TRACE_PROCESSES_ENVIRONMENT_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Remembers LD_PRELOAD and the recorder's variables as they are at load. Context: normal. */
void environment_init(const char *library, const char *spool_path);

/* What the given environment holds of ours. */
struct environment {
  char *const *entries;
  size_t count;
  const char *preload; /* value of its last LD_PRELOAD, the one that counts; null = none */
  const char *spool;   /* value of its last SCALENE_TRACE_SPOOL; null = none */
};

/* What a child's environment is to hold of ours. Another spool than ours: the child belongs to another recorder. */
enum wanted { AS_IT_IS, WITH_OURS, WITHOUT_OURS };

/* Context: signal. */
struct environment environment_read(char *const *entries);
enum wanted environment_wanted(const struct environment *found);
/* How much memory environment_build needs. Context: signal. */
size_t environment_bytes(const struct environment *found);
/* The environment with or without what is ours, in `memory`. Context: signal. */
char *const *environment_build(const struct environment *found, enum wanted wanted, void *memory);
/* Cuts us out of its LD_PRELOAD, in place. Context: normal. */
void environment_cut_out(const struct environment *found);

#pragma GCC visibility pop

#endif
