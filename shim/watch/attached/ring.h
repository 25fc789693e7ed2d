/* The ring buffer of a perf event that samples a thread. */
#ifndef SCALENE_TRACE_WATCH_ATTACHED_RING_H
#define SCALENE_TRACE_WATCH_ATTACHED_RING_H

#include <linux/perf_event.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* What a sample contains; ring_read expects just that. */
#define RING_SAMPLE                                                                                                    \
  (PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)
#define RING_STACK_BYTES 8192 /* of the user stack, in each sample: list.sort() alone takes 4 KiB of it */
#define RING_PAGES 16         /* for records */

struct ring {
  struct perf_event_mmap_page *page; /* its positions; the kernel writes data_head */
  const char *data;
  uint64_t bytes; /* a power of two */
};

/* The newest sample. */
struct ring_sample {
  int64_t t_ns; /* CLOCK_MONOTONIC */
  bool in_kernel;
  bool has_registers; /* those of the user's code, by DWARF's numbers: */
  uintptr_t value[DWARF_REGISTERS];
  const uint64_t *stack; /* a copy of the user stack from the stack pointer on; valid until the next ring_read */
  size_t stack_words;
};

/* What was in the buffer. */
struct ring_batch {
  uint32_t user, kernel; /* samples */
  uint64_t lost;         /* samples for which there was no room, or that the kernel held back */
  bool damaged;          /* records of an impossible size: what was in the buffer then is lost */
  struct ring_sample newest;
};

/* True if there is something to read. */
bool ring_has(const struct ring *ring);
/* Reads all records and frees their room. */
void ring_read(struct ring *ring, struct ring_batch *out);

#pragma GCC visibility pop

#endif
