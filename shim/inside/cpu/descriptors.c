/* The list of the perf events of all threads. A forked child inherits the descriptors, but not the threads that they
 * count, so it closes them. */
#include "inside/cpu/descriptors.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inside/cpu/timers.h"
#include "shared/base.h"

#define MAX_DESCRIPTORS 2048
static _Atomic int32_t descriptors[MAX_DESCRIPTORS]; /* fd + 1; 0 = free */
static _Atomic int32_t descriptor_end;               /* one past the highest slot ever used */
static _Atomic int32_t descriptor_count;
static int32_t descriptor_budget;

void descriptors_init(void) {
  struct rlimit files;
  descriptor_budget =
      getrlimit(RLIMIT_NOFILE, &files) ? 64 : (int32_t)(files.rlim_cur > 8192 ? 2048 : files.rlim_cur / 4);
}

int32_t descriptors_add(int fd) {
  if (atomic_load(&descriptor_count) >= descriptor_budget) return -1;
  for (int32_t slot = 0; slot < MAX_DESCRIPTORS; slot++) {
    int32_t free = 0;
    if (atomic_load_explicit(&descriptors[slot], memory_order_relaxed)) continue;
    if (!atomic_compare_exchange_strong(&descriptors[slot], &free, fd + 1)) continue;
    atomic_fetch_add(&descriptor_count, 1);
    int32_t end = atomic_load(&descriptor_end);
    while (end <= slot && !atomic_compare_exchange_weak(&descriptor_end, &end, slot + 1)) {}
    return slot;
  }
  return -1;
}

void descriptors_remove(int32_t slot) {
  if (slot < 0) return;
  atomic_store(&descriptors[slot], 0);
  atomic_fetch_sub(&descriptor_count, 1);
}

void descriptors_enable(bool enabled) {
  int32_t end = atomic_load(&descriptor_end);
  for (int32_t slot = 0; slot < end; slot++) {
    int fd = atomic_load(&descriptors[slot]) - 1;
    if (fd >= 0 && timers_own_descriptor(fd)) ioctl(fd, enabled ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
  }
}

void descriptors_close_inherited(void) {
  int32_t end = atomic_exchange(&descriptor_end, 0);
  for (int32_t slot = 0; slot < end; slot++) {
    int32_t fd = atomic_exchange(&descriptors[slot], 0) - 1;
    if (fd >= 0 && timers_own_descriptor(fd)) syscall(SYS_close, fd);
  }
  atomic_store(&descriptor_count, 0);
}
