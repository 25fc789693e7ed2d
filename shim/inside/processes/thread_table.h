/* The thread table in the spool: the watcher reads from it which threads are alive. */
#ifndef SCALENE_TRACE_PROCESSES_THREAD_TABLE_H
#define SCALENE_TRACE_PROCESSES_THREAD_TABLE_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Adds the calling thread to the table if waits are recorded; a full table counts a loss. Context: malloc. */
void thread_table_begin(void);
/* Marks the entry of the calling thread as ended. Context: malloc. */
void thread_table_end(void);
/* Adds an interpreter that was found late to the entries of this process's threads. Context: normal. */
void thread_table_python_found(void);
/* Writes the names of Python's threads of this process that have changed since they began. Context: signal. */
void thread_table_write_names(void);

#pragma GCC visibility pop

#endif
