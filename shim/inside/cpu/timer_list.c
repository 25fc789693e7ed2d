/* The list of the POSIX timers of all threads. A timer can be set by every thread of its process. */
#include "inside/cpu/timer_list.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shared/base.h"

#define PLACES 8192
#define PROBES 256 /* places that a timer may be at, from id % PLACES on; the kernel numbers timers consecutively */

static _Atomic int64_t places[PLACES]; /* (id + 1) << 1 | is_kernel_timer; 0 = free */

static _Atomic int64_t *place_at(int32_t id, unsigned probe) { return &places[((uint32_t)id + probe) % PLACES]; }

static int32_t id_of(int64_t place) { return (int32_t)((place >> 1) - 1); }

void timer_list_add(int32_t id, bool is_kernel_timer) {
  for (unsigned probe = 0; probe < PROBES; probe++) {
    int64_t free = 0;
    if (atomic_compare_exchange_strong(place_at(id, probe), &free, ((int64_t)id + 1) << 1 | is_kernel_timer)) return;
  }
}

void timer_list_remove(int32_t id) {
  for (unsigned probe = 0; probe < PROBES; probe++) {
    int64_t place = atomic_load(place_at(id, probe));
    if (place && id_of(place) == id && atomic_compare_exchange_strong(place_at(id, probe), &place, 0)) return;
  }
}

void timer_list_clear(void) {
  for (size_t i = 0; i < PLACES; i++) {
    if (atomic_load_explicit(&places[i], memory_order_relaxed)) atomic_store(&places[i], 0);
  }
}

static void set_all(int64_t kernel_period_ns, int64_t user_period_ns) {
  for (size_t i = 0; i < PLACES; i++) {
    int64_t place = atomic_load_explicit(&places[i], memory_order_relaxed);
    if (!place) continue;
    int64_t period_ns = place & 1 ? kernel_period_ns : user_period_ns;
    struct timespec period = {.tv_sec = period_ns / 1000000000, .tv_nsec = period_ns % 1000000000};
    struct itimerspec when = {.it_value = period};
    if (place & 1) when.it_interval = period;
    syscall(SYS_timer_settime, id_of(place), 0, &when, NULL);
  }
}

void timer_list_stop(void) { set_all(0, 0); }

void timer_list_start(int64_t kernel_period_ns, int64_t user_period_ns) { set_all(kernel_period_ns, user_period_ns); }
