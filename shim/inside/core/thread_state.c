/* The state of the calling thread, for every file that writes records. Files in cpu/ and processes/ fill it in. */
#include "inside/core/thread_state.h"

#include "shared/base.h"

THREAD_LOCAL struct thread_state this_thread = {
    .perf_fd = -1, .old_perf_fd = -1, .fault_fd = -1, .old_fault_fd = -1, .user_timer = -1, .kernel_timer = -1};

static _Atomic int live;
static void (*begin_thread)(bool from_now);

void thread_set_begin(void (*begin)(bool from_now)) { begin_thread = begin; }

void thread_ensure(void) {
  if ((IS_ATTACHED || !this_thread.id) && begin_thread) begin_thread(false);
}

int threads_live(void) {
  int count = atomic_load_explicit(&live, memory_order_relaxed);
  return count > 0 ? count : 1;
}

void threads_count(int change) { atomic_fetch_add(&live, change); }

void threads_count_none(void) { atomic_store(&live, 0); }

/* ---- the C stack ---- */

THREAD_LOCAL struct thread_stack this_stack;

/* Linux maps nothing else within 128 MiB below the end of the first stack (mmap_base), whatever its limit is. */
#define FIRST_BYTES ((uintptr_t)8 << 20)
#define SLACK ((uintptr_t)64 << 10)

void thread_stack_of_first(uintptr_t high) { this_stack = (struct thread_stack){high - FIRST_BYTES, high}; }

/* libc puts what describes the thread, to which the thread pointer leads, at the upper end of the stack, which is one
 * mapping of at least the requested size. So no other mapping is inside [end - bytes, end). */
void thread_stack_begin(size_t bytes) {
  uintptr_t end = arch_thread_block(), here = (uintptr_t)__builtin_frame_address(0);
  this_stack = (struct thread_stack){0, 0};
  if (bytes < 2 * SLACK || end <= here || end - here >= bytes - SLACK) return;
  this_stack = (struct thread_stack){end - bytes + SLACK, here};
}
