/* live.c with sampler.c: blocks that are followed to their end, and what is written about them: their types, new weights
 * when the table is thinned. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "formats/spool/spool.h"
#include "inside/accounts/live.h"
#include "inside/memory/memory.h"
#include "inside/memory/sampler.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "tests/check.h"
#include "tests/memory/sampling.h"

static uintptr_t allocate_object(size_t bytes) {
  uintptr_t address = next_address;
  next_address += (bytes + 63) & ~(size_t)63;
  memory_count_allocated(&this_memory, PYTHON, (void *)address, bytes, bytes, ALLOC_PYMALLOC);
  return address;
}

/* The type of a temporary is in the record of its free only. */
static void test_the_type_of_a_block_is_written_when_it_has_lived_for_some_samples(void) {
  types_are_set = true;
  begin(1, false);
  uintptr_t kept = allocate_object(100);
  for (int i = 0; i < 7; i++) release(allocate_object(50), 50);
  check(note_count == 0 && free_count == 7 && frees[6].type == 7);
  uintptr_t last = allocate_object(60);
  check(note_count == 1 && notes[0].flags == NOTE_TYPE && notes[0].type == 7 && notes[0].id == allocs[0].id);
  for (int i = 0; i < 6; i++) release(allocate_object(50), 50);
  check(note_count == 1);
  memory_thread_end();
  check(note_count == 2 && notes[1].id == allocs[8].id);
  memory_thread_end();
  check(note_count == 2);
  release(last, 60);
  release(kept, 100);
  types_are_set = false;
}

static void test_sampled_blocks_have_their_types_written_at_the_next_sample(void) {
  types_are_set = true;
  begin(64, false);
  for (int i = 0; i < 3; i++) allocate_object(1 << 16);
  check(alloc_count == 3 && note_count == 2 && notes[1].id == allocs[1].id);
  types_are_set = false;
}

static void test_living_blocks_of_python_have_an_id_of_their_own(void) {
  begin(1, false);
  uintptr_t object = allocate_object(100), native = allocate(100);
  uint64_t id = live_python_block(object, 100);
  check(id && id == allocs[0].id && live_python_block(object, 101) == 0 && live_python_block(object + 16, 1) == 0);
  check(live_python_block(native, 1) == 0);
  release(object, 100);
  check(live_python_block(object, 1) == 0);
  memory_count_allocated(&this_memory, PYTHON, (void *)object, 100, 100, ALLOC_PYMALLOC);
  check(live_python_block(object, 100) > id);
  release(object, 100);
}

static void test_a_watched_address_may_be_followed_too(void) {
  begin(1, false);
  uintptr_t block = allocate(100);
  live_watch(block);
  release(block, 100);
  check(free_count == 1 && live_maybe((void *)block));
  live_unwatch(block);
  check(!live_maybe((void *)block));
}

/* With many live blocks the table is thinned, and the remaining samples still stand for all of them. */
static void test_a_crowded_table_is_thinned_without_bias(void) {
  enum { BLOCKS = 300000 };
  static double weight_of[MAX_CAUGHT + 1];
  double truth = 0, estimate = 0, variance = 0;
  header.memory_threshold_bytes = 10485767;
  begin(16384, true);
  uint64_t first = 0;
  for (int i = 0; i < BLOCKS; i++) {
    size_t bytes = (size_t)1024 << (i % 5);
    allocate(bytes);
    truth += (double)bytes;
    now_ns += 10000000; /* slow enough for the finest interval */
    if (!first && alloc_count) first = allocs[0].id;
  }
  check(header.losses[LOSS_alloc_thinned] >= 1 && alloc_count < MAX_CAUGHT && note_count < MAX_CAUGHT);
  for (int i = 0; i < alloc_count; i++) weight_of[allocs[i].id - first] = (double)allocs[i].interval_bytes;
  for (int i = 0; i < note_count; i++) {
    check(notes[i].flags & NOTE_THINNED);
    weight_of[notes[i].id - first] = notes[i].flags & NOTE_DROPPED ? 0 : (double)notes[i].interval_bytes;
  }
  for (int i = 0; i < alloc_count; i++) {
    double size = (double)allocs[i].usable_bytes, interval = weight_of[allocs[i].id - first];
    if (interval <= 0 || (allocs[i].flags & ALLOC_UNFOLLOWED)) continue;
    double weight = -1 / expm1(-size / interval);
    estimate += weight * size;
    variance += weight * (weight - 1) * size * size;
  }
  printf("%d sampled, %lu times thinned: live estimate %.4f of the truth, %.1f standard errors off\n", alloc_count,
         header.losses[LOSS_alloc_thinned], estimate / truth, (estimate - truth) / sqrt(variance));
  printf("%lu not followed\n", header.losses[LOSS_alloc_table_full]);
  check(header.losses[LOSS_alloc_table_full] == 0);
  check(fabs(estimate - truth) < 3 * sqrt(variance));
}

/* ---- threads: one allocates, another frees ---- */

#define PASSED 100000
static _Atomic uintptr_t handed[PASSED];
static _Atomic int followed, ended;

static void *produce(void *unused) {
  (void)unused;
  for (int i = 0; i < PASSED; i++) {
    uintptr_t address = ((uintptr_t)i + (1 << 20)) * 64;
    struct live_sample sample = {.id = (uint64_t)i + 1, .usable = 64, .interval = 1};
    if (live_add(address, &sample)) followed++;
    atomic_store(&handed[i], address);
  }
  return NULL;
}

static void *consume(void *unused) {
  (void)unused;
  for (int i = 0; i < PASSED; i++) {
    uintptr_t address;
    struct live_sample sample;
    while (!(address = atomic_exchange(&handed[i], 0))) sched_yield();
    if (!live_maybe((void *)address) || !live_take(address, &sample)) continue;
    check(sample.id == (uint64_t)i + 1);
    ended++;
  }
  return NULL;
}

static void test_the_table_between_threads(void) {
  pthread_t threads[2];
  begin(1, false);
  check(!pthread_create(&threads[0], NULL, produce, NULL) && !pthread_create(&threads[1], NULL, consume, NULL));
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
  check(followed == ended && ended > PASSED * 9 / 10);
  for (size_t i = 0; i < LIVE_FILTER_CELLS; i++) check(live_filter[i] == 0 || live_filter[i] == 255);
}

/* ---- pieces ---- */

static const void *at(uintptr_t address) {
  return (const void *)address; // NOLINT: no block has to be there
}

static void test_a_piece_is_quiet_while_nothing_in_it_is_followed(void) {
  uintptr_t pool = (uintptr_t)0x7f1234564000, alias = pool + (uintptr_t)PIECE_BYTES * LIVE_PIECES;
  struct live_sample sample = {.id = 1, .usable = 64, .interval = 1};
  begin(1, false);
  check(!live_piece_known(live_piece(at(pool))) && live_piece(at(pool)) != PIECE_QUIET);
  check(live_note_piece(at(pool), true) == PIECE_QUIET && live_piece(at(pool + 16000)) == PIECE_QUIET);
  check(live_piece(at(pool + PIECE_BYTES)) != PIECE_QUIET && !live_piece_known(live_piece(at(alias))));
  check(live_note_piece(at(alias), false) == PIECE_OUTSIDE && !live_piece_known(live_piece(at(pool))));
  live_note_piece(at(pool), true);
  check(live_add(pool + 64, &sample) && !live_piece_known(live_piece(at(pool))));
  check(live_note_piece(at(pool), true) == PIECE_WATCHED && live_piece(at(pool)) == PIECE_WATCHED);
  check(live_add(pool + 128, &sample) && live_take(pool + 64, &sample) && live_piece(at(pool)) == PIECE_WATCHED);
  check(live_take(pool + 128, &sample) && !live_piece_known(live_piece(at(pool))));
  check(live_note_piece(at(pool), true) == PIECE_QUIET);
  live_forget_pieces(pool - 1, pool + 1);
  check(!live_piece_known(live_piece(at(pool))));
}

int main(void) {
  test_the_type_of_a_block_is_written_when_it_has_lived_for_some_samples();
  test_sampled_blocks_have_their_types_written_at_the_next_sample();
  test_living_blocks_of_python_have_an_id_of_their_own();
  test_a_watched_address_may_be_followed_too();
  test_a_crowded_table_is_thinned_without_bias();
  test_a_piece_is_quiet_while_nothing_in_it_is_followed();
  test_the_table_between_threads(); /* last: it makes the table as large as chance will have it */
  puts("ok");
  return 0;
}
