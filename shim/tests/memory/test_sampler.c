/* sampler.c and the countdown of memory.c: gaps, probabilities and the adapting interval, compared with the law that they
 * must follow. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/spool/spool.h"
#include "inside/accounts/budget.h"
#include "inside/accounts/growth.h"
#include "inside/accounts/live.h"
#include "inside/memory/memory.h"
#include "inside/memory/sampler.h"
#include "shared/base.h"
#include "shared/random.h"
#include "tests/check.h"
#include "tests/memory/sampling.h"

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Returns the Anderson-Darling statistic of n values (sorted here) for the exponential distribution with that mean. */
static double anderson_darling(double *values, int n, double mean) {
  double sum = 0;
  qsort(values, (size_t)n, sizeof *values, compare);
  for (int i = 0; i < n; i++) {
    double low = -expm1(-values[i] / mean), high = -values[n - 1 - i] / mean; /* ln(1 - U) */
    sum += (2 * i + 1) * (log(low) + high);
  }
  return -n - sum / n;
}

#define GAPS 20000
static double gaps[GAPS];

/* One exponential series in a hundred exceeds 3.857, one in a thousand exceeds 6.0. */
static void test_drawn_gaps_are_exponential(void) {
  uint64_t random = 42;
  for (int i = 0; i < GAPS; i++) gaps[i] = (double)sampler_gap(&random, 262144) - 0.5;
  double statistic = anderson_darling(gaps, GAPS, 262144);
  printf("gaps as drawn: A2 = %.2f\n", statistic);
  check(statistic < 3.857);
  check(anderson_darling(gaps, GAPS, 262144 * 1.05) > 6.0); /* the test has the power to reject a wrong mean */
}

/* Counts byte by byte, with flushes in between, and tests the gaps between the samples. */
static void test_gaps_between_samples_are_exponential(void) {
  begin(1000, false);
  int64_t last = 0;
  uint64_t jitter = 7;
  for (int64_t at = 1, seen = 0; seen < GAPS; at++) {
    next_address = 1 << 20;
    memory_count_allocated(&this_memory, NATIVE, (void *)(uintptr_t)(at * 64), 1, 1, ALLOC_MALLOC);
    if (alloc_count == seen) continue;
    struct live_sample gone;
    live_take((uintptr_t)(at * 64), &gone);
    gaps[seen++] = (double)(at - last) - (double)(random_next(&jitter) >> 11) * 0x1p-53;
    last = at;
  }
  double statistic = anderson_darling(gaps, GAPS, 1000);
  printf("gaps between samples: A2 = %.2f\n", statistic);
  check(statistic < 3.857);
}

/* A new gap begins after each sample, so whether a block is sampled does not depend on the previous block. */
static void test_blocks_are_sampled_independently_with_their_probability(void) {
  enum { BLOCKS = 40000 };
  int taken = 0, runs = 0;
  bool before = false;
  begin(1000, false);
  for (int i = 0; i < BLOCKS; i++) {
    int count = alloc_count;
    uintptr_t block = allocate(700);
    bool is_taken = alloc_count > count;
    release(block, 700);
    taken += is_taken;
    runs += i == 0 || is_taken != before;
    before = is_taken;
  }
  double p = -expm1(-0.7), expected = 1 + (BLOCKS - 1) * 2 * p * (1 - p);
  printf("taken %d of %d (%.0f expected), runs %d (%.0f expected)\n", taken, BLOCKS, p * BLOCKS, runs, expected);
  check(fabs(taken - p * BLOCKS) < 4 * sqrt(BLOCKS * p * (1 - p)));
  check(fabs(runs - expected) < 4 * sqrt(expected * (1 - p) * p * 4));
  check(free_count == taken);
}

static void test_estimates_are_unbiased_at_every_interval(void) {
  static const uint64_t intervals[] = {1024, 65536, 4194304};
  for (size_t k = 0; k < sizeof intervals / sizeof *intervals; k++) {
    double estimate = 0, variance = 0, truth = 0;
    begin(intervals[k], false);
    for (int i = 0; i < 200000; i++) {
      size_t bytes = (size_t)16 << (i % 13);
      uintptr_t block = allocate(bytes);
      truth += (double)bytes;
      release(block, bytes);
    }
    for (int i = 0; i < alloc_count; i++) {
      double size = (double)allocs[i].usable_bytes, weight = -1 / expm1(-size / (double)allocs[i].interval_bytes);
      if (!allocs[i].interval_bytes) continue;
      estimate += weight * size;
      variance += weight * (weight - 1) * size * size;
    }
    printf("interval %lu: %.4f of the truth, %.1f standard errors off\n", intervals[k], estimate / truth,
           (estimate - truth) / sqrt(variance));
    check(fabs(estimate - truth) < 3 * sqrt(variance) && sqrt(variance) < 0.15 * truth);
  }
}

static void test_a_resized_block_is_a_new_one(void) {
  begin(1, false);
  uintptr_t block = allocate(100);
  struct live_sample sample;
  check(alloc_count == 1 && live_maybe((void *)block) && sampler_take(block, &sample));
  sampler_resized(&sample, true);
  memory_count_resized(&this_memory, NATIVE, (void *)block, 150, 100, 160, ALLOC_REALLOC);
  check(free_count == 1 && (frees[0].flags & FREE_RESIZED) && frees[0].bytes == 100);
  check(alloc_count == 2 && allocs[1].size_bytes == 150 && allocs[1].usable_bytes == 160);
  check(sampler_take(block, &sample));
  memory_count_resized(&this_memory, NATIVE, (void *)block, 20, 160, 32, ALLOC_REALLOC); /* also when smaller */
  check(alloc_count == 3 && allocs[2].usable_bytes == 32);
  release(block, 32);
  check(free_count == 2 && frees[1].id == allocs[2].id);
}

static uintptr_t allocate_object(size_t bytes) {
  uintptr_t address = next_address;
  next_address += (bytes + 63) & ~(size_t)63;
  memory_count_allocated(&this_memory, PYTHON, (void *)address, bytes, bytes, ALLOC_PYMALLOC);
  return address;
}

static void test_a_short_life_is_one_record(void) {
  begin(1, false);
  line_now = 5;
  uintptr_t block = allocate(100);
  struct record_alloc taken = allocs[0];
  can_be_taken_back = &taken;
  line_now = 6;
  now_ns += 300;
  release(block, 100);
  const struct record_brief *brief = (const struct record_brief *)&taken;
  check(published_again == RECORD_BRIEF && free_count == 0);
  check(brief->stack == 5 && brief->free_stack == 6 && brief->lifetime_ns == 300 && brief->id == allocs[0].id);
  check(brief->size_bytes == 100 && brief->usable_bytes == 100 && brief->source == ALLOC_MALLOC);
  check(brief->flags == allocs[0].flags && brief->free_flags == 0 && brief->t_ns == allocs[0].t_ns);
}

/* The fields of a brief record are too short, or another thread has allocated the block. */
static void test_other_lives_are_two_records(void) {
  for (int i = 0; i < 4; i++) {
    begin(1, false);
    uintptr_t block = allocate(i == 0 ? 70000 : 100);
    struct record_alloc taken = allocs[0];
    if (i == 1) taken.thread++;
    if (i == 2) taken.collections++;
    if (i == 3) now_ns += (int64_t)5 << 30;
    struct record_alloc before = taken;
    can_be_taken_back = &taken;
    release(block, i == 0 ? 70000 : 100);
    check(published_again == RECORD_ALLOC && free_count == 1 && frees[0].id == before.id);
    check(memcmp(&taken, &before, sizeof taken) == 0);
  }
  can_be_taken_back = NULL;
  line_now = 0;
}

/* As at the end of an interpreter, which unmaps its arenas. */
static void test_an_address_of_pymalloc_that_was_freed_unseen_is_ended(void) {
  begin(1, false);
  uintptr_t block = allocate_object(100);
  memory_count_freed(&this_memory, PYTHON, 100);
  sampler_missed_frees();
  memory_count_allocated(&this_memory, PYTHON, (void *)block, 100, 100, ALLOC_PYMALLOC);
  check(alloc_count == 2 && free_count == 1 && frees[0].id == allocs[0].id);
  release(block, 100);
  check(free_count == 2 && frees[1].id == allocs[1].id);
}

static void test_a_resized_block_is_sampled_when_it_is_a_threads_first(void) {
  begin(1, false);
  memory_count_resized(&this_memory, NATIVE, (void *)next_address, 100, 104, 104, ALLOC_REALLOC);
  check(alloc_count == 1 && allocs[0].usable_bytes == 104);
  release(next_address, 104);
  begin(1, false);
  memory_count_resized(&this_memory, NATIVE, (void *)next_address, 90, 104, 96, ALLOC_REALLOC);
  check(alloc_count == 1 && allocs[0].usable_bytes == 96);
  release(next_address, 96);
}

static void test_a_resized_block_is_sampled_when_the_budget_is_zero(void) {
  begin(1 << 20, false);
  allocate(16);
  allocate(16);
  size_t bytes = (size_t)this_memory.stream[NATIVE].sample_at;
  int before = alloc_count;
  memory_count_resized(&this_memory, NATIVE, (void *)next_address, bytes, bytes, bytes, ALLOC_REALLOC);
  check(alloc_count == before + 1 && allocs[before].usable_bytes == bytes);
  release(next_address, bytes);
}

static void test_the_native_stack_precedes_its_sample_if_it_is_asked_for(void) {
  native_now = 77;
  begin(1, false);
  allocate(100);
  check(alloc_count == 1 && note_count == 0);
  header.features |= FEATURE_NATIVE_ALLOC;
  allocate(200);
  check(alloc_count == 2 && note_count == 1 && allocs_before_note == 1);
  check(notes[0].flags == NOTE_NATIVE && notes[0].native == 77 && notes[0].id == allocs[1].id);
  native_now = 0; /* unknown */
  allocate(300);
  check(alloc_count == 3 && note_count == 1);
  header.features &= ~(uint32_t)FEATURE_NATIVE_ALLOC;
}

static void test_nothing_is_sampled_when_off(void) {
  begin(0, false);
  for (int i = 0; i < 1000; i++) allocate(100000);
  check(alloc_count == 0);
}

/* During a pause nothing is sampled; a block that is freed in it was alive until then. */
static void test_a_pause_samples_nothing_and_sees_frees(void) {
  begin(1, false);
  uintptr_t block = allocate(100);
  check(alloc_count == 1);
  header.paused = 1;
  for (int i = 0; i < 1000; i++) allocate(1000);
  release(block, 100);
  check(alloc_count == 1 && free_count == 1);
  header.paused = 0;
  allocate(100);
  check(alloc_count == 2);
}

static void test_the_interval_is_set_while_it_runs(void) {
  begin(0, false);
  for (int i = 0; i < 1000; i++) allocate(100000);
  check(alloc_count == 0);
  header.alloc_control = CONTROL_ALLOC_SET | 1;
  for (int i = 0; i < 1000; i++) allocate(100000);
  check(alloc_count > 900 && allocs[alloc_count - 1].interval_bytes == 1); /* from the next flush */
  header.alloc_control = CONTROL_ALLOC_SET;
  int before = alloc_count;
  for (int i = 0; i < 1000; i++) allocate(100000);
  check(alloc_count <= before + 1);
  header.alloc_control = CONTROL_ALLOC_SET | CONTROL_ALLOC_AUTO | 262144;
  for (int i = 0; i < 10000; i++) {
    now_ns += 1000000;
    release(allocate(100000), 100000);
  }
  check(allocs[(alloc_count - 1) % MAX_CAUGHT].interval_bytes > 262144); /* thinned, as there is only one site */
}

static void test_the_interval_follows_the_rate(void) {
  begin(262144, true);
  for (int step = 0; step < 5000; step++) {
    for (int i = 0; i < 100; i++) release(allocate(1000), 1000);
    now_ns += 1000000;
  }
  int64_t busy = sampler_interval();
  printf("interval %ld, %d samples in five busy seconds\n", busy, alloc_count);
  check(alloc_count > 5 * BUDGET / 4 && alloc_count < 6 * BUDGET && busy == 131072);
  alloc_count = 0;
  for (int step = 0; step < 60000; step++) {
    release(allocate(1000), 1000);
    now_ns += 1000000;
  }
  printf("interval %ld, then %ld; %d samples in the quiet minute\n", busy, sampler_interval(), alloc_count);
  check(sampler_interval() == 8192 || sampler_interval() == 16384);
  check(alloc_count > 60 * BUDGET / 4 && alloc_count < 60 * BUDGET);
}

/* Every sample says which interval holds for what has none: as set, rounded up by at most 1/128. */
static void test_samples_carry_the_base_interval(void) {
  static const uint64_t intervals[] = {1, 3, 127, 255, 4096, 100003, 262144, 1000003, (uint64_t)1 << 40};
  for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++) {
    begin(intervals[i], false);
    for (int n = 0; n < 100 && !alloc_count; n++) { allocate((size_t)1 << 40); }
    uint64_t code = allocs[0].flags >> ALLOC_BASE_SHIFT, base = (128 + (code & 127)) << ((code >> 7) - 1) >> 7;
    check(alloc_count && base >= intervals[i] && base - intervals[i] <= intervals[i] / 128);
    check((allocs[0].flags & (ALLOC_PYTHON | ALLOC_UNFOLLOWED)) == 0);
  }
}

/* One line makes temporaries, another keeps what it allocates. Returns the samples of the second, and stores how far
 * the estimates for both are off, in standard errors. */
static int leak_beside(size_t temporary, size_t per_ms, size_t piece, double off[2]) {
  double truth[3] = {0}, estimate[3] = {0}, variance[3] = {0}, owed = 0;
  int kept = 0;
  header.memory_threshold_bytes = 10485767;
  begin(262144, true);
  for (int ms = 0; ms < 30000; ms++) {
    line_now = 1;
    for (size_t i = 0; i < per_ms; i++) {
      release(allocate(temporary), temporary);
      truth[1] += (double)temporary;
    }
    line_now = 2;
    for (owed += 1000; owed > (double)piece; owed -= (double)piece) {
      allocate(piece);
      truth[2] += (double)piece;
    }
    now_ns += 1000000;
  }
  for (int i = 0; i < alloc_count; i++) {
    double size = (double)allocs[i].usable_bytes, weight = -1 / expm1(-size / (double)allocs[i].interval_bytes);
    if (!allocs[i].interval_bytes) continue;
    estimate[allocs[i].stack] += weight * size;
    variance[allocs[i].stack] += weight * (weight - 1) * size * size;
    kept += allocs[i].stack == 2;
  }
  for (int k = 0; k < 2; k++) off[k] = (estimate[k + 1] - truth[k + 1]) / sqrt(variance[k + 1] + 1);
  printf(
      "leak of 1 MB/s in pieces of %zu beside %.0f MB/s of %zu: %d samples, %d of the leak; %.1f and %.1f errors off\n",
      piece, truth[1] / 30e6, temporary, alloc_count, kept, off[0], off[1]);
  check(alloc_count < 30 * 2 * BUDGET && estimate[2] > 0.7 * truth[2] && estimate[2] < 1.4 * truth[2]);
  header.memory_threshold_bytes = 1000003;
  line_now = 0;
  return kept;
}

static void test_a_leak_keeps_its_samples_beside_temporaries(void) {
  static const size_t temporaries[][2] = {{1000, 1000}, {2000000, 2}, {50000, 50}, {2000, 1000}, {9000000, 1}};
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  const size_t count = 1, most = 50; /* of 15 s each: the others do the same with other numbers */
#else
  const size_t count = sizeof temporaries / sizeof *temporaries, most = 50000;
#endif
  for (size_t i = 0; i < count; i++) {
    for (size_t piece = 50; piece <= most; piece *= 10) {
      double off[2];
      int kept = leak_beside(temporaries[i][0], temporaries[i][1], piece, off);
      check(kept > 60 && fabs(off[0]) < 5 && fabs(off[1]) < 5);
    }
  }
}

/* After many lines were busy, one leaks 50 KB/s: the floor that they caused does not stay. */
static void test_a_leak_is_sampled_after(uint64_t lines) {
  int before = alloc_count, first_ms = 0;
  line_now = lines + 1;
  for (int ms = 0; ms < 60000; ms++) {
    if (ms % 20 == 0) allocate(1000);
    if (!first_ms && alloc_count > before) first_ms = ms;
    now_ns += 1000000;
  }
  printf("then a leak of 50 KB/s: first sample after %d ms, %d in a minute\n", first_ms, alloc_count - before);
  check(budget_floor() == 0 && first_ms && first_ms < 10000 && alloc_count - before > 200);
}

/* So many lines allocate alike that the least share of each together exceeds the budget. What all of them are
 * estimated to have allocated is unbiased. */
static void test_many_lines_share_the_budget(void) {
  enum { LINES = 1000, PER_MS = 500, BYTES = 2000, SECONDS = 20, BURST = 4 * BUDGET };
  double truth = 0, estimate = 0, variance = 0;
  int after_burst = 0;
  begin(262144, true);
  for (int ms = 0; ms < SECONDS * 1000; ms++) {
    for (int i = 0; i < PER_MS; i++) {
      line_now = 1 + (uint64_t)(ms * PER_MS + i) * 7 % LINES;
      release(allocate(BYTES), BYTES);
      truth += BYTES;
    }
    if (ms == 1000) after_burst = alloc_count;
    now_ns += 1000000;
  }
  for (int i = 0; i < alloc_count; i++) {
    double weight = -1 / expm1(-BYTES / (double)allocs[i].interval_bytes);
    estimate += weight * BYTES;
    variance += weight * (weight - 1) * BYTES * BYTES;
  }
  double off = (estimate - truth) / sqrt(variance);
  printf("%d lines alike: %d samples in the first second, %d in all; %.1f errors off\n", LINES, after_burst,
         alloc_count, off);
  fflush(stdout);
  check(after_burst < BURST && alloc_count < BURST + SECONDS * BUDGET * 3 / 2 && alloc_count > SECONDS * BUDGET / 4);
  check(fabs(off) < 5);
  test_a_leak_is_sampled_after(LINES);
  line_now = 0;
}

/* Of growth that two stacks cause, one keeps what it allocates and one always holds a single block. */
static void test_growth_is_charged_to_the_stack_that_holds_it(void) {
  uint64_t random = 1, stack;
  uint32_t thread;
  int charged[3] = {0};
  growth_postfork_child();
  check(!growth_charge(1000, &random, &thread, &stack));
  for (int turn = 0; turn < 100; turn++) {
    for (int i = 0; i < 10; i++) growth_allocated(2, 7, 100);
    growth_allocated(1, 8, 500);
    check(growth_charge(1000, &random, &thread, &stack) && (stack == 1 || stack == 2) && thread == 9 - (uint32_t)stack);
    charged[stack]++;
    growth_freed(1, 500);
  }
  printf("charged %d times to temporaries\n", charged[1]);
  growth_allocated(3, 7, 300000);
  growth_allocated(2, 7, 1000);
  check(growth_charge(300000, &random, &thread, &stack) && stack == 3);
  check(growth_charge(300000, &random, &thread, &stack) && stack == 2); /* whose 1,000 bytes are not charged yet */
  check(growth_charge(300000, &random, &thread, &stack) && stack == 2); /* without a sample: the same again */
  check(charged[1] <= 2);
  growth_freed(2, 100000);
  growth_shrank();
  for (int i = 0; i < 10; i++) growth_allocated(0, 7, 200000); /* without a stack */
  check(growth_charge(1000, &random, &thread, &stack) && stack == 0);
  growth_allocated(2, 7, 100000);
  growth_postfork_child();
  check(!growth_charge(1000, &random, &thread, &stack)); /* what the parent holds is not the child's */
}

/* Fresh blocks of at least the threshold are recorded, however coarse the interval is. */
static void test_large_blocks_are_always_recorded(void) {
  begin((uint64_t)1 << 39, false);
  for (int i = 0; i < 100; i++) allocate(1000003 + (size_t)i);
  check(alloc_count == 100);
  for (int i = 0; i < 100; i++) check(allocs[i].interval_bytes == 1);
}

/* The pages that a library's mapping has got are no part of what the thread that counts them has allocated. */
static void test_what_became_resident_is_not_the_threads_own(void) {
  begin(1 << 20, false);
  allocate(5000);
  int64_t own = memory_allocated(&this_memory) - this_memory.allocated_seen;
  struct block block = {.address = 1 << 30, .size = 5 << 20, .usable = 5 << 20, .source = ALLOC_MMAP, .mapping = true};
  memory_became_resident(&block, 7);
  check(memory_allocated(&this_memory) - this_memory.allocated_seen == own);
}

int main(void) {
  test_drawn_gaps_are_exponential();
  test_gaps_between_samples_are_exponential();
  test_blocks_are_sampled_independently_with_their_probability();
  test_estimates_are_unbiased_at_every_interval();
  test_a_resized_block_is_a_new_one();
  test_a_short_life_is_one_record();
  test_other_lives_are_two_records();
  test_an_address_of_pymalloc_that_was_freed_unseen_is_ended();
  test_a_resized_block_is_sampled_when_it_is_a_threads_first();
  test_a_resized_block_is_sampled_when_the_budget_is_zero();
  test_the_native_stack_precedes_its_sample_if_it_is_asked_for();
  test_nothing_is_sampled_when_off();
  test_a_pause_samples_nothing_and_sees_frees();
  test_the_interval_is_set_while_it_runs();
  test_the_interval_follows_the_rate();
  test_samples_carry_the_base_interval();
  test_a_leak_keeps_its_samples_beside_temporaries();
  test_many_lines_share_the_budget();
  test_growth_is_charged_to_the_stack_that_holds_it();
  test_large_blocks_are_always_recorded();
  test_what_became_resident_is_not_the_threads_own();
  puts("ok");
  return 0;
}
