/* Random numbers without a lock: the caller owns the state (xorshift64*, Vigna 2016). libc's generators take locks, so
 * they cannot be used in a signal handler or an allocator. */
#include "shared/random.h"

#include "shared/base.h"
#include "shared/clock.h"

uint64_t random_seed(int32_t tid) { return ((uint64_t)clock_now_ns() * 0x9e3779b97f4a7c15u ^ (uint64_t)tid << 32) | 1; }

uint64_t random_next(uint64_t *state) {
  uint64_t x = *state ? *state : 0x9e3779b97f4a7c15u;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  *state = x;
  return x * 0x2545f4914f6cdd1du;
}
