/* New images: children are recorded too. */
#ifndef SCALENE_TRACE_PROCESSES_EXEC_H
#define SCALENE_TRACE_PROCESSES_EXEC_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Remembers LD_PRELOAD and the recorder's variables as they are at load. Context: normal. */
void exec_init(const char *library, const char *spool_path);

#pragma GCC visibility pop

#endif
