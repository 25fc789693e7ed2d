/* Counters, the threshold sampler, the countdown. */
#ifndef SCALENE_TRACE_MEMORY_MEMORY_H
#define SCALENE_TRACE_MEMORY_MEMORY_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Who asked: malloc's callers, or Python's allocators. */
enum { NATIVE, PYTHON, STREAMS };

/* What the calling thread allocated and freed since its last flush, counted down, so that one instruction counts and
 * compares. Invariants: left == room - bytes allocated, free_left == free_room - bytes freed; every counted byte is in
 * exactly one counter of one thread, or in the process's. */
struct memory_stream {
  int64_t left;      /* < 0: the slow path looks what is due; 0 at first: the first block registers the thread */
  int64_t free_left; /* the same of frees */
  int64_t room;      /* up to the byte before the flush limit, or sample_at, or the next look, what comes first */
  int64_t free_room; /* up to the byte before the flush limit */
  int64_t sample_at; /* in allocated bytes: where the next sample is due */
  int64_t interval;  /* under which it was drawn; 0 = none is due */
};
#define NOT_DRAWN (-1) /* an interval: of a thread that has allocated nothing yet */
struct memory_state {
  uint32_t python_depth; /* > 0 inside one of Python's allocators */
  struct memory_stream stream[STREAMS];
  int64_t python_outside_pools; /* allocated - freed, through Python's allocators but not from a pool */
  uintptr_t busy;               /* inside the slow path: where its stack frame is */
  int64_t now_ns;               /* when the slow path was entered: a clock costs a system call on some hosts */
  int64_t noted;                /* of what the streams have counted, so much was told to the sampler */
  uint64_t random;
  uintptr_t untyped; /* the last sampled block of Python's, whose type is not known yet */
  uint64_t untyped_id;
};
#define NEW_MEMORY_STATE                                                                                               \
  { .stream = {{.interval = NOT_DRAWN}, {.interval = NOT_DRAWN}} }
extern THREAD_LOCAL struct memory_state this_memory;

/* A block that was allocated just now. */
struct block {
  uintptr_t address;
  size_t size;     /* as requested */
  size_t usable;   /* as given */
  uint16_t source; /* ALLOC_* */
  bool python;
  bool mapping; /* followed by mappings.c */
};

/* Starts counting if memory is to be recorded; called once the spool is open. Context: normal. */
void memory_init(void);
/* The slow paths: flush, and sample what is due. moved: by how much the footprint grew with the block.
 * Context: malloc. */
void memory_stop_at_allocated(int which, const void *block, size_t size, size_t usable, int source, size_t moved);
void memory_stop_at_freed(size_t bytes);
/* Counts a mapping that had `before` bytes until now (0: it is new); the id of its sample, 0 = it is none.
 * Context: malloc. */
uint64_t memory_mapped(const struct block *block, size_t before);
/* Writes what the heap consists of now. Context: malloc. */
void memory_write_heap(void);
void memory_thread_end(void);
void memory_postfork_child(void);
/* Context: signal. */
void memory_footprint(int64_t *total, int64_t *python);

static inline void memory_count_allocated(struct memory_state *m, int which, const void *block, size_t size,
                                          size_t usable, int source) {
  struct memory_stream *s = &m->stream[which];
  if (unlikely((s->left -= (int64_t)usable) < 0)) memory_stop_at_allocated(which, block, size, usable, source, usable);
}
static inline void memory_count_freed(struct memory_state *m, int which, size_t usable) {
  struct memory_stream *s = &m->stream[which];
  if (unlikely((s->free_left -= (int64_t)usable) < 0)) memory_stop_at_freed(usable);
}
/* A block that was resized: the footprint moves by the difference; the sampler takes it for a new block. Returns by how
 * much it grew. */
static inline int64_t memory_resize_stream(struct memory_stream *s, size_t before, size_t usable) {
  int64_t grown = (int64_t)usable - (int64_t)before;
  if (grown < 0) {
    if ((s->free_left += grown) < 0) memory_stop_at_freed((size_t)-grown);
    grown = 0;
  }
  if (s->interval) {
    s->sample_at -= (int64_t)usable - grown;
    if (s->sample_at <= s->room) {
      s->left -= s->room - (s->sample_at - 1);
      s->room = s->sample_at - 1;
    }
  }
  s->left -= grown;
  return grown;
}
static inline void memory_count_resized(struct memory_state *m, int which, const void *block, size_t size,
                                        size_t before, size_t usable, int source) {
  struct memory_stream *s = &m->stream[which];
  size_t grown = (size_t)memory_resize_stream(s, before, usable);
  if (unlikely(s->left < 0)) memory_stop_at_allocated(which, block, size, usable, source, grown);
}

#pragma GCC visibility pop

#endif
