/* Detects forked children. The kernel empties a page with MADV_WIPEONFORK in each forked child, so a check costs one
 * load. */
#include "inside/core/fork.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "shared/base.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* A page that reads 0 in a forked child until the child is detected; null = the kernel lacks MADV_WIPEONFORK. */
static LASTING _Atomic uint32_t *same_process;
static LASTING pid_t own_pid;
static LASTING void (*begin_in_child)(void);

static void map_page(void) {
  void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, 4096, MADV_WIPEONFORK)) {
    munmap(page, 4096);
    return;
  }
  same_process = page;
  atomic_store(same_process, 1);
}

void fork_watch(void (*in_child)(void)) {
  begin_in_child = in_child;
  if (!same_process) map_page();
}

void fork_begin_process(void) {
  own_pid = (pid_t)syscall(SYS_getpid);
  if (same_process) atomic_store(same_process, 1);
}

pid_t fork_own_pid(void) { return own_pid; }

void fork_check(void) {
  if (likely(!same_process || atomic_load_explicit(same_process, memory_order_relaxed))) return;
  atomic_store(same_process, 1);
  begin_in_child();
}

/* A signal handler, or a fork handler that was registered before ours, may have detected the child already. */
void fork_in_child(void) {
  if (same_process) {
    fork_check();
  } else {
    begin_in_child();
  }
}

/* In a forked child that is not detected yet, the page is empty; a child that shares memory sees its parent's page. */
bool fork_shares_memory(void) {
  if (own_pid == 0 || (same_process && !atomic_load_explicit(same_process, memory_order_relaxed))) return false;
  return !fork_is_recorded_process();
}

bool fork_is_recorded_process(void) { return (pid_t)syscall(SYS_getpid) == own_pid; }
