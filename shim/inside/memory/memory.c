/* Memory counters, the threshold sampler (Scalene, OSDI 2023, §3.2) and the countdown that serves it and the allocation
 * sampler (sampler.c) alike.
 *
 * Threads count for themselves and flush to the process when they have moved a fraction of the threshold; the threshold
 * is compared process-wide, so that a producer and a consumer do not make samples out of nothing. A block of at least
 * the threshold is a sample of its own, so its line gets exactly its size. Other growth is charged to one of the
 * sampled blocks that it consists of, drawn by size, rather than to whoever asks for the byte that is one too many:
 * that may be a line whose blocks are freed at once (docs/design/memory.md). */
#include "inside/memory/memory.h"

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/memory/mappings.h"
#include "inside/memory/pyalloc.h"
#include "inside/memory/sampler.h"
#include "inside/stacks/frames.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/random.h"
#include "shared/spool.h"

_Alignas(64) THREAD_LOCAL struct memory_state this_memory = NEW_MEMORY_STATE;

/* What is not yet in a sample. Invariant: all samples' net + since.net + unseen.net == footprint - that at the
 * start. */
struct account {
  _Atomic int64_t net;       /* allocated - freed */
  _Atomic int64_t allocated; /* gross */
  _Atomic int64_t python;    /* the part of it that went through Python's allocators */
};
static struct account since;
static struct account unseen; /* what moved while the recording was paused: it belongs to no line */
static _Atomic int64_t footprint;
static _Atomic int64_t python_footprint;
static _Atomic int64_t python_outside_pools;
static _Atomic int64_t highest; /* of the footprints in samples */

#define NEVER (INT64_MAX / 2) /* bytes: counters that count down from it do not overflow */
#define MIN_FLUSH 4096
#define CHECK_BYTES (32 << 10)

void memory_init(void) {
  if (!(spool->features & FEATURE_MEMORY)) return;
  if (next.malloc_usable_size) {
    sampler_init();
    memory_mode = next_has_libc_headers() ? MEMORY_COUNT_LIBC : MEMORY_COUNT;
  } else {
    loss_add(LOSS_no_usable_size);
  }
}

void memory_footprint(int64_t *total, int64_t *python) {
  *total = atomic_load(&footprint);
  *python = atomic_load(&python_footprint);
}

/* ---- what the heap consists of ---- */

#define HEAP_FIRST_NS 100000000
#define HEAP_LAST_NS 1000000000

static struct record_heap peak; /* the highest footprint since the last one written; head = 0: none */
static _Atomic int peak_busy;
static _Atomic int64_t peak_bytes;
static _Atomic int64_t heap_due_ns;
static _Atomic uint32_t untouched_pages; /* as last looked at */

static void describe_heap(struct record_heap *out) {
  out->t_ns = clock_now_ns();
  out->untouched_pages = atomic_load(&untouched_pages);
  memory_footprint(&out->footprint_bytes, &out->python_bytes);
  mappings_sizes(&out->mapped_bytes, &out->reserved_bytes);
  out->arena_bytes = pyalloc_arena_bytes();
  out->pool_bytes = out->python_bytes - atomic_load(&python_outside_pools);
  if (!out->arena_bytes || out->pool_bytes < 0) out->pool_bytes = 0;
}

static void write_heap(const struct record_heap *heap) {
  struct record_heap *record = spool_claim(1);
  if (!record) return;
  memcpy((char *)record + sizeof record->head, (const char *)heap + sizeof heap->head,
         sizeof *heap - sizeof heap->head);
  spool_publish(record, RECORD_HEAP, 1);
}

static void write_peak(void) {
  if (peak.head && !atomic_exchange(&peak_busy, 1)) {
    if (peak.head) write_heap(&peak);
    peak.head = 0;
    atomic_store(&peak_busy, 0);
  }
}

/* Notes a new maximum, and writes what there is when it is time. */
static void note_heap(void) {
  int64_t now = atomic_load_explicit(&footprint, memory_order_relaxed);
  if (now > atomic_load_explicit(&peak_bytes, memory_order_relaxed) && !atomic_exchange(&peak_busy, 1)) {
    atomic_store(&peak_bytes, now);
    describe_heap(&peak);
    peak.head = 1;
    atomic_store(&peak_busy, 0);
  }
  int64_t due_ns = atomic_load_explicit(&heap_due_ns, memory_order_relaxed), now_ns = this_memory.now_ns;
  if (now_ns < due_ns) return;
  int64_t pause_ns = (now_ns - spool->start_mono_ns) / 100;
  pause_ns = pause_ns < HEAP_FIRST_NS ? HEAP_FIRST_NS : pause_ns > HEAP_LAST_NS ? HEAP_LAST_NS : pause_ns;
  if (!atomic_compare_exchange_strong(&heap_due_ns, &due_ns, now_ns + pause_ns)) return;
  memory_write_heap();
}

void memory_write_heap(void) {
  struct record_heap heap = {0};
  if (!memory_counts()) return;
  atomic_store(&untouched_pages, mappings_untouched_pages());
  write_peak();
  describe_heap(&heap);
  write_heap(&heap);
}

/* ---- footprint samples ---- */

/* What one passage through the slow path writes, when and where: a block is allocated no later than the footprint that
 * it makes, and the stack is walked once. */
struct passage {
  const struct block *block; /* that was allocated just now; null = a free, or nothing in particular */
  int64_t t_ns;
  uint64_t stack;
  bool walked, maximum;
};

static uint64_t stack_of(struct passage *passage) {
  if (!passage->walked) passage->stack = frames_current();
  passage->walked = true;
  return passage->stack;
}

static int64_t threshold(void) {
  int64_t bytes = (int64_t)spool->memory_threshold_bytes;
  return bytes > 0 ? bytes : 1;
}

/* What all threads together have not told is at most T/8; a thread alone tells more often, for the peak. */
static int64_t flush_limit(void) {
  int64_t threads = threads_live(), limit = threshold() / (8 * (threads < 8 ? 8 : threads));
  return limit < MIN_FLUSH ? MIN_FLUSH : limit;
}

/* The allocation with which the footprint reaches a new maximum is followed to its end (Scalene, OSDI 2023, §3.4). */
static void note_maximum(struct passage *passage, int64_t now) {
  int64_t before = atomic_load(&highest);
  if (now <= before || !passage->block || !sampler_interval()) return;
  if (atomic_compare_exchange_strong(&highest, &before, now)) passage->maximum = true;
}

static uint64_t *seeded(struct memory_state *m) {
  if (!m->random) m->random = random_seed(this_thread.tid);
  return &m->random;
}

/* Who is charged. */
struct origin {
  uint32_t thread;
  uint64_t stack;
};

static void emit(struct passage *passage, struct origin origin, int64_t net, int64_t allocated, int64_t python) {
  struct record_memory *record = spool_claim(1);
  if (!record) return;
  record->thread = origin.thread;
  record->t_ns = passage->t_ns;
  record->stack = origin.stack;
  record->net_bytes = net;
  record->footprint_bytes = atomic_load(&footprint);
  record->python_footprint_bytes = atomic_load(&python_footprint);
  record->allocated_bytes = (uint64_t)(allocated > 0 ? allocated : 0);
  record->python_allocated_bytes = (uint64_t)(python > 0 ? python : 0);
  spool_publish(record, RECORD_MEMORY, 1);
  note_maximum(passage, record->footprint_bytes);
}

/* Everything since the last sample becomes one, if it still reaches the threshold (another thread may have been
 * faster: then what it left is put back). */
static void emit_accumulated(struct passage *passage) {
  int64_t net = atomic_exchange(&since.net, 0);
  if (net < threshold() && net > -threshold()) {
    atomic_fetch_add(&since.net, net);
    return;
  }
  int64_t allocated = atomic_exchange(&since.allocated, 0);
  struct origin origin = {this_thread.id, 0};
  if (net < 0 || !sampler_draw_survivor(seeded(&this_memory), &origin.thread, &origin.stack)) {
    origin.stack = stack_of(passage);
  }
  emit(passage, origin, net, allocated, atomic_exchange(&since.python, 0));
}

/* Behind a pause: one sample without a stack. */
static void emit_unseen(const struct passage *passage) {
  struct passage nobody = {.t_ns = passage->t_ns};
  if (!atomic_load_explicit(&unseen.allocated, memory_order_relaxed) && !atomic_load(&unseen.net)) return;
  int64_t net = atomic_exchange(&unseen.net, 0), allocated = atomic_exchange(&unseen.allocated, 0);
  emit(&nobody, (struct origin){this_thread.id, 0}, net, allocated, atomic_exchange(&unseen.python, 0));
}

static int64_t allocated_in(const struct memory_stream *s) { return s->room - s->left; }
static int64_t freed_in(const struct memory_stream *s) { return s->free_room - s->free_left; }

static void empty_stream(struct memory_stream *s) {
  if (s->sample_at != NEVER) s->sample_at -= allocated_in(s);
  s->left = s->room;
  s->free_left = s->free_room;
}

/* Tells the sampler what was allocated since the last time. */
static void note_volume(struct memory_state *m) {
  int64_t counted = allocated_in(&m->stream[NATIVE]) + allocated_in(&m->stream[PYTHON]);
  sampler_note_volume(counted - m->noted);
  m->noted = counted;
}

/* Moves the thread's counters to the process. Returns its net bytes. */
static int64_t drain(struct memory_state *m, struct account *account) {
  const struct memory_stream *native = &m->stream[NATIVE], *python = &m->stream[PYTHON];
  int64_t by_python = allocated_in(python), python_net = by_python - freed_in(python);
  int64_t allocated = allocated_in(native) + by_python, net = allocated_in(native) - freed_in(native) + python_net;
  atomic_fetch_add_explicit(&footprint, net, memory_order_relaxed);
  atomic_fetch_add_explicit(&python_footprint, python_net, memory_order_relaxed);
  atomic_fetch_add_explicit(&python_outside_pools, m->python_outside_pools, memory_order_relaxed);
  atomic_fetch_add_explicit(&account->allocated, allocated, memory_order_relaxed);
  atomic_fetch_add_explicit(&account->python, by_python, memory_order_relaxed);
  note_volume(m);
  m->noted = 0;
  m->python_outside_pools = 0;
  empty_stream(&m->stream[NATIVE]);
  empty_stream(&m->stream[PYTHON]);
  return net;
}

static void emit_block(struct passage *passage, int64_t moved, bool by_python) {
  int64_t gross = moved > 0 ? moved : 0, python = by_python ? gross : 0;
  atomic_fetch_sub_explicit(&since.allocated, gross, memory_order_relaxed);
  atomic_fetch_sub_explicit(&since.python, python, memory_order_relaxed);
  emit(passage, (struct origin){this_thread.id, stack_of(passage)}, moved, gross, python);
  sampler_begin_growth();
}

/* moved: bytes that came or went just now. */
static void sample_if_moved(struct passage *passage, int64_t moved) {
  struct memory_state *m = &this_memory;
  int64_t limit = threshold();
  bool by_python = moved > 0 ? allocated_in(&m->stream[PYTHON]) >= moved : freed_in(&m->stream[PYTHON]) >= -moved;
  if (spool->paused) {
    atomic_fetch_add(&unseen.net, drain(m, &unseen));
    return;
  }
  emit_unseen(passage);
  int64_t net = drain(m, &since);
  bool large = moved >= limit || moved <= -limit;
  int64_t sum = atomic_fetch_add(&since.net, large ? net - moved : net) + (large ? net - moved : net);
  if (large) emit_block(passage, moved, by_python);
  if (sum >= limit || sum <= -limit) emit_accumulated(passage);
}

/* ---- the countdown ---- */

/* Draws the gap to the stream's next sample. */
static void draw(struct memory_state *m, struct memory_stream *s, int64_t interval) {
  s->interval = interval;
  s->sample_at = interval ? allocated_in(s) + sampler_gap(seeded(m), interval) : NEVER;
}

/* The interval under which the block is a sample; 0 = it is none. A new gap begins behind it. */
static int64_t due(struct memory_state *m, const struct block *block) {
  struct memory_stream *s = &m->stream[block->python ? PYTHON : NATIVE];
  int64_t interval = s->interval;
  if (!interval || allocated_in(s) < s->sample_at) return 0;
  draw(m, s, sampler_interval());
  return spool->paused ? 0 : interval;
}

/* A thread's first gaps begin before its first block. What sample_at tells until then is by how much: resized, a block
 * counts with all its bytes. */
static void begin_streams(struct memory_state *m) {
  for (int i = 0; i < STREAMS; i++) {
    struct memory_stream *s = &m->stream[i];
    int64_t passed = allocated_in(s) - s->sample_at;
    if (s->interval != NOT_DRAWN) continue;
    draw(m, s, sampler_interval());
    if (s->sample_at != NEVER) s->sample_at -= passed;
  }
}

/* Gaps under an interval that is no longer in force are drawn again. */
static void follow_interval(struct memory_state *m) {
  int64_t interval = sampler_interval();
  for (int i = 0; i < STREAMS; i++) {
    if (m->stream[i].interval != interval) draw(m, &m->stream[i], interval);
  }
}

/* What was counted stays counted. */
static void set_room(struct memory_stream *s, int64_t room, int64_t free_room) {
  s->left += room - s->room;
  s->free_left += free_room - s->free_room;
  s->room = room;
  s->free_room = free_room;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Where the interval adapts, a thread looks at it more often than it flushes: else in a slow program one that a burst
 * made coarse would outlive it by seconds, and its few samples stand for megabytes. */
static void set_stops(struct memory_state *m) {
  int64_t limit = flush_limit();
  for (int i = 0; i < STREAMS; i++) {
    struct memory_stream *s = &m->stream[i];
    int64_t check_at = sampler_adapts() ? allocated_in(s) + CHECK_BYTES : NEVER;
    set_room(s, least(least(s->sample_at, check_at), limit) - 1, limit - 1);
  }
}

static void stop_counting(struct memory_state *m) {
  for (int i = 0; i < STREAMS; i++) {
    m->stream[i].interval = 0; /* else what is resized would bring the next stop near */
    set_room(&m->stream[i], NEVER, NEVER);
  }
}

/* A stop for a sample alone moves no counters, so footprint samples fall where they would without. */
static bool flush_is_due(const struct memory_state *m) {
  for (int i = 0; i < STREAMS; i++) {
    const struct memory_stream *s = &m->stream[i];
    if (allocated_in(s) > s->free_room || s->free_left < 0) return true;
  }
  return false;
}

static uint64_t pass(struct memory_state *m, const struct block *block, int64_t moved) {
  struct passage passage = {.block = block, .t_ns = clock_now_ns()};
  m->now_ns = passage.t_ns;
  uint64_t id = 0;
  thread_ensure();
  note_volume(m);
  begin_streams(m);
  int64_t interval = block ? due(m, block) : 0;
  follow_interval(m);
  bool flush = flush_is_due(m);
  if (flush) sample_if_moved(&passage, moved);
  if (interval || passage.maximum)
    id = sampler_write(block, interval, passage.maximum, stack_of(&passage), passage.t_ns);
  if (flush && !spool->paused) note_heap(); /* last: what makes the peak was allocated before it */
  set_stops(m);
  return id;
}

/* The sampler computes with floating point numbers, whose flags and traps are the program's. */
static uint32_t take_float_state(void) {
  uint32_t saved = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(0x1f80); /* every exception masked, none raised */
  return saved;
}
static void give_float_state(uint32_t saved) { __builtin_ia32_ldmxcsr(saved); }

/* Inside itself it does nothing: what a signal handler allocates there is counted with the next block. A handler may
 * also leave by longjmp: then the stack stands above where the passage stood that never ended. */
static SLOW_PATH uint64_t pass_once(const struct block *block, int64_t moved) {
  struct memory_state *m = &this_memory;
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  uint64_t id = 0;
  if (m->busy && here <= m->busy) return 0;
  int saved_errno = errno;
  fork_check();
  m->busy = here;
  uint32_t float_state = take_float_state();
  if (recording()) {
    id = pass(m, block, moved);
  } else {
    stop_counting(m);
  }
  give_float_state(float_state);
  m->busy = 0;
  errno = saved_errno;
  return id;
}

SLOW_PATH void memory_stop_at_allocated(int which, const void *address, size_t size, size_t usable, int source,
                                        size_t moved) {
  struct block block = {(uintptr_t)address, size, usable, (uint16_t)source, which == PYTHON, false};
  pass_once(&block, (int64_t)moved);
}

SLOW_PATH void memory_stop_at_freed(size_t bytes) { pass_once(NULL, -(int64_t)bytes); }

uint64_t memory_mapped(const struct block *block, size_t before) {
  struct memory_state *m = &this_memory;
  int64_t grown = memory_resize_stream(&m->stream[NATIVE], before, block->usable);
  return m->stream[NATIVE].left < 0 ? pass_once(block, grown) : 0;
}

/* ---- the life of threads and processes ---- */

static void empty_account(struct account *account) {
  atomic_store(&account->net, 0);
  atomic_store(&account->allocated, 0);
  atomic_store(&account->python, 0);
}

/* What the parent has not put into a sample is its own; the child has inherited the memory. */
void memory_postfork_child(void) {
  drain(&this_memory, &since);
  empty_account(&since);
  empty_account(&unseen);
  atomic_store(&peak_busy, 0);
  peak.head = 0;
  this_memory.busy = 0;
  this_memory.random = 0;
  sampler_postfork_child();
  mappings_postfork_child();
}

/* What the thread counted stays counted, also what its remaining destructors do. */
void memory_thread_end(void) {
  struct memory_state *m = &this_memory;
  if (!memory_counts() || !recording()) return;
  struct account *account = spool->paused ? &unseen : &since;
  atomic_fetch_add(&account->net, drain(m, account));
  set_stops(m);
}
