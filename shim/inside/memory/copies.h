/* The volume of memcpy and memmove. */
#ifndef SCALENE_TRACE_MEMORY_COPIES_H
#define SCALENE_TRACE_MEMORY_COPIES_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

void copies_init(void);
/* What the thread has copied since its last sample goes to whoever samples next. Context: malloc. */
void copies_thread_end(void);
/* Writes what is left over. Context: normal. */
void copies_process_end(void);
void copies_postfork_child(void);

#pragma GCC visibility pop

#endif
