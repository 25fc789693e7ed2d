/* Writing records into the spool, the shared memory that survives a crash of its writers. formats/spool/spool.h
 * describes the layout. */
#ifndef SCALENE_TRACE_SHARED_SPOOL_H
#define SCALENE_TRACE_SHARED_SPOOL_H

#include <sys/types.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/sealed/sealed.h"

#pragma GCC visibility push(hidden)

extern struct spool_header *spool; /* null = not recording */
/* Maps the spool at `path`, which must be absolute; 0 = success, -1 = it cannot be opened, is not a spool of this
 * version, or has ended. Context: normal. */
int spool_open(const char *path);
/* Counts this process, which has begun when the recording had ended. spool_open does so itself. Context: signal. */
void spool_note_late(struct spool_header *of);
/* Unmaps the spool, so that this process records nothing from now on. No other thread may be using the spool. */
void spool_close(void);
/* Returns a new process id, unique in the recording, from 1. Context: signal. */
uint32_t spool_new_process(void);
/* Returns a new thread id, unique in the recording, from 1. Context: signal. */
uint32_t spool_new_thread(void);
/* Stops using the current chunk (in a forked child it is the parent's), and writes as `process` from now on.
 * Context: signal. */
void spool_begin_process(uint32_t process);
/* Whom records are written for: a process, and the chunk that is open for it. */
struct spool_writer {
  uint32_t process; /* its id in the recording */
  int32_t pid;
  struct chunk_header *chunk; /* null = none is open */
};
/* Writes for `to` from now on, and stores in `from` whom it has written for before. Only the watcher does that, and every
 * writer keeps a position of the window. Context: normal. */
void spool_write_for(const struct spool_writer *to, struct spool_writer *from);
/* Returns the process id that this process writes under; 0 = none yet. Context: signal. */
uint32_t spool_process(void);
/* Returns the inode of this process's pid namespace; 0 = unknown. Context: signal. */
uint64_t spool_pid_namespace(void);
/* Publishes our process id for the image that exec starts in the process `pid`; `process` 0 withdraws it.
 * Context: signal. */
void spool_leave_handoff(pid_t pid, uint32_t process);
/* Returns and removes the process id that the image before exec has published for `pid`; 0 = none. Context: normal. */
uint32_t spool_take_handoff(pid_t pid);
/* Claims `slots` slots of 64 bytes; null = no chunk is available (counted as a loss). The caller fills everything
 * except head, then calls spool_publish. Context: signal. */
void *spool_claim(unsigned slots);
/* True if few records fit before the recorder offers another chunk. Context: signal. */
bool spool_is_short(void);
/* False if no record at all fits before the recorder offers another chunk. Context: signal. */
bool spool_has_room(void);
/* Waits until few records would no longer be all that fit: for ten seconds at most, or for one if the recorder is gone,
 * and not again in any process before the recorder has offered a chunk. It sleeps, so only threads call it that would
 * rather be late than lose a record. Context: malloc. */
void spool_wait_for_room(void);
/* Makes a claimed record visible to the recorder. Context: signal. */
void spool_publish(void *record, unsigned kind, unsigned slots);
/* Returns the place of a claimed record of one slot, for spool_take_back; never 0. Context: signal. */
uint32_t spool_place_of(const void *record);
/* Unpublishes the alloc record with that id at `place`, so that the caller, which must publish it again at once, may
 * change it; null = its chunk is no longer the current one. No other thread may ask for the same id. Context: signal. */
struct record_alloc *spool_take_back(uint32_t place, uint64_t id);
/* Closes the current chunk, so that the recorder can drain it; the next record goes into a new chunk.
 * Context: signal. */
void spool_finish_chunk(void);
/* Returns a number that identifies the current chunk; 0 = there is none. A published record may be changed as long as
 * this is the number of its chunk. Only the watcher does that. Context: normal. */
uint64_t spool_chunk(void);
/* True between spool_open and the end of the recording, unless the process is sealed. Context: signal. */
static inline bool recording(void) { return spool != NULL && spool->ended == 0 && !sealed(); }

/* Returns CPU time of a tick, in ns, as its record has it. */
static inline uint32_t spool_tick_ns(int64_t ns) { return ns < 0 ? 0 : ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns; }

#pragma GCC visibility pop

#endif
