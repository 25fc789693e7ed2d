/* Memory counters and the threshold sampler (Scalene, OSDI 2023, §3.2).
 *
 * Threads count for themselves and flush to the process when they have moved a fraction of the threshold; the
 * threshold is compared process-wide, so that a producer and a consumer do not make samples out of nothing. A block of
 * at least the threshold is a sample of its own, so its line gets exactly its size. */
#include "shim.h"

#include <string.h>

THREAD_LOCAL struct memory_state this_memory;
enum memory_mode memory_mode;

static _Atomic int64_t since;           /* allocated - freed, not yet in a sample */
static _Atomic int64_t allocated_since; /* gross, not yet in a sample */
static _Atomic int64_t python_since;
static _Atomic int64_t footprint;
static _Atomic int64_t python_footprint;

#define NEVER INT64_MAX
#define MIN_FLUSH 4096

void memory_init(void) {
  if (!(spool->features & FEATURE_MEMORY)) return;
  if (next.malloc_usable_size) {
    memory_mode = MEMORY_COUNT;
  } else {
    loss_add(LOSS_no_usable_size);
  }
}

void memory_footprint(int64_t *total, int64_t *python) {
  *total = atomic_load(&footprint);
  *python = atomic_load(&python_footprint);
}

static int64_t threshold(void) {
  int64_t bytes = (int64_t)spool->memory_threshold_bytes;
  return bytes > 0 ? bytes : 1;
}

static int64_t flush_limit(void) {
  int64_t limit = threshold() / (8 * (int64_t)threads_live());
  return limit < MIN_FLUSH ? MIN_FLUSH : limit;
}

static void emit(int64_t net, int64_t allocated, int64_t python) {
  struct python_stack stack = {.hash = 0};
  struct scratch *scratch = python_layout ? scratch_take() : NULL;
  if (scratch) {
    frames_sample(python_thread_state(), 0, scratch, &stack);
    scratch_give(scratch);
  }
  struct record_memory *record = spool_claim(1);
  if (!record) return;
  record->thread = this_thread.id;
  record->t_ns = clock_now_ns();
  record->stack = stack.hash;
  record->net_bytes = net;
  record->footprint_bytes = atomic_load(&footprint);
  record->python_footprint_bytes = atomic_load(&python_footprint);
  record->allocated_bytes = (uint64_t)(allocated > 0 ? allocated : 0);
  record->python_allocated_bytes = (uint64_t)(python > 0 ? python : 0);
  spool_publish(record, RECORD_MEMORY, 1);
}

/* Everything since the last sample becomes one, if it still reaches the threshold (another thread may have been
 * faster: then what it left is put back). */
static void emit_accumulated(void) {
  int64_t net = atomic_exchange(&since, 0);
  if (net < threshold() && net > -threshold()) {
    atomic_fetch_add(&since, net);
    return;
  }
  int64_t allocated = atomic_exchange(&allocated_since, 0);
  emit(net, allocated, atomic_exchange(&python_since, 0));
}

/* Moves the thread's counters to the process. Returns its net bytes. */
static int64_t drain(struct memory_state *m) {
  int64_t python = m->python_allocated, allocated = m->native_allocated + python;
  int64_t python_net = python - m->python_freed, net = m->native_allocated - m->native_freed + python_net;
  m->native_allocated = m->native_freed = m->python_allocated = m->python_freed = 0;
  atomic_fetch_add_explicit(&footprint, net, memory_order_relaxed);
  atomic_fetch_add_explicit(&python_footprint, python_net, memory_order_relaxed);
  atomic_fetch_add_explicit(&allocated_since, allocated, memory_order_relaxed);
  atomic_fetch_add_explicit(&python_since, python, memory_order_relaxed);
  return net;
}

static void emit_block(int64_t block, bool by_python) {
  int64_t gross = block > 0 ? block : 0, python = by_python ? gross : 0;
  atomic_fetch_sub_explicit(&allocated_since, gross, memory_order_relaxed);
  atomic_fetch_sub_explicit(&python_since, python, memory_order_relaxed);
  emit(block, gross, python);
}

static void sample_if_moved(int64_t block) {
  struct memory_state *m = &this_memory;
  int64_t limit = threshold();
  bool by_python = block > 0 ? m->python_allocated >= block : m->python_freed >= -block;
  int64_t net = drain(m);
  bool large = !spool->paused && (block >= limit || block <= -limit);
  int64_t sum = atomic_fetch_add(&since, large ? net - block : net) + (large ? net - block : net);
  if (spool->paused) return;
  if (large) emit_block(block, by_python);
  if (sum >= limit || sum <= -limit) emit_accumulated();
}

SLOW_PATH void memory_flush(int64_t block) {
  struct memory_state *m = &this_memory;
  if (m->busy) return;
  int saved_errno = errno;
  m->busy = 1;
  process_check_fork();
  if (!recording()) {
    m->flush_at = NEVER;
  } else {
    threads_begin(false);
    sample_if_moved(block);
    m->flush_at = flush_limit();
  }
  m->busy = 0;
  errno = saved_errno;
}

/* What the parent has not put into a sample is its own; the child has inherited the memory. */
void memory_postfork_child(void) {
  drain(&this_memory);
  atomic_store(&since, 0);
  atomic_store(&allocated_since, 0);
  atomic_store(&python_since, 0);
}

/* What the thread counted stays counted, also what its remaining destructors do. */
void memory_thread_end(void) {
  struct memory_state *m = &this_memory;
  if (memory_mode == MEMORY_COUNT && recording()) atomic_fetch_add(&since, drain(m));
}
