/* Records what calls of the CUDA libraries copy, allocate and wait for. The figures are exact: every call counts.
 *
 * A program may make a hundred thousand calls per second. So each thread adds up its calls with the same stack and
 * direction, and writes the sums if its last flush is at least FLUSH_NS ago: at the next call, at a tick, when the
 * thread ends, or when the process ends before the thread. A single call after a quiet time is written at once. */
#include "inside/cuda/calls.h"

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/thread_state.h"
#include "inside/cuda/cuda.h"
#include "inside/stacks/frames.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/saferead.h"
#include "shared/spool.h"

#define FLUSH_NS 10000000
#define SUMS 8
#define ACCUMULATORS 64

/* Calls with the same stack and direction that are not written yet. calls = 0: free. */
struct sum {
  uint64_t stack, bytes;
  int64_t t_ns, end_ns, duration_ns;
  uint32_t calls;
  uint16_t direction;
};
/* The sums of one thread. They are not thread-local, so that another thread can write them when the process ends. A
 * thread that gets no accumulator writes each call. */
struct accumulator {
  _Atomic uint32_t thread; /* 0 = free */
  _Atomic bool busy;       /* being changed or written; a thread that finds it true does not wait */
  _Atomic int64_t flushed_ns;
  struct sum sum[SUMS];
};
static struct accumulator accumulators[ACCUMULATORS];
static THREAD_LOCAL struct accumulator *this_accumulator;
/* Address of the stack frame of an intercepted call. Calls that the library makes inside it are not counted. */
static THREAD_LOCAL uintptr_t inside;

/* ---- writing ---- */

static void write_sum(const struct sum *sum, uint32_t thread) {
  struct record_device_call *record = sum->calls ? spool_claim(1) : NULL;
  if (!record) return;
  *record = (struct record_device_call){.head = record->head,
                                        .thread = thread,
                                        .t_ns = sum->t_ns,
                                        .end_ns = sum->end_ns,
                                        .duration_ns = sum->duration_ns,
                                        .stack = sum->stack,
                                        .bytes = sum->bytes,
                                        .calls = sum->calls,
                                        .direction = sum->direction};
  spool_publish(record, RECORD_DEVICE_CALL, 1);
}

static void write_sums(struct accumulator *accumulator) {
  for (int i = 0; i < SUMS; i++) {
    write_sum(&accumulator->sum[i], atomic_load(&accumulator->thread));
    accumulator->sum[i].calls = 0;
  }
}

static void flush(struct accumulator *accumulator) {
  if (!recording() || atomic_exchange(&accumulator->busy, true)) return;
  write_sums(accumulator);
  atomic_store(&accumulator->busy, false);
}

void cuda_calls_flush_all(void) {
  for (int i = 0; i < ACCUMULATORS; i++) {
    if (atomic_load_explicit(&accumulators[i].thread, memory_order_relaxed)) flush(&accumulators[i]);
  }
}

void cuda_calls_thread_end(void) {
  struct accumulator *accumulator = this_accumulator;
  if (likely(!accumulator)) return;
  flush(accumulator);
  this_accumulator = NULL;
  atomic_store(&accumulator->thread, 0);
}

void cuda_calls_tick(void) {
  struct accumulator *accumulator = this_accumulator;
  if (likely(!accumulator)) return;
  int64_t now_ns = clock_now_ns();
  if (now_ns - atomic_load(&accumulator->flushed_ns) < FLUSH_NS) return;
  atomic_store(&accumulator->flushed_ns, now_ns);
  flush(accumulator);
}

void cuda_calls_postfork_child(void) {
  for (int i = 0; i < ACCUMULATORS; i++) {
    if (!atomic_load(&accumulators[i].thread)) continue;
    for (int k = 0; k < SUMS; k++) accumulators[i].sum[k].calls = 0;
    atomic_store(&accumulators[i].busy, false);
    atomic_store(&accumulators[i].thread, 0);
  }
  this_accumulator = NULL;
}

/* ---- adding up ---- */

static struct accumulator *own_accumulator(void) {
  for (int i = 0; i < ACCUMULATORS && !this_accumulator && this_thread.id; i++) {
    uint32_t unused = 0;
    if (atomic_compare_exchange_strong(&accumulators[i].thread, &unused, this_thread.id))
      this_accumulator = &accumulators[i];
  }
  return this_accumulator;
}

/* Returns the sum for such calls: the existing one, a free one, or the one whose last call is the oldest, after writing
 * it. */
static struct sum *sum_for(struct accumulator *accumulator, uint64_t stack, uint16_t direction) {
  struct sum *found = &accumulator->sum[0];
  for (int i = 0; i < SUMS; i++) {
    struct sum *sum = &accumulator->sum[i];
    if (sum->calls && sum->stack == stack && sum->direction == direction) return sum;
    if (found->calls && (!sum->calls || sum->end_ns < found->end_ns)) found = sum;
  }
  write_sum(found, atomic_load(&accumulator->thread));
  found->calls = 0;
  return found;
}

static void add(struct accumulator *accumulator, const struct sum *call) {
  struct sum *sum = sum_for(accumulator, call->stack, call->direction);
  if (!sum->calls) *sum = (struct sum){.stack = call->stack, .t_ns = call->t_ns, .direction = call->direction};
  sum->end_ns = call->end_ns;
  sum->duration_ns += call->duration_ns;
  sum->bytes += call->bytes;
  sum->calls++;
}

static void note_call(uint16_t direction, uint64_t bytes, int64_t t_ns) {
  struct sum call = {.bytes = bytes, .t_ns = t_ns, .end_ns = clock_now_ns(), .calls = 1, .direction = direction};
  call.duration_ns = call.end_ns - t_ns;
  thread_ensure();
  call.stack = frames_current();
  struct accumulator *accumulator = own_accumulator();
  if (!accumulator || atomic_exchange(&accumulator->busy, true)) {
    write_sum(&call, this_thread.id);
    return;
  }
  add(accumulator, &call);
  if (call.end_ns - atomic_load(&accumulator->flushed_ns) >= FLUSH_NS) {
    atomic_store(&accumulator->flushed_ns, call.end_ns);
    write_sums(accumulator);
  }
  atomic_store(&accumulator->busy, false);
}

/* ---- copies and waits ---- */

/* cudaMemcpyKind: 0 host to host, 1 host to device, 2 device to host, 3 device to device, 4 determined by the
 * addresses. */
static uint16_t direction_of(const struct cuda_call *call, const uintptr_t *a) {
  if (call->how > 0) return (uint16_t)call->how;
  uint32_t kind = (uint32_t)a[-1 - call->how];
  return (uint16_t)(kind < 4 ? DEVICE_H2H + kind : DEVICE_UNIFIED);
}

/* CUDA_MEMCPY2D of cuda.h. Memory types: 1 host, 2 device, 3 array (of a device), 4 unified. */
struct description {
  size_t from_x, from_y;
  uint32_t from_type;
  uintptr_t from[3];
  size_t from_pitch, to_x, to_y;
  uint32_t to_type;
  uintptr_t to[3];
  size_t to_pitch, width, height;
};
_Static_assert(sizeof(struct description) == 128, "as cuda.h has it");

static uint16_t described_direction(const struct description *d) {
  if (d->from_type > 3 || d->to_type > 3) return DEVICE_UNIFIED;
  if (d->from_type == 1) return d->to_type == 1 ? DEVICE_H2H : DEVICE_H2D;
  return d->to_type == 1 ? DEVICE_D2H : DEVICE_D2D;
}

static uint64_t bytes_copied(const struct cuda_call *call, const uintptr_t *a, uint16_t *direction) {
  struct description described;
  if (call->act == COPY) {
    *direction = direction_of(call, a);
    return a[call->size] * (call->times >= 0 ? a[call->times] : 1);
  }
  if (!safe_read(&described, (void *)a[0], sizeof described)) return 0;
  *direction = described_direction(&described);
  return described.width * described.height;
}

/* A failed copy has copied nothing; a failed wait has still waited. */
static int copy_or_wait(cuda_function *real, const struct cuda_call *call, const uintptr_t *a) {
  uint16_t direction = DEVICE_SYNC;
  uint64_t bytes = call->act == WAIT ? 0 : bytes_copied(call, a, &direction);
  int64_t t_ns = clock_now_ns();
  int result = cuda_forward(real, a), saved_errno = errno;
  bool counts = call->act == WAIT || (bytes && result == 0);
  if (counts && recording() && !spool->paused) note_call(direction, bytes, t_ns);
  errno = saved_errno;
  return result;
}

/* ---- device memory ---- */

static void write_block(const struct record_device_block *block) {
  thread_ensure();
  struct record_device_block *record = spool_claim(1);
  if (!record) return;
  uint32_t head = record->head;
  *record = *block;
  record->head = head;
  record->thread = this_thread.id;
  record->t_ns = clock_now_ns();
  spool_publish(record, RECORD_DEVICE_BLOCK, 1);
}

static uint64_t bytes_allocated(const struct cuda_call *call, const uintptr_t *a) {
  size_t pitch;
  if (call->act == ALLOCATE) return a[call->size];
  return safe_read(&pitch, (void *)a[call->size], sizeof pitch) ? pitch * a[call->times] : 0;
}

static int allocate(cuda_function *real, const struct cuda_call *call, const uintptr_t *a) {
  int result = cuda_forward(real, a), saved_errno = errno;
  struct record_device_block block = {.what = BLOCK_ALLOCATED, .source = (uint16_t)call->how};
  bool has_block =
      result == 0 && recording() && safe_read(&block.address, (void *)a[0], sizeof block.address) && block.address;
  block.bytes = has_block ? bytes_allocated(call, a) : 0;
  if (block.bytes && !spool->paused) {
    block.stack = frames_current();
    write_block(&block);
  }
  errno = saved_errno;
  return result;
}

/* Writes the free before the call: after it, another thread may have got the address already. */
static int release(cuda_function *real, const uintptr_t *a) {
  int saved_errno = errno;
  struct record_device_block block = {.what = BLOCK_FREED, .address = a[0]};
  if (a[0]) write_block(&block);
  errno = saved_errno;
  int result = cuda_forward(real, a);
  saved_errno = errno;
  block.what = BLOCK_NOT_FREED;
  if (a[0] && result && recording()) write_block(&block);
  errno = saved_errno;
  return result;
}

/* ---- any call ---- */

static int record_call(cuda_function *real, const struct cuda_call *call, const uintptr_t *a) {
  uint32_t features = spool->features;
  bool copies = call->act == COPY || call->act == COPY_DESCRIBED;
  if (call->act == WAIT || (copies && features & FEATURE_COPY)) return copy_or_wait(real, call, a);
  if (copies || !(features & FEATURE_MEMORY)) return cuda_forward(real, a);
  return call->act == FREE ? release(real, a) : allocate(real, call, a);
}

/* If an outer call was left by longjmp, the stack pointer is above its frame, so this call is not inside it. */
int cuda_calls_make(cuda_function *real, const struct cuda_call *call, const uintptr_t *a) {
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  int saved_errno = errno;
  fork_check();
  errno = saved_errno;
  if (!recording() || (inside && here < inside)) return cuda_forward(real, a);
  inside = here;
  int result = record_call(real, call, a);
  inside = 0;
  return result;
}
