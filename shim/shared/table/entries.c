/* The thread table. An entry is taken by a compare-and-swap of its state, so that two threads never fill the same one. */
#include "shared/table/entries.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/spool.h"

/* Takes the first entry in the wanted state by changing the state to FILLING; SPOOL_THREAD_TABLE = there is none. */
static uint32_t take(uint32_t wanted) {
  for (uint32_t i = 0; i < SPOOL_THREAD_TABLE; i++) {
    _Atomic uint32_t *state = entries_state(entries_at(i));
    uint32_t found = wanted;
    if (atomic_load_explicit(state, memory_order_relaxed) != wanted) continue;
    if (atomic_compare_exchange_strong(state, &found, ENTRY_FILLING)) return i;
  }
  return SPOOL_THREAD_TABLE;
}

uint32_t entries_take(void) {
  uint32_t index = take(ENTRY_FREE);
  return index == SPOOL_THREAD_TABLE ? take(ENTRY_ENDED) : index;
}

void entries_changed(void) { atomic_fetch_add((_Atomic uint32_t *)&spool->table_changes, 1); }

static void raise_end(uint32_t end) {
  _Atomic uint32_t *highest = (_Atomic uint32_t *)&spool->table_end;
  uint32_t known = atomic_load(highest);
  while (known < end && !atomic_compare_exchange_weak(highest, &known, end)) {}
}

void entries_begin(uint32_t index) {
  raise_end(index + 1);
  atomic_store(entries_state(entries_at(index)), ENTRY_LIVE);
}

void entries_end(uint32_t index, uint32_t thread, int64_t end_ns, int64_t cpu_end_ns) {
  uint32_t live = ENTRY_LIVE;
  struct thread_entry *entry = entries_at(index);
  if (entry->thread != thread) return;
  entry->cpu_end_ns = cpu_end_ns;
  entry->end_ns = end_ns;
  if (atomic_compare_exchange_strong(entries_state(entry), &live, ENTRY_ENDED)) entries_changed();
}
