/* Reads the records that the kernel has written into a ring buffer. Records lie one behind the other, also over the end of
 * the buffer. Sizes are checked as if anybody could have written them. */
#include "watch/attached/ring.h"

#include "shared/base.h"

#define LARGEST 65536 /* a record's size has 16 bits */

/* The newest record, in one piece. */
static union {
  char byte[LARGEST];
  uint64_t word[LARGEST / sizeof(uint64_t)];
} record;

bool ring_has(const struct ring *ring) {
  return __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE) != ring->page->data_tail;
}

static void copy(const struct ring *ring, uint64_t at, void *to, size_t size) {
  uint64_t start = at & (ring->bytes - 1), first = ring->bytes - start;
  if (first > size) first = size;
  memcpy(to, ring->data + start, first);
  memcpy((char *)to + first, ring->data, size - first);
}

/* The next word of the record; 0 = it ends before. */
static uint64_t next(size_t *at, size_t words) { return *at < words ? record.word[(*at)++] : 0; }

static void take_sample(const struct perf_event_header *header, struct ring_sample *out) {
  size_t at = 1, words = header->size / sizeof(uint64_t);
  unsigned mode = header->misc & PERF_RECORD_MISC_CPUMODE_MASK;
  *out = (struct ring_sample){.in_kernel = mode != PERF_RECORD_MISC_USER};
  next(&at, words); /* the instruction, which is the kernel's if that was interrupted */
  next(&at, words); /* process and thread */
  out->t_ns = (int64_t)next(&at, words);
  if (next(&at, words) != PERF_SAMPLE_REGS_ABI_64 || words - at < DWARF_REGISTERS + 1) return;
  for (int i = 0; i < DWARF_REGISTERS; i++) out->value[arch_perf_order[i]] = (uintptr_t)next(&at, words);
  out->has_registers = true;
  uint64_t room = next(&at, words) / sizeof(uint64_t);
  if (!room || room >= words - at) return;
  uint64_t written = record.word[at + room] / sizeof(uint64_t);
  out->stack = &record.word[at];
  out->stack_words = written < room ? (size_t)written : (size_t)room;
}

static void take(const struct perf_event_header *header, struct ring_batch *out) {
  if (header->type == PERF_RECORD_SAMPLE) {
    take_sample(header, &out->newest);
    out->user += !out->newest.in_kernel;
    out->kernel += out->newest.in_kernel;
  } else if (header->type == PERF_RECORD_LOST && header->size >= 24) {
    out->lost += record.word[2];
  } else if (header->type == PERF_RECORD_LOST_SAMPLES && header->size >= 16) {
    out->lost += record.word[1];
  } else if (header->type == PERF_RECORD_THROTTLE) {
    out->lost++;
  }
}

void ring_read(struct ring *ring, struct ring_batch *out) {
  uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE), tail = ring->page->data_tail;
  struct perf_event_header header;
  *out = (struct ring_batch){.user = 0};
  while (tail != head && !out->damaged) {
    out->damaged = head - tail > ring->bytes || head - tail < sizeof header;
    if (!out->damaged) copy(ring, tail, &header, sizeof header);
    out->damaged = out->damaged || header.size < sizeof header || header.size > head - tail || header.size % 8;
    if (out->damaged) break;
    copy(ring, tail, record.byte, header.size);
    take(&header, out);
    tail += header.size;
  }
  if (out->damaged) out->lost++;
  __atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
}
