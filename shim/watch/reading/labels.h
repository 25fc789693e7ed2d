/* Labels of requests and jobs in another process: the one that stack_aim has chosen. Only the watcher's thread calls these
 * functions. */
#ifndef SCALENE_TRACE_WATCH_READING_LABELS_H
#define SCALENE_TRACE_WATCH_READING_LABELS_H

#include "shared/base.h"
#include "watch/reading/remote.h"

#pragma GCC visibility push(hidden)

/* Where a process has its labels. */
struct label_source {
  uintptr_t variable; /* address of the ContextVar; 0 = not found */
  uint64_t hash;
  uintptr_t modules_used; /* number of modules at the last search */
  int64_t scanned_ns;     /* when they were last searched */
  int64_t due_ns;         /* when they may be searched again */
};

/* Searches the dict of modules for the variable, at a limited rate. */
void labels_search(struct label_source *source, struct kinds *kinds, uintptr_t modules, int64_t now_ns);
/* True if a search is due. */
bool labels_search_due(const struct label_source *source, int64_t now_ns);
/* Stores the hash of the label in each of `count` contexts (address 0 = no context); 0 = none. Counts the loss labels_unread
 * for those that cannot be read. */
void labels_read(const struct label_source *source, struct kinds *kinds, const uintptr_t *contexts, int count,
                 uint64_t *labels);

#pragma GCC visibility pop

#endif
