/* For tests of sampled allocations: memory.c, sampler.c and the accounts alone, with stand-ins for the other files of the
 * shim. Random numbers are seeded from a clock that stands still, so every run draws the same numbers. */
#ifndef SCALENE_TRACE_TESTS_MEMORY_SAMPLING_H
#define SCALENE_TRACE_TESTS_MEMORY_SAMPLING_H

#include "formats/spool/spool.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/accounts/live.h"
#include "inside/memory/memory.h"
#include "inside/memory/sampler.h"
#include "inside/native/own.h"
#include "inside/python/objects.h"
#include "inside/stacks/frames.h"
#include "inside/stacks/scratch_pool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/spool.h"
#include "tests/check.h"
#include "tests/memory/stand_ins.h"

static struct spool_header header = {.memory_threshold_bytes = 1000003, .features = FEATURE_MEMORY};
struct spool_header *spool = &header;
struct next_functions next = {.malloc_usable_size = (size_t (*)(void *))1, .resolved = true};
enum memory_mode memory_mode;
THREAD_LOCAL struct thread_state this_thread;

#define BUDGET 200 /* samples per second */
#define MAX_CAUGHT 400000
static struct record_alloc allocs[MAX_CAUGHT];
static struct record_free frees[MAX_CAUGHT];
static struct record_note notes[MAX_CAUGHT];
static THREAD_LOCAL char record_space[SPOOL_SLOT_BYTES];
static _Atomic int alloc_count, free_count, note_count;
static int allocs_before_note;
static int64_t now_ns = 1000000000;

int64_t clock_now_ns(void) { return now_ns; }
void loss_add(enum loss loss) { header.losses[loss]++; }
void *spool_claim(unsigned slots) { return slots == 1 ? record_space : NULL; }
/* The alloc record that can be taken back, if there is one, and what it was published as after that. */
static struct record_alloc *can_be_taken_back;
static unsigned published_again;
uint32_t spool_place_of(const void *record) { return record == record_space ? 64 : 0; }
struct record_alloc *spool_take_back(uint32_t place, uint64_t id) {
  return place == 64 && can_be_taken_back && can_be_taken_back->id == id ? can_be_taken_back : NULL;
}
void spool_publish(void *record, unsigned kind, unsigned slots) {
  check((record == record_space || record == can_be_taken_back) && slots == 1);
  if (record == can_be_taken_back) {
    published_again = kind;
    return;
  }
  if (kind == RECORD_ALLOC) __builtin_memcpy(&allocs[alloc_count++ % MAX_CAUGHT], record, SPOOL_SLOT_BYTES);
  if (kind == RECORD_FREE) __builtin_memcpy(&frees[free_count++ % MAX_CAUGHT], record, SPOOL_SLOT_BYTES);
  if (kind == RECORD_NOTE) allocs_before_note = alloc_count;
  if (kind == RECORD_NOTE) __builtin_memcpy(&notes[note_count++ % MAX_CAUGHT], record, SPOOL_SLOT_BYTES);
}
static uint64_t line_now; /* what runs: the line and the stack of an allocation */
uint64_t frames_current(void) { return line_now; }
uint64_t frames_of(void *thread_state) { return (void)thread_state, line_now; }
static uint64_t native_now; /* the native stack of an allocation */
static struct scratch one_scratch;
uint64_t evidence_of_caller(struct scratch *scratch) { return check(scratch == &one_scratch), native_now; }
struct scratch *scratch_take(void) { return &one_scratch; }
void scratch_give(struct scratch *scratch) { check(scratch == &one_scratch); }
uint64_t frames_line(void) { return line_now; }
bool next_has_libc_headers(void) { return false; }
int threads_live(void) { return 1; }
static bool types_are_set; /* in blocks that nobody is about to free */
uint64_t objects_type(uintptr_t block, size_t bytes, enum block_hold hold, const void *thread_state) {
  (void)thread_state;
  return block && bytes && (hold == BLOCK_OWNED || types_are_set) ? 7 : 0;
}

/* ---- */

static void begin(uint64_t interval, bool adapts) {
  header.alloc_interval_bytes = interval;
  header.alloc_control = 0;
  header.features = FEATURE_MEMORY | (adapts ? FEATURE_ALLOC_AUTO : 0);
  this_memory = (struct memory_state)NEW_MEMORY_STATE;
  alloc_count = free_count = note_count = 0;
  live_postfork_child(); /* the table of the test before may hold blocks */
  memory_init();
}

static uintptr_t next_address = 1 << 20;

/* Counts an allocation of that many bytes, without allocating. Returns its address. */
static uintptr_t allocate(size_t bytes) {
  uintptr_t address = next_address;
  next_address += (bytes + 63) & ~(size_t)63;
  memory_count_allocated(&this_memory, NATIVE, (void *)address, bytes, bytes, ALLOC_MALLOC);
  return address;
}

static void release(uintptr_t address, size_t bytes) {
  if (live_maybe((void *)address)) sampler_freed(address);
  memory_count_freed(&this_memory, NATIVE, bytes);
}

#endif
