/* Code objects that are known to be the ones that were verified.
 *
 * A code object is immutable as far as its name, its lines and its length are concerned, so the code at an address
 * becomes another one only if the first is freed and a new block is allocated there. When every allocation is recorded,
 * the hooks see both. A free of the address is always seen, because it is watched: its free takes the slow path. An
 * allocation is seen because it is recorded. Either one alone would do, except in a short window: CPython 3.11 frees a
 * code object while its frame is still the innermost one, and a walk in the rest of that free verifies it again. Its
 * memory is not in use any more then, and the next allocation there is what makes it unknown.
 *
 * The table is read and written without a lock. A slot holds an address or 0. */
#include "inside/stacks/codes.h"

#include "shared/base.h"
#include "shared/spool.h"
#include "shared/stacks/hash.h"

#define BUCKETS 2048
#define WAYS 4 /* a bucket fills half of a cache line */

_Alignas(64) static _Atomic uintptr_t known[BUCKETS][WAYS];
/* Never cleared, so that none is missing: what was a code object once costs later blocks there a search. */
_Alignas(64) _Atomic uint64_t codes_marks[CODES_MARKS / 64];
static _Atomic(const struct codes_watch *) watch;
static _Atomic bool addresses_seen;
static _Atomic int count; /* slots in use */
static _Atomic uint64_t generation;
static _Atomic uint32_t turn; /* which way of a full bucket is replaced next */

static _Atomic uintptr_t *bucket_of(uintptr_t code) { return known[hash_mixed(code >> 4) & (BUCKETS - 1)]; }

static _Atomic uintptr_t *slot_of(uintptr_t code) {
  _Atomic uintptr_t *bucket = bucket_of(code);
  for (int i = 0; i < WAYS; i++) {
    if (atomic_load_explicit(&bucket[i], memory_order_relaxed) == code) return &bucket[i];
  }
  return NULL;
}

/* Empties the slot. The generation changes after that, so that whoever sees the new one no longer finds the code. */
static void empty(_Atomic uintptr_t *slot, uintptr_t code) {
  const struct codes_watch *by = atomic_load(&watch);
  if (!atomic_compare_exchange_strong(slot, &code, 0)) return;
  atomic_fetch_sub(&count, 1);
  atomic_fetch_add(&generation, 1);
  if (by) by->end(code);
}

/* What is allocated during a pause is not seen. */
bool codes_followed(void) {
  return atomic_load_explicit(&watch, memory_order_relaxed) && !spool->paused &&
         atomic_load_explicit(&addresses_seen, memory_order_relaxed);
}

void codes_addresses_seen(bool seen) {
  atomic_store(&addresses_seen, seen);
  if (!seen) codes_forget();
}

bool codes_known(uintptr_t code) { return codes_followed() && code && slot_of(code); }

uint64_t codes_generation(void) { return atomic_load_explicit(&generation, memory_order_relaxed); }

bool codes_block_lives(uintptr_t address, size_t bytes) {
  const struct codes_watch *by = codes_followed() ? atomic_load(&watch) : NULL;
  return by && by->living_block(address, bytes);
}

static _Atomic uintptr_t *slot_for(uintptr_t code) {
  _Atomic uintptr_t *bucket = bucket_of(code);
  for (int i = 0; i < WAYS; i++) {
    if (!atomic_load(&bucket[i])) return &bucket[i];
  }
  _Atomic uintptr_t *replaced = &bucket[atomic_fetch_add(&turn, 1) % WAYS];
  uintptr_t other = atomic_load(replaced);
  if (other) empty(replaced, other);
  return replaced;
}

void codes_verified(uintptr_t code) {
  const struct codes_watch *by = atomic_load(&watch);
  if (!by || !codes_followed() || slot_of(code)) return;
  _Atomic uintptr_t *slot = slot_for(code);
  uintptr_t none = 0;
  size_t mark = CODES_MARK(code);
  by->begin(code);
  atomic_fetch_or(&codes_marks[mark / 64], (uint64_t)1 << mark % 64);
  if (atomic_compare_exchange_strong(slot, &none, code)) {
    atomic_fetch_add(&count, 1);
  } else {
    by->end(code); /* another thread has used the slot */
  }
}

void codes_changed_marked(uintptr_t address) {
  _Atomic uintptr_t *slot = atomic_load_explicit(&count, memory_order_relaxed) ? slot_of(address) : NULL;
  while (slot) { /* two threads may have stored the same address */
    empty(slot, address);
    slot = slot_of(address);
  }
}

void codes_forget_range(uintptr_t start, uintptr_t end) {
  if (!atomic_load(&count)) return;
  for (int i = 0; i < BUCKETS * WAYS; i++) {
    _Atomic uintptr_t *slot = &known[i / WAYS][i % WAYS];
    uintptr_t code = atomic_load_explicit(slot, memory_order_relaxed);
    if (code && code >= start && code < end) empty(slot, code);
  }
}

void codes_forget(void) { codes_forget_range(0, UINTPTR_MAX); }

void codes_follow(const struct codes_watch *by) {
  if (atomic_load(&watch) == by) return;
  codes_forget();
  atomic_store(&watch, by);
}

void codes_postfork_child(void) {
  for (int i = 0; i < BUCKETS * WAYS && atomic_load(&count); i++) {
    if (known[i / WAYS][i % WAYS]) atomic_store(&known[i / WAYS][i % WAYS], 0);
  }
  atomic_store(&count, 0);
  atomic_fetch_add(&generation, 1);
}
