/* The part of the spool that a process has mapped: the header with the ring and the thread table, and a window of a few
 * positions. A position holds one chunk at a time, and moves to another chunk when the first is finished, so recording
 * needs little address space and little locked memory, whatever the program does later. docs/design/address-space.md
 * gives the reasons. */
#ifndef SCALENE_TRACE_WINDOW_WINDOW_H
#define SCALENE_TRACE_WINDOW_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/spool/spool.h"

#pragma GCC visibility push(hidden)

#define WINDOW_POSITIONS 32

/* Maps the header and the window of the spool at `path`, which must be absolute. Null = the file cannot be mapped.
 * `never_remap`: positions are moved by the path, as valgrind does not know remap_file_pages. Context: normal. */
struct spool_header *window_open(const char *path, bool never_remap);
/* Unmaps the spool. Context: normal. */
void window_close(void);
/* True if the spool has a chunk of this number. Context: signal. */
bool window_has(uint32_t number);
/* Takes a position whose chunk is finished, for a chunk of the process with this id; null = there is none now. The
 * caller moves it and keeps it, or gives it back. Context: signal. */
struct position *window_take(uint32_t process);
/* Moves a taken position to the chunk of this number. Null = the kernel refuses; the position is given back then.
 * Context: signal. */
struct chunk_header *window_move(struct position *position, uint32_t number);
/* From now on, the position holds the chunk that the process has taken with this offer. Context: signal. */
void window_keep(struct position *position, uint32_t process, uint64_t offer);
/* Gives back a position that was not moved. Context: signal. */
void window_give_back(struct position *position);
/* Returns a number that identifies the chunk at this address: it differs from that of every chunk that was or will be
 * mapped there. 0 for null. Context: signal. */
uint64_t window_number_of(const struct chunk_header *chunk);

#pragma GCC visibility pop

#endif
