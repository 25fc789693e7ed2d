/* Whether the process is sealed. A filter belongs to a thread, but all threads of the process are sealed together: a
 * filter may be set for all of them, and threads and children that a filtered thread starts have it too. */
#include "shared/sealed/sealed.h"

#include "shared/sealed/lasting.h"

LASTING _Atomic uint32_t seal_bits;
LASTING _Atomic uint32_t seal_sections, seal_generation;
#ifdef SHIM_ATTACHED
__thread uint32_t seal_depth;
#endif
static __thread bool in_vfork_child;

/* A child that shares memory may have no thread-local storage, so that is read last. */
bool seal_holds(void) {
  uint32_t bits = atomic_load(&seal_bits);
  return (bits & SEAL_PROCESS) || ((bits & SEAL_VFORK_CHILDREN) && in_vfork_child);
}

void seal_postfork_child(void) {
  atomic_fetch_add(&seal_generation, 1);
  atomic_store(&seal_sections, 0);
}

bool seal_is_in_force(void) {
  uint32_t bits = atomic_load(&seal_bits);
  return (bits & SEAL_FOR_GOOD) || ((bits & SEAL_VFORK_CHILDREN) && in_vfork_child);
}

bool seal_may_end(void) { return sealed() && !(atomic_load(&seal_bits) & SEAL_FOR_GOOD); }

bool seal_end_vfork_child(void) {
  bool was = (atomic_load(&seal_bits) & SEAL_VFORK_CHILDREN) && in_vfork_child;
  if (was) in_vfork_child = false;
  return was;
}

void seal_process(bool begin) {
  if (begin) {
    atomic_fetch_or(&seal_bits, SEAL_PROCESS);
  } else {
    atomic_fetch_and(&seal_bits, ~(uint32_t)SEAL_PROCESS);
  }
}

void seal_for_good(void) { atomic_fetch_or(&seal_bits, SEAL_PROCESS | SEAL_FOR_GOOD); }

void seal_vfork_child(bool begin) {
  if (!begin && !(atomic_load_explicit(&seal_bits, memory_order_relaxed) & SEAL_VFORK_CHILDREN)) return;
  if (begin) atomic_fetch_or(&seal_bits, SEAL_VFORK_CHILDREN);
  in_vfork_child = begin;
}
