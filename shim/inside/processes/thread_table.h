/* Which threads live, for the watcher. */
#ifndef SCALENE_TRACE_PROCESSES_THREAD_TABLE_H
#define SCALENE_TRACE_PROCESSES_THREAD_TABLE_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Puts the calling thread on the thread table, or takes it off. Context: malloc. */
void thread_table_begin(void);
void thread_table_end(void);

#pragma GCC visibility pop

#endif
