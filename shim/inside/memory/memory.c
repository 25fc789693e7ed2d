/* Memory counters, the threshold sampler (Scalene, OSDI 2023, §3.2), and the countdown that serves both it and the
 * allocation sampler (sampler.c).
 *
 * Each thread counts for itself and flushes to the process after a fraction of the threshold. The threshold is
 * compared for the whole process, so that a producer thread and a consumer thread, whose counts cancel out, cause
 * no samples. A block of at least the threshold is a sample of its own, so its line gets exactly its size. Other
 * growth is charged to one of the stacks that hold sampled blocks, chosen by what they hold (growth.c), not to the
 * allocation that crosses the threshold: that one may belong to a line whose blocks are freed at once
 * (docs/design/memory.md). */
#include "inside/memory/memory.h"

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/core/quick_clock.h"
#include "inside/core/thread_state.h"
#include "inside/accounts/budget.h"
#include "inside/accounts/growth.h"
#include "inside/memory/mappings.h"
#include "inside/memory/pages.h"
#include "inside/memory/pyalloc.h"
#include "inside/memory/sampler.h"
#include "inside/native/diverted.h"
#include "inside/python/python.h"
#include "inside/stacks/codes.h"
#include "inside/stacks/frames.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/random.h"
#include "shared/sealed/sealed.h"
#include "shared/spool.h"

_Alignas(64) THREAD_LOCAL struct memory_state this_memory = NEW_MEMORY_STATE;
LASTING uint32_t memory_session;

/* Bytes that no sample holds yet. Invariant: sum of the net bytes of all samples + unsampled.net + moved_in_pause.net
 * == footprint - footprint at the start. */
struct account {
  _Atomic int64_t net;       /* allocated - freed */
  _Atomic int64_t allocated; /* gross */
  _Atomic int64_t python;    /* the part of `allocated` that Python's allocators requested */
};
static struct account unsampled;
/* Bytes allocated and freed while the recording was paused. No line is charged with them. */
static struct account moved_in_pause;
static _Atomic int64_t footprint;
static _Atomic int64_t python_footprint;
static _Atomic int64_t python_outside_pools;
static _Atomic int64_t highest;       /* highest footprint in a sample */
static _Atomic int64_t highest_asked; /* highest footprint since the program last asked */

#define NEVER (INT64_MAX / 2) /* bytes: counters that count down from it do not overflow */
#define MIN_FLUSH 4096
#define CHECK_BYTES ((int64_t)32 << 10) /* between two checks of an adapting interval; more if it is coarse */
#define MOST_CHECK_BYTES ((int64_t)128 << 10)
#define PAUSED_BYTES                                                                                                   \
  ((int64_t)256 << 10) /* a thread counts at most so much until it checks whether a pause has ended */

void memory_init(void) {
  if (!(spool->features & FEATURE_MEMORY)) return;
  if (next.foreign_allocator) loss_add(LOSS_foreign_allocator);
  if (next.malloc_usable_size) {
    sampler_init();
    memory_mode = next_has_libc_headers() ? MEMORY_COUNT_LIBC : MEMORY_COUNT;
  } else {
    loss_add(LOSS_no_usable_size);
  }
}

/* Blocks outside of pools that were allocated before Python's allocators were wrapped (pyalloc_resume) count as native, but
 * their frees as Python's. So these bytes of Python's can become negative; the difference is taken back here. Under an
 * allocator that the program has put around Python's, it is the other way round. */
static int64_t python_bytes(void) {
  int64_t outside = atomic_load(&python_outside_pools), total = atomic_load(&footprint);
  int64_t bytes = atomic_load(&python_footprint) - (outside < 0 ? outside : 0);
  return bytes > total && total > 0 ? total : bytes;
}

void memory_footprint(int64_t *total, int64_t *python) {
  int64_t uncounted = pyalloc_uncounted_bytes();
  *total = atomic_load(&footprint) + uncounted;
  *python = python_bytes() + uncounted;
}

void memory_begin_with(int64_t total, int64_t python) {
  atomic_store(&footprint, total);
  atomic_store(&python_footprint, python);
  atomic_store(&highest_asked, total);
}

void memory_found(int64_t in_pools) {
  int64_t bytes = in_pools - (atomic_load(&python_footprint) - atomic_load(&python_outside_pools));
  atomic_fetch_add(&footprint, bytes);
  atomic_fetch_add(&python_footprint, bytes);
  atomic_fetch_add(&moved_in_pause.net, bytes);
  atomic_fetch_add(&moved_in_pause.allocated, bytes);
  atomic_fetch_add(&moved_in_pause.python, bytes);
}

/* ---- the composition of the heap ---- */

#define HEAP_FIRST_NS 100000000
#define HEAP_LAST_NS 1000000000
#define HEAP_PAGE 4096 /* bytes, whatever the kernel's pages have */

static struct record_heap peak; /* composition at the highest footprint since the last peak record; head = 0: none */
static _Atomic int peak_busy;
static _Atomic int64_t peak_bytes;
static _Atomic int64_t heap_due_ns;
static _Atomic struct touched touched; /* at the last heap record */

static void describe_heap(struct record_heap *out) {
  out->t_ns = clock_now_ns();
  struct touched pages = atomic_load(&touched);
  out->untouched_pages = pages.untouched;
  out->shared_pages = pages_shared(pages.absent);
  out->footprint_bytes = atomic_load(&footprint);
  out->python_bytes = python_bytes();
  mappings_sizes(&out->mapped_bytes, &out->reserved_bytes);
  out->arena_pages = (uint32_t)(pyalloc_arena_bytes() / HEAP_PAGE);
  int64_t outside = atomic_load(&python_outside_pools);
  out->pool_bytes = out->python_bytes - (outside > 0 ? outside : 0);
  if (!out->arena_pages || out->pool_bytes < 0) out->pool_bytes = 0;
  if (spool->features & FEATURE_ARENAS_ONLY) out->pool_bytes = -1; /* unknown */
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

/* Stores the composition at a new maximum, and writes the current one if it is time. */
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
  atomic_store(&touched, pages_touched());
  write_peak();
  describe_heap(&heap);
  write_heap(&heap);
}

/* ---- footprint samples ---- */

/* State of one run of the slow path, shared by the records that it writes: a block is allocated no later than the
 * footprint that it causes, and the stack is walked only once. */
struct pass {
  const struct block *block; /* the block that was just allocated; null = a free, or no block */
  int64_t t_ns;
  uint64_t stack;
  bool walked, maximum;
};

static uint64_t stack_of(struct pass *pass) {
  if (!pass->walked) pass->stack = this_memory.stack_is_known ? this_memory.known_stack : frames_current();
  pass->walked = true;
  return pass->stack;
}

static int64_t threshold(void) {
  int64_t bytes = (int64_t)spool->memory_threshold_bytes;
  return bytes > 0 ? bytes : 1;
}

/* Limits the bytes that all threads together have not flushed to T/8. A single thread flushes more often than that, for
 * a precise peak. */
static int64_t flush_limit(void) {
  int64_t threads = threads_live(), limit = threshold() / (8 * (threads < 8 ? 8 : threads));
  return limit < MIN_FLUSH ? MIN_FLUSH : limit;
}

/* The allocation that raises the footprint to a new maximum is followed until it is freed (Scalene, OSDI 2023,
 * §3.4). */
static void note_maximum(struct pass *pass, int64_t now) {
  int64_t before = atomic_load(&highest);
  if (now <= before || !pass->block || !sampler_interval()) return;
  if (atomic_compare_exchange_strong(&highest, &before, now)) pass->maximum = true;
}

static uint64_t *seeded_random(struct memory_state *m) {
  if (!m->random) m->random = random_seed(this_thread.tid);
  return &m->random;
}

/* The thread and the stack that a sample is charged to. */
struct origin {
  uint32_t thread;
  uint64_t stack;
};

static void emit(struct pass *pass, struct origin origin, int64_t net, int64_t allocated, int64_t python) {
  struct record_memory *record = spool_claim(1);
  if (!record) return;
  record->thread = origin.thread;
  record->t_ns = pass->t_ns;
  record->stack = origin.stack;
  record->net_bytes = net;
  record->footprint_bytes = atomic_load(&footprint);
  record->python_footprint_bytes = python_bytes();
  record->allocated_bytes = (uint64_t)(allocated > 0 ? allocated : 0);
  record->python_allocated_bytes = (uint64_t)(python > 0 ? python : 0);
  spool_publish(record, RECORD_MEMORY, 1);
  note_maximum(pass, record->footprint_bytes);
}

/* Writes all unsampled bytes as one sample if they still reach the threshold. Another thread may have been faster; then
 * the bytes are put back. */
static void emit_accumulated(struct pass *pass) {
  int64_t net = atomic_exchange(&unsampled.net, 0);
  if (net < threshold() && net > -threshold()) {
    atomic_fetch_add(&unsampled.net, net);
    return;
  }
  int64_t allocated = atomic_exchange(&unsampled.allocated, 0);
  struct origin origin = {this_thread.id, 0};
  if (net < 0) growth_shrank();
  if (net < 0 || !growth_charge(net, seeded_random(&this_memory), &origin.thread, &origin.stack)) {
    origin.stack = stack_of(pass);
  }
  emit(pass, origin, net, allocated, atomic_exchange(&unsampled.python, 0));
}

/* After a pause, writes what was allocated and freed in it as one sample without a stack. */
static void emit_moved_in_pause(const struct pass *pass) {
  struct pass no_block = {.t_ns = pass->t_ns};
  if (!atomic_load_explicit(&moved_in_pause.allocated, memory_order_relaxed) && !atomic_load(&moved_in_pause.net))
    return;
  int64_t net = atomic_exchange(&moved_in_pause.net, 0), allocated = atomic_exchange(&moved_in_pause.allocated, 0);
  emit(&no_block, (struct origin){this_thread.id, 0}, net, allocated, atomic_exchange(&moved_in_pause.python, 0));
}

void memory_pause_ended(void) {
  if (!memory_counts() || spool->paused) return;
  emit_moved_in_pause(&(struct pass){.t_ns = clock_now_ns()});
}

static int64_t allocated_in(const struct memory_stream *s) { return s->room - s->left; }
static int64_t freed_in(const struct memory_stream *s) { return s->free_room - s->free_left; }

static void empty_stream(struct memory_stream *s) {
  if (s->sample_at != NEVER) s->sample_at -= allocated_in(s);
  s->left = s->room;
  s->free_left = s->free_room;
}

/* Reports to the sampler what was allocated since the last report. Blocks that stop the program at any interval do not
 * count: a coarser interval would not make them cheaper. `moved`: bytes of the block of this stop. */
static void note_volume(struct memory_state *m, int64_t moved) {
  int64_t counted = allocated_in(&m->stream[NATIVE]) + allocated_in(&m->stream[PYTHON]);
  sampler_note_volume(counted - m->reported_volume - (moved < flush_limit() ? 0 : moved));
  m->reported_volume = counted;
}

static void note_asked(int64_t now) {
  int64_t before = atomic_load_explicit(&highest_asked, memory_order_relaxed);
  while (now > before && !atomic_compare_exchange_weak(&highest_asked, &before, now)) {}
}

int scalene_program_memory(int64_t *now, int64_t *most) {
  const struct memory_state *m = &this_memory;
  if (!memory_counts() || !recording() || pyalloc_uncounted_bytes()) return 0;
  int64_t total = atomic_load(&footprint);
  for (int i = 0; i < STREAMS; i++) total += allocated_in(&m->stream[i]) - freed_in(&m->stream[i]);
  note_asked(total);
  *now = total;
  *most = atomic_exchange(&highest_asked, total);
  return 1;
}

/* Moves the thread's counters to the process. Returns its net bytes. */
static int64_t drain(struct memory_state *m, struct account *account) {
  const struct memory_stream *native = &m->stream[NATIVE], *python = &m->stream[PYTHON];
  int64_t by_python = allocated_in(python), python_net = by_python - freed_in(python);
  int64_t allocated = allocated_in(native) + by_python, net = allocated_in(native) - freed_in(native) + python_net;
  note_asked(atomic_fetch_add_explicit(&footprint, net, memory_order_relaxed) + net);
  atomic_fetch_add_explicit(&python_footprint, python_net, memory_order_relaxed);
  atomic_fetch_add_explicit(&python_outside_pools, m->python_outside_pools, memory_order_relaxed);
  atomic_fetch_add_explicit(&account->allocated, allocated, memory_order_relaxed);
  atomic_fetch_add_explicit(&account->python, by_python, memory_order_relaxed);
  note_volume(m, 0);
  m->reported_volume = 0;
  m->python_outside_pools = 0;
  m->flushed += allocated;
  empty_stream(&m->stream[NATIVE]);
  empty_stream(&m->stream[PYTHON]);
  return net;
}

static void emit_block(struct pass *pass, int64_t moved, bool by_python) {
  int64_t gross = moved > 0 ? moved : 0, python = by_python ? gross : 0;
  atomic_fetch_sub_explicit(&unsampled.allocated, gross, memory_order_relaxed);
  atomic_fetch_sub_explicit(&unsampled.python, python, memory_order_relaxed);
  emit(pass, (struct origin){this_thread.id, stack_of(pass)}, moved, gross, python);
  growth_begin();
}

/* moved: bytes that were just allocated (> 0) or freed (< 0). */
static void sample_if_moved(struct pass *pass, int64_t moved) {
  struct memory_state *m = &this_memory;
  int64_t limit = threshold();
  bool by_python = moved > 0 ? allocated_in(&m->stream[PYTHON]) >= moved : freed_in(&m->stream[PYTHON]) >= -moved;
  by_python = by_python && !m->stack_is_known;
  if (spool->paused) {
    atomic_fetch_add(&moved_in_pause.net, drain(m, &moved_in_pause));
    return;
  }
  emit_moved_in_pause(pass);
  int64_t net = drain(m, &unsampled);
  bool large = moved >= limit || moved <= -limit || m->stack_is_known;
  int64_t sum = atomic_fetch_add(&unsampled.net, large ? net - moved : net) + (large ? net - moved : net);
  if (large) emit_block(pass, moved, by_python);
  if (sum >= limit || sum <= -limit) emit_accumulated(pass);
}

/* ---- the countdown ---- */

/* Draws the gap to the stream's next sample. */
static void draw_gap(struct memory_state *m, struct memory_stream *s, int64_t interval) {
  s->interval = interval;
  s->sample_at = interval ? allocated_in(s) + sampler_gap(seeded_random(m), interval) : NEVER;
}

/* Returns the interval of the sample that is due with this block, 0 if none is due. A new gap begins after the
 * block. */
static int64_t due_interval(struct memory_state *m, const struct block *block) {
  struct memory_stream *s = &m->stream[block->python ? PYTHON : NATIVE];
  int64_t interval = s->interval;
  if (!interval || allocated_in(s) < s->sample_at) return 0;
  draw_gap(m, s, sampler_interval());
  return spool->paused ? 0 : interval;
}

/* Returns the interval that the block is recorded with, 0 = it is not sampled. `due`: the interval of the sample
 * that is due with it. A new block of at least the threshold is always recorded. */
static int64_t recorded_interval(struct pass *pass, int64_t due, int64_t moved) {
  const struct block *block = pass->block;
  uint64_t *random = seeded_random(&this_memory);
  if (due && moved < flush_limit()) sampler_note_due();
  if (moved >= threshold() && (size_t)moved == block->usable && sampler_interval() && !spool->paused) return 1;
  if (!due || !sampler_adapts() || this_memory.stack_is_known) return due;
  due = budget_admit(BUDGET_OF_LINE, frames_line(), block->usable, due, pass->t_ns, random);
  return due ? budget_admit(BUDGET_OF_STACK, stack_of(pass), block->usable, due, pass->t_ns, random) : 0;
}

/* Draws the first gaps of a thread, which begin before its first block. Until then, -sample_at is the number of bytes
 * that resized blocks count beyond their growth, because a resized block counts with all its bytes. */
static void begin_streams(struct memory_state *m) {
  for (int i = 0; i < STREAMS; i++) {
    struct memory_stream *s = &m->stream[i];
    int64_t passed = allocated_in(s) - s->sample_at;
    if (s->interval != NOT_DRAWN) continue;
    draw_gap(m, s, sampler_interval());
    if (s->sample_at != NEVER) s->sample_at -= passed;
  }
}

/* Draws gaps again if their interval is no longer in force. */
static void follow_interval(struct memory_state *m) {
  int64_t interval = sampler_interval();
  for (int i = 0; i < STREAMS; i++) {
    if (m->stream[i].interval != interval) draw_gap(m, &m->stream[i], interval);
  }
}

/* Changes the budgets of a stream and keeps its counts. */
static void set_room(struct memory_stream *s, int64_t room, int64_t free_room) {
  s->left += room - s->room;
  s->free_left += free_room - s->free_room;
  s->room = room;
  s->free_room = free_room;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Sets the budgets until the nearest of flush limit, next sample and next interval check. An adapting interval is
 * checked more often than the thread flushes. Otherwise, in a slow program, a coarse interval that a burst has caused
 * would stay in force for seconds, and each of the few samples would stand for megabytes. In a pause there is nothing to
 * sample or to check; only where the user has set the interval, the first blocks after it are to be samples. */
static void set_stops(struct memory_state *m) {
  int64_t limit = flush_limit();
  m->in_pause = spool->paused;
  if (m->in_pause) limit = least(limit, PAUSED_BYTES);
  for (int i = 0; i < STREAMS; i++) {
    struct memory_stream *s = &m->stream[i];
    int64_t check_bytes = least(s->interval / 4 > CHECK_BYTES ? s->interval / 4 : CHECK_BYTES, MOST_CHECK_BYTES);
    int64_t check_at = sampler_adapts() ? allocated_in(s) + check_bytes : NEVER;
    if (m->in_pause && sampler_adapts()) s->sample_at = check_at = NEVER;
    set_room(s, least(least(s->sample_at, check_at), limit) - 1, limit - 1);
  }
}

/* The recording goes on: what the thread has counted belongs to the pause, but for the block of this stop. */
static void leave_pause(struct memory_state *m, const struct block *block, int64_t moved) {
  struct memory_stream *s = &m->stream[block && block->python ? PYTHON : NATIVE];
  if (!block && m->stream[PYTHON].free_left < 0) s = &m->stream[PYTHON];
  int64_t allocated = moved > 0 ? moved : 0, freed = moved < 0 ? -moved : 0;
  s->left += allocated;
  s->free_left += freed;
  atomic_fetch_add(&moved_in_pause.net, drain(m, &moved_in_pause));
  for (int i = 0; i < STREAMS; i++) draw_gap(m, &m->stream[i], sampler_interval());
  s->left -= allocated;
  s->free_left -= freed;
}

/* In a process that may be attached to again, threads go on to stop; what they have counted belongs to nobody. */
static void stop_counting(struct memory_state *m) {
  for (int i = 0; i < STREAMS; i++) {
    struct memory_stream *s = &m->stream[i];
    s->interval = 0; /* otherwise a resized block would bring the next stop closer */
    if (IS_ATTACHED) {
      s->left = s->free_left = s->room = s->free_room = PAUSED_BYTES;
    } else {
      set_room(s, NEVER, NEVER);
    }
  }
}

/* The thread has counted for a recording before this one. Of what it has counted since, only the block of this stop is
 * certain to belong to this one; the rest is less than the flush limit. */
static void renew(struct memory_state *m, const struct block *block, int64_t moved) {
  uint32_t depth = m->python_depth;
  uintptr_t busy = m->busy;
  struct memory_stream *s = &m->stream[block && block->python ? PYTHON : NATIVE];
  if (!block && m->stream[PYTHON].free_left < 0) s = &m->stream[PYTHON];
  *m = (struct memory_state)NEW_MEMORY_STATE;
  m->python_depth = depth;
  m->busy = busy;
  m->session = memory_session;
  *(moved > 0 ? &s->left : &s->free_left) -= moved > 0 ? moved : -moved;
}

/* Returns true if the counters must be flushed. A stop for a sample alone does not flush, so footprint samples fall
 * where they would fall without the allocation sampler. */
static bool flush_is_due(const struct memory_state *m) {
  for (int i = 0; i < STREAMS; i++) {
    const struct memory_stream *s = &m->stream[i];
    if (allocated_in(s) > s->free_room || s->free_left < 0) return true;
  }
  return false;
}

static uint64_t run_slow_path(struct memory_state *m, const struct block *block, int64_t moved) {
  struct pass pass = {.block = block, .t_ns = quick_clock_ns()};
  m->now_ns = pass.t_ns;
  uint64_t id = 0;
  thread_ensure();
  if (spool->paused) {
    codes_forget();
  } else {
    diverted_end();
    pyalloc_resume();
  }
  if (m->in_pause && !spool->paused) leave_pause(m, block, moved);
  note_volume(m, moved);
  begin_streams(m);
  int64_t interval = block ? recorded_interval(&pass, due_interval(m, block), moved) : 0;
  follow_interval(m);
  bool flush = flush_is_due(m) || m->stack_is_known;
  if (flush) sample_if_moved(&pass, moved);
  if (interval || pass.maximum)
    id = sampler_write(block, interval, pass.maximum, stack_of(&pass), python_thread_state());
  if (flush && !spool->paused) note_heap(); /* last: the block that causes a peak was allocated before it */
  set_stops(m);
  return id;
}

/* The sampler uses floating point, whose flags and exception masks belong to the program. */
static arch_float_state take_float_state(void) {
  arch_float_state saved = arch_float_state_now();
  arch_float_state_set(ARCH_FLOAT_DEFAULT);
  return saved;
}
static void give_float_state(arch_float_state saved) { arch_float_state_set(saved); }

/* Does nothing while the slow path already runs in this thread: what a signal handler allocates then is counted with
 * the next block. A handler may also leave the slow path by longjmp; then the stack pointer is above the stored frame,
 * and the slow path runs again. */
static SLOW_PATH uint64_t enter_slow_path(const struct block *block, int64_t moved) {
  struct memory_state *m = &this_memory;
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  uint64_t id = 0;
  if (m->busy && here <= m->busy) return 0;
  int saved_errno = errno;
  fork_check();
  sampler_wait_for_room();
  if (unlikely(seal_may_end())) { /* in a section, a thread that allocates all the time would delay the seal */
    if (IS_ATTACHED) stop_counting(m);
    errno = saved_errno;
    return 0;
  }
  uint32_t section = seal_enter();
  m->busy = here;
  if (IS_ATTACHED && m->session != memory_session) renew(m, block, moved);
  uint32_t float_state = take_float_state();
  if (recording()) {
    id = run_slow_path(m, block, moved);
  } else if (!seal_may_end()) {
    stop_counting(m);
  }
  give_float_state(float_state);
  m->busy = 0;
  seal_leave(section);
  errno = saved_errno;
  return id;
}

static bool is_nothing_due(const struct memory_state *m) {
  if (!recording() || spool->paused || m->in_pause || flush_is_due(m)) return false;
  for (int i = 0; i < STREAMS; i++) {
    const struct memory_stream *s = &m->stream[i];
    if (s->interval != m->stream[0].interval || allocated_in(s) >= s->sample_at) return false;
  }
  return sampler_is_settled(m->stream[0].interval);
}

/* With an adapting interval most stops only ask whether it is still in force. If it is, and nothing else is due,
 * sets the next stop and returns true. */
static bool pass_on(struct memory_state *m) {
  if (m->busy || seal_may_end()) return false; /* as in enter_slow_path */
  if (IS_ATTACHED && m->session != memory_session) return false;
  uint32_t section = seal_enter();
  m->busy = (uintptr_t)__builtin_frame_address(0);
  bool passes = is_nothing_due(m);
  if (passes) set_stops(m);
  m->busy = 0;
  seal_leave(section);
  return passes;
}

/* While every allocation is recorded, a stop mostly has one thing to do, and next to none of what run_slow_path asks about
 * can have changed. False = it has. */
static bool is_only_to_write(const struct memory_state *m, const struct block *block, size_t moved) {
  const struct memory_stream *s = &m->stream[block->python ? PYTHON : NATIVE];
  if (s->interval != 1 || m->in_pause || m->stack_is_known || moved != block->usable) return false;
  if (!recording() || spool->paused || !sampler_is_exact() || !this_thread.id) return false;
  return !flush_is_due(m);
}

static bool write_only(struct memory_state *m, const struct block *block, size_t moved) {
  if (m->busy || seal_may_end()) return false; /* as in enter_slow_path */
  int saved_errno = errno;
  fork_check();
  sampler_wait_for_room();
  uint32_t section = IS_ATTACHED ? seal_enter() : 0;
  m->busy = (uintptr_t)__builtin_frame_address(0);
  bool writes = (!IS_ATTACHED || m->session == memory_session) && is_only_to_write(m, block, moved);
  if (writes) {
    struct memory_stream *s = &m->stream[block->python ? PYTHON : NATIVE];
    m->now_ns = quick_clock_ns();
    void *state = python_thread_state();
    uint64_t stack = frames_of(state);
    if (!sampler_write_pooled(block, stack, state)) sampler_write(block, 1, false, stack, state);
    s->sample_at = allocated_in(s) + 1;
    set_room(s, least(allocated_in(s), s->free_room), s->free_room);
  }
  m->busy = 0;
  if (IS_ATTACHED) seal_leave(section);
  errno = saved_errno;
  return writes;
}

void (*memory_at_stop)(bool python);

/* Not inside of a section, where the slow path runs further out or a range is noted: the end of a recording waits for those. */
static void note_stop(bool python) {
#ifdef SHIM_ATTACHED
  if (memory_at_stop && !seal_depth) memory_at_stop(python);
#else
  (void)python;
#endif
}

APART void memory_stop_at_allocated(int which, const void *address, size_t size, size_t usable, int source,
                                    size_t moved) {
  struct block block = {(uintptr_t)address, size, usable, (uint16_t)source, which == PYTHON, false, false};
  struct memory_state *m = &this_memory;
  if (!(m->stream[which].interval == 1 ? write_only(m, &block, moved) : pass_on(m)))
    enter_slow_path(&block, (int64_t)moved);
  note_stop(which == PYTHON);
}

SLOW_PATH void memory_stop_at_freed(int which, size_t bytes) {
  enter_slow_path(NULL, -(int64_t)bytes);
  note_stop(which == PYTHON);
}

uint64_t memory_mapped(const struct block *block, size_t before) {
  struct memory_state *m = &this_memory;
  int64_t grown = memory_resize_stream(&m->stream[NATIVE], before, block->usable);
  return m->stream[NATIVE].left < 0 ? enter_slow_path(block, grown) : 0;
}

static uint64_t count_for_stack(uint64_t stack, const struct block *block, int64_t moved) {
  struct memory_state *m = &this_memory;
  m->stack_is_known = true;
  m->known_stack = stack;
  uint64_t id = enter_slow_path(block, moved);
  m->stack_is_known = false;
  return id;
}

uint64_t memory_became_resident(const struct block *block, uint64_t stack) {
  this_memory.stream[NATIVE].left -= (int64_t)block->usable;
  this_memory.allocated_seen += (int64_t)block->usable; /* the thread has not allocated it */
  return count_for_stack(stack, block, (int64_t)block->usable);
}

void memory_left_residence(size_t bytes, uint64_t stack) {
  this_memory.stream[NATIVE].free_left -= (int64_t)bytes;
  count_for_stack(stack, NULL, -(int64_t)bytes);
}

/* ---- fork, end of a thread ---- */

static void empty_account(struct account *account) {
  atomic_store(&account->net, 0);
  atomic_store(&account->allocated, 0);
  atomic_store(&account->python, 0);
}

void memory_postfork_child(void) {
  drain(&this_memory, &unsampled);
  empty_account(&unsampled);
  empty_account(&moved_in_pause);
  atomic_store(&peak_busy, 0);
  peak.head = 0;
  this_memory.busy = 0;
  this_memory.random = 0;
  sampler_postfork_child();
  pyalloc_postfork_child();
  atomic_fetch_sub(&footprint, mappings_postfork_child());
  atomic_store(&highest_asked, atomic_load(&footprint));
  if (memory_counts() && recording()) set_stops(&this_memory); /* those of the parent begin with its last flush */
}

void memory_thread_end(void) {
  struct memory_state *m = &this_memory;
  if (!memory_counts() || !recording() || (IS_ATTACHED && m->session != memory_session)) return;
  struct account *account = spool->paused || m->in_pause ? &moved_in_pause : &unsampled;
  m->busy = (uintptr_t)__builtin_frame_address(0); /* a tick counts nothing meanwhile */
  sampler_thread_end();
  atomic_fetch_add(&account->net, drain(m, account));
  set_stops(m);
  m->busy = 0;
}
