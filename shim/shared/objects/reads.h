/* Reads of several pieces of memory by one system call. What will be read is estimated, and fetched before it is needed:
 * a piece that was not fetched is read when it is needed. So a wrong estimate costs time, but changes no result. */
#ifndef SCALENE_TRACE_OBJECTS_READS_H
#define SCALENE_TRACE_OBJECTS_READS_H

#include <sys/uio.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

#define READS_MOST 40
#define READS_BYTES 2560
struct reads {
  int count;
  size_t bytes;
  bool missed; /* something was read that had not been fetched */
  struct iovec piece[READS_MOST];
  char data[READS_BYTES]; /* of the pieces, one after the other */
};

/* Discards all pieces. Context: signal. */
static inline void reads_clear(struct reads *reads) { reads->count = 0, reads->bytes = 0, reads->missed = false; }
/* Adds a piece that reads_fetch shall read. Ignored if there is no room or the address is 0. Context: signal. */
void reads_add(struct reads *reads, uintptr_t address, size_t size);
/* Adds at most `size` bytes: those that lie in the same page as the first one. Context: signal. */
void reads_add_in_page(struct reads *reads, uintptr_t address, size_t size);
/* Reads all pieces, in this order. If one is not readable, none is read. Context: signal. */
void reads_fetch(struct reads *reads);
/* Returns the bytes as they were fetched; null = they were not. Context: signal. */
const char *reads_fetched(const struct reads *reads, uintptr_t address, size_t size);
/* Like safe_read. Context: signal. */
bool reads_get(struct reads *reads, void *to, uintptr_t address, size_t size);
/* Returns the word at the address; 0 = it cannot be read. Context: signal. */
uintptr_t reads_word(struct reads *reads, uintptr_t address);

#pragma GCC visibility pop

#endif
