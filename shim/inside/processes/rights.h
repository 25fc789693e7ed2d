/* Announces to a privileged recorder that this process becomes another user. */
#ifndef SCALENE_TRACE_PROCESSES_RIGHTS_H
#define SCALENE_TRACE_PROCESSES_RIGHTS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Remembers where to announce: in the file "rights" beside the spool at `spool_path`. Context: normal. */
void rights_init(const char *spool_path);

#pragma GCC visibility pop

#endif
