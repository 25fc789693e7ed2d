/* The state of the calling thread, for every file that writes records. Files in cpu/ and processes/ fill it in. */
#include "inside/core/thread_state.h"

#include "shared/base.h"

THREAD_LOCAL struct thread_state this_thread = {.perf_fd = -1, .old_perf_fd = -1, .user_timer = -1, .kernel_timer = -1};

static _Atomic int live;
static void (*begin_thread)(bool from_now);

void thread_set_begin(void (*begin)(bool from_now)) { begin_thread = begin; }

void thread_ensure(void) {
  if (!this_thread.id && begin_thread) begin_thread(false);
}

int threads_live(void) {
  int count = atomic_load_explicit(&live, memory_order_relaxed);
  return count > 0 ? count : 1;
}

void threads_count(int change) { atomic_fetch_add(&live, change); }

void threads_count_none(void) { atomic_store(&live, 0); }
