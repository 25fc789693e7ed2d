/* Writing into the spool, the shared memory that survives a crash of its writers. formats/spool/spool.h has the layout. */
#ifndef SCALENE_TRACE_SHARED_SPOOL_H
#define SCALENE_TRACE_SHARED_SPOOL_H

#include <sys/types.h>

#include "formats/spool/spool.h"
#include "shared/base.h"

#pragma GCC visibility push(hidden)

extern struct spool_header *spool; /* null = not recording */
/* Maps the spool at path. 0 = ok. Context: normal. */
int spool_open(const char *path);
void spool_close(void);
/* Takes a new process id or thread id from the header. Context: signal. */
uint32_t spool_new_process(void);
uint32_t spool_new_thread(void);
/* Forgets the current chunk (it is the parent's) and writes as `process` from now on. Context: signal. */
void spool_begin_process(uint32_t process);
uint32_t spool_process(void);
uint64_t spool_pid_namespace(void);
/* Publishes our process id for the image that exec starts in this process; 0 withdraws it. Context: signal. */
void spool_leave_handoff(pid_t pid, uint32_t process);
/* The process id of the image that this one replaced; 0 = none. Context: normal. */
uint32_t spool_take_handoff(pid_t pid);
/* Claims `slots` slots; null = lost (counted). Fill everything but head, then publish. Context: signal. */
void *spool_claim(unsigned slots);
void spool_publish(void *record, unsigned kind, unsigned slots);
void spool_finish_chunk(void);
/* May a published record still be changed: is its chunk the one that is being written? Only for the watcher. */
bool spool_holds(const void *record);
static inline bool recording(void) { return spool != NULL && spool->ended == 0; }

#pragma GCC visibility pop

#endif
