/* Entries of the thread table, taken and ended for the threads of any process (formats/spool/spool.h describes the layout).
 * The recorder has written to it, and all recorded processes can: an entry that was taken may hold anything later. */
#ifndef SCALENE_TRACE_TABLE_ENTRIES_H
#define SCALENE_TRACE_TABLE_ENTRIES_H

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/spool.h"

#pragma GCC visibility push(hidden)

/* Returns the entry at an index below SPOOL_THREAD_TABLE. Context: signal. */
static inline struct thread_entry *entries_at(uint32_t index) {
  return (struct thread_entry *)((char *)spool + SPOOL_THREAD_TABLE_OFFSET) + index;
}
/* Returns the state of an entry, which may change at any moment. Context: signal. */
static inline _Atomic uint32_t *entries_state(struct thread_entry *entry) { return (_Atomic uint32_t *)&entry->state; }
/* Takes an entry, which the caller fills and gives to entries_begin; SPOOL_THREAD_TABLE = all are in use.
 * Context: signal. */
uint32_t entries_take(void);
/* From now on the thread in that entry is watched. Context: signal. */
void entries_begin(uint32_t index);
/* The thread `thread` has ended: its entry gets the times and is freed by the watcher. Does nothing if the entry is another
 * thread's by now. Context: signal. */
void entries_end(uint32_t index, uint32_t thread, int64_t end_ns, int64_t cpu_end_ns);
/* Makes the watcher read the table again. Context: signal. */
void entries_changed(void);

#pragma GCC visibility pop

#endif
