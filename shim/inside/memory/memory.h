/* Counters of allocated and freed bytes for each thread, and the countdown that finds out when something is due: a
 * flush to the process, a sample, or a check of the interval. */
#ifndef SCALENE_TRACE_MEMORY_MEMORY_H
#define SCALENE_TRACE_MEMORY_MEMORY_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* The streams of a thread: allocations by direct callers of malloc, and by Python's allocators. */
enum { NATIVE, PYTHON, STREAMS };

/* What the calling thread has allocated and freed since its last flush, in bytes. It is counted down, so that one
 * instruction counts and compares. Invariants: left == room - bytes allocated, free_left == free_room - bytes freed;
 * every counted byte is in exactly one counter of one thread, or in the process's. */
struct memory_stream {
  int64_t left;      /* < 0: the slow path finds out what is due. 0 at first: the first block registers the thread */
  int64_t free_left; /* the same for frees */
  int64_t room;      /* bytes that fit before the nearest of flush limit, next sample and next interval check */
  int64_t free_room; /* bytes that fit before the flush limit */
  int64_t sample_at; /* count of allocated bytes at which the next sample is due */
  int64_t interval;  /* mean interval of the gap to it; 0 = none is due */
};
#define NOT_DRAWN (-1) /* value of `interval` in a thread that has not allocated yet */
#define MOST_UNTYPED 8
#define IDS_AT_ONCE 64
struct memory_state {
  uint32_t python_depth; /* > 0 inside one of Python's allocators */
  uint32_t session;      /* memory_session when it began to count */
  struct memory_stream stream[STREAMS];
  int64_t python_outside_pools; /* bytes allocated - freed by Python's allocators, but not from a pool */
  uintptr_t busy;               /* address of the slow path's stack frame while it runs; 0 = it does not run */
  int64_t now_ns;               /* time at which the slow path began: on some hosts a clock costs a system call */
  int64_t reported_volume;      /* bytes counted in the streams and already reported to the sampler */
  uint64_t random;
  bool stack_is_known; /* known_stack is the one of this moment; nothing of the interpreter may be read */
  uint64_t known_stack;
  bool in_pause;   /* its budgets are those of a paused recording */
  int64_t flushed; /* bytes that the thread had allocated at its last flush, in all */
  int64_t
      faults_seen; /* page faults of the thread when it last said which stack runs (residency.c), plus 1; 0 = never */
  int64_t allocated_seen; /* what it had allocated then */
  struct {
    uintptr_t block; /* 0 = none */
    uint64_t id;
  } untyped[MOST_UNTYPED]; /* the last sampled blocks of Python's allocators, whose types are not known yet */
  uint64_t last_id;        /* that it has given to a sample */
  uint32_t ids_left;       /* of those that it has taken */
};
#define NEW_MEMORY_STATE                                                                                               \
  { .stream = {{.interval = NOT_DRAWN}, {.interval = NOT_DRAWN}} }
extern THREAD_LOCAL struct memory_state this_memory;
/* How often this process was attached to: a thread's state of an earlier time is void. 0 = the shim was preloaded. */
extern uint32_t memory_session;

/* A block that was just allocated, or a mapping. */
struct block {
  uintptr_t address;
  size_t size;     /* requested bytes */
  size_t usable;   /* bytes that the allocator gave */
  uint16_t source; /* ALLOC_* */
  bool python;
  bool mapping;    /* mappings.c follows it */
  bool unfollowed; /* nobody does */
};

/* Starts the counting if memory is recorded. Called once, after the spool is open. Context: normal. */
void memory_init(void);
/* The slow path after an allocation: flushes, and writes the samples that are due. `which`: the stream. `moved`: bytes
 * by which the block has increased the footprint. Context: malloc. */
void memory_stop_at_allocated(int which, const void *block, size_t size, size_t usable, int source, size_t moved);
/* The slow path for a free of that many bytes. Context: malloc. */
void memory_stop_at_freed(int which, size_t bytes);
/* Counts a mapping that had `before` bytes until now (0 = it is new); returns the id of its sample, 0 = not sampled.
 * Context: malloc. */
uint64_t memory_mapped(const struct block *block, size_t before);
/* Count pages that have become resident or no longer are, with a footprint sample of their own that belongs to
 * `stack`. The calling thread may be at any instruction of the interpreter, of which nothing is read. The first
 * returns the id of the block's sample, 0 = not sampled. Context: signal. */
uint64_t memory_became_resident(const struct block *block, uint64_t stack);
void memory_left_residence(size_t bytes, uint64_t stack);
/* Python's pools hold so many bytes now, whatever was counted of them: the difference belongs to the pause. Context: signal. */
void memory_found(int64_t in_pools);
/* Writes the composition of the heap now. Context: malloc. */
void memory_write_heap(void);
/* Writes the change of the footprint in a pause that has ended: a thread that allocates little from then on would do so
 * late, or never. Context: signal. */
void memory_pause_ended(void);
/* The footprint when the process was attached to, and the part of it that is Python's. Called once, before anything is
 * counted. Context: normal. */
void memory_begin_with(int64_t total, int64_t python);
/* In a process that was attached to: called after a stop of a block, outside of all sections (sealed.h). `python`: inside one
 * of Python's allocators, where the thread has the GIL. Null = nobody is. */
extern void (*memory_at_stop)(bool python);
/* Flushes the counters of the calling thread, which ends. What its remaining destructors do is counted too.
 * Context: malloc. */
void memory_thread_end(void);
/* Keeps the footprint, as the child inherits the memory, and discards what is not in a sample yet: it is the parent's.
 * Context: malloc. */
void memory_postfork_child(void);
/* Stores the bytes of the footprint at a start or an end, and the part of them that Python's allocators have allocated. Bytes that threads
 * have not flushed yet are missing. Context: signal. */
void memory_footprint(int64_t *total, int64_t *python);

/* For the program itself, which asks through its own loader (recorder/api.py). Stores the footprint, and the highest one since
 * the last call: of other threads it lacks what they have not flushed. Returns 0 if memory is not recorded, or Python's pools are not counted yet. Context: normal. */
EXPORT int scalene_program_memory(int64_t *now, int64_t *most);

/* Returns the bytes that the thread has allocated; what an interrupted flush moves may count twice. */
static inline int64_t memory_allocated(const struct memory_state *m) {
  const struct memory_stream *native = &m->stream[NATIVE], *python = &m->stream[PYTHON];
  return m->flushed + native->room - native->left + python->room - python->left;
}

/* Counts a block that was just allocated. */
static inline void memory_count_allocated(struct memory_state *m, int which, const void *block, size_t size,
                                          size_t usable, int source) {
  struct memory_stream *s = &m->stream[which];
  if (unlikely((s->left -= (int64_t)usable) < 0)) memory_stop_at_allocated(which, block, size, usable, source, usable);
}
/* Counts a block that is about to be freed. */
static inline void memory_count_freed(struct memory_state *m, int which, size_t usable) {
  struct memory_stream *s = &m->stream[which];
  if (unlikely((s->free_left -= (int64_t)usable) < 0)) memory_stop_at_freed(which, usable);
}
/* Counts a resized block in a stream, and returns the bytes by which it has grown. The footprint changes by the
 * difference, but the sampler regards the block as new and counts all of its bytes towards the next sample. */
static inline int64_t memory_resize_stream(struct memory_stream *s, size_t before, size_t usable) {
  int64_t grown = (int64_t)usable - (int64_t)before;
  if (grown < 0) {
    if ((s->free_left += grown) < 0) memory_stop_at_freed(s == &this_memory.stream[PYTHON], (size_t)-grown);
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
/* The same, and enters the slow path if something is due. */
static inline void memory_count_resized(struct memory_state *m, int which, const void *block, size_t size,
                                        size_t before, size_t usable, int source) {
  struct memory_stream *s = &m->stream[which];
  size_t grown = (size_t)memory_resize_stream(s, before, usable);
  if (unlikely(s->left < 0)) memory_stop_at_allocated(which, block, size, usable, source, grown);
}

#pragma GCC visibility pop

#endif
