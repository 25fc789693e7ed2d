/* The table of ranges, its pages and mappings.c: threads map, protect, resize and unmap at the same time, while children are forked. In the end,
 * every counted byte has been freed. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/accounts/live.h"
#include "inside/memory/mappings.h"
#include "inside/memory/memory.h"
#include "inside/memory/pages.h"
#include "inside/memory/ranges.h"
#include "inside/memory/residency.h"
#include "inside/memory/sampler.h"
#include "inside/stacks/frames.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/spool.h"
#include "tests/check.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#define THREADS 6
#define ROUNDS 400
#define CHILDREN 20
#define PAGE ((int64_t)arch_page_bytes())
#define FIXED (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED)
#define SECONDS 100000000 /* ns that a count has taken, after which the next one waits for ten seconds */
#define SEVERAL 99        /* stacks */

/* ---- stand-ins for the other files of the shim ---- */

struct next_functions next;
static struct spool_header header;
struct spool_header *spool = &header;
THREAD_LOCAL struct memory_state this_memory;
THREAD_LOCAL struct thread_state this_thread;
enum memory_mode memory_mode;
static _Atomic int64_t counted, most_counted, ended_parts;
static _Atomic int losses[LOSS_COUNT];

void loss_add(enum loss loss) { losses[loss]++; }
void fork_check(void) {}
bool next_is_allocators(const void *address) { return address == NULL; }
uint64_t frames_current(void) { return 1; }
static bool finalizing;
bool python_finalizing(void) { return finalizing; }
void memory_stop_at_freed(int which, size_t bytes) { (void)which, (void)bytes; }
void sampler_ended(const struct live_sample *sample, uint64_t bytes, uint64_t stack, uint32_t flags) {
  check(sample->id == 7 && bytes > 0 && stack == 1);
  if (flags & FREE_PART) ended_parts++;
}

/* Makes every third page address a sample. */
uint64_t memory_mapped(const struct block *block, size_t before) {
  counted += (int64_t)block->usable - (int64_t)before;
  return block->address / PAGE % 3 == 0 ? 7 : 0;
}

static uint64_t grown_on = 1;
static int64_t grown_by[8]; /* bytes, by their stack */

uint64_t memory_became_resident(const struct block *block, uint64_t stack) {
  if (grown_on != SEVERAL) check(stack == grown_on);
  grown_by[stack] += (int64_t)block->usable;
  counted += (int64_t)block->usable;
  if (counted > most_counted) most_counted = counted;
  return block->usable / PAGE % 2 ? 7 : 0;
}

void memory_left_residence(size_t bytes, uint64_t stack) {
  check(stack == 1);
  counted -= (int64_t)bytes;
}

/* Adds up the bytes that this thread has freed, as memory.c does in its flush. */
static void add_freed(void) {
  counted -= INT64_MAX - this_memory.stream[NATIVE].free_left;
  this_memory.stream[NATIVE].free_left = INT64_MAX;
}

/* On a busy machine the next count would be due at any call that gives pages back, and its stack is 0. */
static void count_alone(void) {
  pages_look(1, true);
  residency_put_off(SECONDS, true);
}

/* ---- what threads do ---- */

static char *map(size_t pages, int protection) {
  char *start = mmap(NULL, pages * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(start != MAP_FAILED);
  return start;
}

/* Unmaps the middle first, so that two ranges remain. */
static void unmap_in_parts(void) {
  char *start = map(9, PROT_READ | PROT_WRITE);
  start[5 * PAGE] = 1;
  check(munmap(start + 3 * PAGE, 2 * PAGE) == 0 && munmap(start, 9 * PAGE) == 0);
}

static void make_accessible_in_parts(void) {
  char *start = map(8, PROT_NONE);
  check(mprotect(start + 2 * PAGE, 3 * PAGE, PROT_READ | PROT_WRITE) == 0);
  start[2 * PAGE] = 1;
  check(mprotect(start, 8 * PAGE, PROT_NONE) == 0 && munmap(start, 8 * PAGE) == 0);
}

static void resize(void) {
  char *start = map(4, PROT_READ | PROT_WRITE);
  start = mremap(start, 4 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
  check(start != MAP_FAILED);
  start[63 * PAGE] = 1;
  start = mremap(start, 64 * PAGE, 2 * PAGE, MREMAP_MAYMOVE);
  check(start != MAP_FAILED && munmap(start, 2 * PAGE) == 0);
}

/* What shrinks in its place keeps its parts: here a guard page, which is a reservation, and memory. */
static void shrink_behind_a_guard(void) {
  int64_t mapped, reserved, freed = this_memory.stream[NATIVE].free_left;
  char *start = map(10, PROT_READ | PROT_WRITE);
  check(mprotect(start, PAGE, PROT_NONE) == 0 && mremap(start, 10 * PAGE, 4 * PAGE, 0) == start);
  mappings_sizes(&mapped, &reserved);
  check(mapped == 3 * PAGE && reserved == PAGE);
  check(munmap(start, 4 * PAGE) == 0);
  mappings_sizes(&mapped, &reserved);
  check(mapped == 0 && reserved == 0);
  check(counted == freed - this_memory.stream[NATIVE].free_left && counted == 10 * PAGE);
  counted = 0;
  this_memory.stream[NATIVE].free_left = freed;
}

/* A thread forks while another one is within mremap. */
static void fork_within_a_resize(void) {
  char *start = map(4, PROT_READ | PROT_WRITE);
  check(ranges_lock() && ranges_cut((uintptr_t)start, (uintptr_t)start + 4 * PAGE, FREE_RESIZED, NULL) == 1);
  pid_t child = fork();
  if (child == 0) {
    mappings_postfork_child();
    _exit(ranges_resized_bytes() == 0 && ranges_lock() ? 0 : 1);
  }
  int status;
  check(waitpid(child, &status, 0) == child && status == 0);
  check(ranges_resized_bytes() == 4 * (size_t)PAGE);
  ranges_unlock();
  check(munmap(start, 4 * PAGE) == 0);
  counted = 0;
}

/* Only resident pages count. */
static char *map_without_reserve(size_t pages, size_t touched) {
  char *start = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(start != MAP_FAILED && madvise(start, pages * PAGE, MADV_NOHUGEPAGE) == 0);
  for (size_t i = 0; i < touched; i++) start[i * PAGE] = 1;
  return start;
}

/* Passes over mappings that a test waits for. A step of a count ends by its time too, so a machine that is busy, or emulated,
 * needs more of them: 2 to 24 are enough on an idle one. */
#define MOST_PASSES 1000

/* Pages of a range that is larger than a step are found by several looks. */
static void count_in_steps(void) {
  const size_t pages = 5 << 17;
  char *start = map_without_reserve(pages, 0);
  for (size_t at = 0; at < pages; at += pages / 10)
    for (size_t i = 0; i < 100; i++) start[(at + i) * PAGE] = 1;
  for (int i = 0; i < 20 * MOST_PASSES && counted != 1000 * PAGE; i++) {
    pages_look(1, false);
    usleep(1000);
  }
  check(counted == 1000 * PAGE);
  check(munmap(start, pages * PAGE) == 0);
  pages_look(1, true);
  check(counted == 0 && !residency_has_groups());
}

static void wait_for_pause(void) {
  for (int i = 0; i < 10 * MOST_PASSES && !residency_may_be_due(); i++) usleep(1000);
}

/* A program that waits has no ticks. What it has touched before is counted when it gives it back, in each way, even if a
 * count takes several steps and has passed the place. */
static void count_what_is_given_back(void) {
  const size_t pages = 3 << 17, whole = 500 * PAGE;
  grown_on = SEVERAL; /* on a slow machine, nobody is known to have touched what is older than a second */
  for (int way = 0; way < 10; way++) {
    char *mapping = map_without_reserve(pages, 0), *start = mapping + (way % 2 ? 0 : (pages - 600) * PAGE);
    for (size_t i = 0; i < 100; i++) start[i * PAGE] = 1;
    pages_look(1, true);
    check(counted == 100 * PAGE);
    wait_for_pause();
    pages_look(1, false);
    for (size_t i = 100; i < 500; i++) start[i * PAGE] = 1;
    wait_for_pause();
    most_counted = counted;
    if (way / 2 == 0) check(madvise(start, whole, MADV_DONTNEED) == 0);
    if (way / 2 == 1) check(madvise(start, whole, MADV_FREE) == 0);
    if (way / 2 == 2) check(mmap(start, whole, PROT_NONE, FIXED, -1, 0) == start);
    if (way / 2 == 3) check(munmap(start, whole) == 0);
    if (way / 2 == 4) check(madvise(start, whole, MADV_NORMAL) == 0);
    check(most_counted == (way / 2 == 4 ? 100 : 500) * PAGE);
    check(counted == (way / 2 == 1 ? 500 : way / 2 == 4 ? 100 : 0) * PAGE);
    check(munmap(mapping, pages * PAGE) == 0);
    pages_look(1, true);
    check(counted == 0 && !residency_has_groups());
  }
  grown_on = 1;
}

/* Pages that are touched and given back between two counts were never counted, so nothing is taken for them. */
static void count_churn(void) {
  char *start = map_without_reserve(1000, 600);
  pages_look(1, true);
  check(counted == 600 * PAGE);
  grown_on = SEVERAL;
  residency_put_off(SECONDS, true);
  for (int round = 0; round < 200; round++) {
    for (size_t i = 0; i < 300; i++) start[(600 + i) * PAGE] = 1;
    check(madvise(start + 600 * PAGE, 300 * PAGE, MADV_DONTNEED) == 0);
    check(counted == 600 * PAGE);
  }
  pages_look(1, true);
  check(counted == 600 * PAGE);
  grown_on = 1;
  check(munmap(start, 1000 * PAGE) == 0);
  pages_look(1, true);
  check(counted == 0 && !residency_has_groups());
}

/* A child that begins with less than is there would grow by the rest. Where much was touched, the pause does not matter.
 * Nor does it for the first release of an interpreter's end, of other memory than this. */
static void count_before_fork(void) {
  grown_on = SEVERAL;
  char *start = map_without_reserve(4000, 100), *other = map(4, PROT_READ | PROT_WRITE);
  pages_look(1, true);
  pages_prefork();
  for (size_t i = 100; i < 3000; i++) start[i * PAGE] = 1;
  counted = 0;
  residency_put_off(SECONDS, true);
  pages_prefork();
  check(counted == 2900 * PAGE);
  residency_put_off(0, true);
  while (!residency_may_be_due()) usleep(1000);
  int64_t before_ns = clock_now_ns();
  pages_prefork(); /* it puts the next count off by 20 ms */
  check(!residency_may_be_due() || clock_now_ns() - before_ns > 20000000);
  residency_put_off(SECONDS, true);
  for (size_t i = 3000; i < 3100; i++) start[i * PAGE] = 1;
  check(madvise(start, PAGE, MADV_DONTNEED) == 0 && counted == 2900 * PAGE);
  finalizing = true;
  int64_t free_left = this_memory.stream[NATIVE].free_left;
  check(munmap(other, 4 * PAGE) == 0);
  this_memory.stream[NATIVE].free_left = free_left;
  counted = 0;
  check(madvise(start + PAGE, PAGE, MADV_DONTNEED) == 0 && counted == 99 * PAGE);
  residency_put_off(SECONDS, true);
  start[0] = 1;
  check(madvise(start + 2 * PAGE, PAGE, MADV_DONTNEED) == 0 && counted == 99 * PAGE);
  check(munmap(start, 4000 * PAGE) == 0);
  pages_look(1, true);
  counted = 0;
  check(!residency_has_groups());
  finalizing = false;
  grown_on = 1;
}

/* What grows in a pause belongs to no stack. */
static void grow_in_a_pause(void) {
  char *start = map_without_reserve(400, 0);
  pages_look(1, true);
  residency_note_pause();
  for (size_t i = 0; i < 100; i++) start[i * PAGE] = 1;
  grown_on = 0;
  pages_look(1, true);
  check(counted == 100 * PAGE);
  for (size_t i = 100; i < 200; i++) start[i * PAGE] = 1;
  grown_on = 1;
  pages_look(1, true);
  check(counted == 200 * PAGE && munmap(start, 400 * PAGE) == 0);
  pages_look(1, true);
  check(counted == 0 && !residency_has_groups());
}

/* A count goes on where it was, in a mapping that is larger than a step. */
static void look_further(int steps) {
  for (int i = 0; i < steps; i++) {
    usleep(30000);
    pages_look(1, false);
  }
}

/* Steps are put off for a time that grows with what they cost. */
static void look_until(int64_t bytes) {
  for (int i = 0; i < 1000 && counted != bytes; i++) look_further(1);
  check(counted == bytes);
}

/* Addresses of a free range: groups are counted in their order. Fixed ones would lie in a sanitizer's shadow. */
static char *free_range(size_t pages) {
  char *start = next.mmap(NULL, pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(start != MAP_FAILED && next.munmap(start, pages * PAGE) == 0);
  return start;
}

static char *map_at(char *address, size_t pages, size_t touched) {
  char *start = mmap(address, pages * PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  check(start == address && madvise(start, pages * PAGE, MADV_NOHUGEPAGE) == 0);
  for (size_t i = 0; i < touched; i++) start[i * PAGE] = 1;
  return start;
}

/* What moves behind a count, or is touched there in a pause, is found by the next one, as what it is. */
static void change_behind_a_count(void) {
  const size_t pages = 3 << 17;
  char *below = free_range(1000 + pages + 1000);
  char *large = map_at(below + 1000 * PAGE, pages, 0), *small = map_at(large + pages * PAGE, 1000, 1000);
  count_alone();
  check(counted == 1000 * PAGE);
  look_further(1);
  small = mremap(small, 1000 * PAGE, 1000 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, below);
  check(small == below);
  look_further(12);
  check(counted == 1000 * PAGE && residency_bytes() == counted);
  count_alone();
  look_further(1);
  residency_note_pause();
  for (size_t i = 0; i < 100; i++) large[i * PAGE] = 1;
  grown_on = 0;
  look_until(1100 * PAGE);
  grown_on = 1;
  check(munmap(small, 1000 * PAGE) == 0 && munmap(large, pages * PAGE) == 0);
  count_alone();
  check(counted == 0 && !residency_has_groups());
}

/* A group that moves in each step of a count is counted all the same. */
static void move_in_each_step(void) {
  const size_t pages = 3 << 17, some = 1000;
  char *below = free_range(2 * some + pages), *large = map_at(below + some * PAGE, pages, 0);
  char *above = large + pages * PAGE, *small = map_at(above, some, 500);
  count_alone();
  check(counted == 500 * PAGE);
  for (size_t i = 500; i < some; i++) small[i * PAGE] = 1;
  for (int i = 0; i < 24 || (i < MOST_PASSES && counted != (int64_t)(some * PAGE)); i++) {
    look_further(1);
    char *wanted = small == above ? below : above;
    small = mremap(small, some * PAGE, some * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, wanted);
    check(small == wanted);
  }
  check(counted == (int64_t)(some * PAGE) && residency_bytes() == counted);
  check(munmap(small, some * PAGE) == 0 && munmap(large, pages * PAGE) == 0);
  count_alone();
  check(counted == 0 && losses[LOSS_mapping_missed] == 0);
}

/* With MREMAP_DONTUNMAP, the old range may be used again, and the new one is where it was wished. */
static void move_and_keep(void) {
  char *free_one = free_range(100), *start = map_without_reserve(100, 100);
  count_alone();
  char *moved = mremap(start, 100 * PAGE, 100 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, free_one);
  if (moved == MAP_FAILED) { /* before Linux 5.7 */
    check(munmap(start, 100 * PAGE) == 0);
  } else {
#ifdef __GLIBC__ /* musl passes no wish on */
    check(moved == free_one);
#endif
    for (size_t i = 0; i < 80; i++) start[i * PAGE] = 1;
    count_alone();
    check(counted == 180 * PAGE);
    check(munmap(start, 100 * PAGE) == 0 && munmap(moved, 100 * PAGE) == 0);
  }
  count_alone();
  check(counted == 0 && !residency_has_groups());
}

/* Each of them has fewer bytes than are a sample. */
static void count_many_small_ones(void) {
  char *start[200];
  for (int i = 0; i < 200; i++) start[i] = map_without_reserve(20, 10);
  count_alone();
  check(counted == 2000 * PAGE);
  for (int i = 0; i < 200; i++) check(munmap(start[i], 20 * PAGE) == 0);
  count_alone();
  check(counted == 0 && !residency_has_groups());
}

/* What is mapped over a part of a group belongs to it, however often. */
static void map_over_parts(void) {
  const size_t pages = 3000;
  char *start = map_without_reserve(pages, 0);
  for (size_t i = 0; i < pages; i++) {
    char *part = mmap(start + i * PAGE, PAGE, i % 3 ? PROT_READ | PROT_WRITE : PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    check(part == start + i * PAGE);
    if (i % 3) part[0] = 1;
  }
  count_alone();
  check(counted == 2000 * PAGE && losses[LOSS_mapping_missed] == 0);
  check(munmap(start, pages * PAGE) == 0);
  count_alone();
  check(counted == 0 && !residency_has_groups());
}

/* Growth belongs to the stacks whose faults in the mapping were observed, whatever else has run, and in proportion. Small
 * growth without such a fault belongs to the one before. */
static void charge_observed_faults(void) {
  const size_t pages = 55000, more = 2048, all = 25 * more;
  char *start = map_without_reserve(pages, 0);
  grown_on = SEVERAL;
  memset(grown_by, 0, sizeof grown_by);
  for (size_t from = 0; from < all; from += more) {
    for (size_t i = from; i < from + more; i++) start[i * PAGE] = 1;
    residency_note_running(1);
    for (size_t i = 0; i < 64; i++) pages_note_fault((uintptr_t)start + i * PAGE + 1, more / 64, i % 4 ? 2 : 3);
    pages_note_fault((uintptr_t)&start, 100000, 4); /* elsewhere */
    count_alone();
  }
  check(counted == (int64_t)all * PAGE && grown_by[2] + grown_by[3] == counted);
  check(grown_by[3] > counted / 20 && grown_by[3] < counted / 2);
  grown_on = 2;
  pages_note_fault((uintptr_t)start, 100, 2);
  for (size_t i = all; i < all + 200; i += 100) {
    for (size_t j = 0; j < 100; j++) start[(i + j) * PAGE] = 1;
    count_alone();
  }
  check(counted == (int64_t)(all + 200) * PAGE);
  grown_on = 1;
  check(munmap(start, pages * PAGE) == 0);
  count_alone();
  check(counted == 0 && !residency_has_groups());
}

/* A thread touches pages one after the other, and ticks say which stack has touched them. */
static void touch_as(char *start, size_t from, size_t to, uint64_t stack) {
  for (size_t i = from; i < to; i++) start[i * PAGE] = 1;
  residency_note_running(stack);
}

/* Pages that a system call fills have no observed faults: then those of ticks decide. After 16 MiB that observed faults
 * explain, these decide again, however much the call has filled. */
static void charge_pages_of_calls(void) {
  const size_t pages = 24000, filled = 16000, some = 1024;
  char *start = map_without_reserve(pages, 0);
  residency_note_running(1);
  count_alone();
  grown_on = 2;
  touch_as(start, 0, 1000, 2);
  pages_note_fault((uintptr_t)start, 1000, 2);
  count_alone();
  grown_on = 3;
  touch_as(start, 1000, filled, 3);
  count_alone();
  check(counted == (int64_t)filled * PAGE);
  for (size_t i = filled; i + some <= pages; i += some) {
    grown_on = i < filled + 4096 ? SEVERAL : 2;
    touch_as(start, i, i + some, 3);
    pages_note_fault((uintptr_t)start, some, 2);
    count_alone();
  }
  grown_on = 1;
  check(munmap(start, pages * PAGE) == 0);
  count_alone();
  check(counted == 0 && !residency_has_groups());
}

/* What was touched just before a tick belongs to its stack, not to the one of the tick before. A tick also counts that the
 * last mapping is gone. */
static void count_at_ticks(void) {
  const size_t pages = 3001;
  char *start = map_without_reserve(pages, 0);
  residency_note_running(1);
  pages_look(1, true);
  grown_on = SEVERAL;
  memset(grown_by, 0, sizeof grown_by);
  touch_as(start, 0, 1, 3);
  for (size_t i = 1; i < pages; i++) start[i * PAGE] = 1;
  for (int i = 0; i < 1000 && !grown_by[2] && !grown_by[3]; i++) {
    usleep(30000);
    pages_look(2, false);
  }
  check(grown_by[2] + grown_by[3] == (int64_t)pages * PAGE && grown_by[2] > grown_by[3]);
  grown_on = 1;
  check(munmap(start, pages * PAGE) == 0);
  pages_look(1, true);
  check(counted == 0 && !residency_has_groups());
}

/* What a thread has allocated explains its page faults: without observed ones, they do not count. */
static void leave_out_own_faults(void) {
  const size_t pages = 4000;
  char *start = map_without_reserve(pages, 0),
       *own = next.mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(own != MAP_FAILED);
  grown_on = SEVERAL;
  memset(grown_by, 0, sizeof grown_by);
  for (size_t i = 0; i < pages; i += 400) {
    residency_note_running(1);
    touch_as(start, i, i + 400, 2);
    this_memory.stream[PYTHON].left -= 400 * PAGE;
    touch_as(own, i, i + 400, 3);
    count_alone();
  }
  check(grown_by[2] + grown_by[3] == (int64_t)pages * PAGE && grown_by[3] < grown_by[2]);
  grown_on = 1;
  check(munmap(start, pages * PAGE) == 0 && next.munmap(own, pages * PAGE) == 0);
  this_memory.stream[PYTHON].left = 0;
  count_alone();
  check(counted == 0 && !residency_has_groups());
}

/* At the end of the process, all of it is counted at once. */
static void count_much_at_the_end(void) {
  const size_t pages = ((size_t)20 << 30) / (size_t)PAGE;
  char *start = map_without_reserve(pages, 100);
  count_alone();
  check(counted == 100 * PAGE && munmap(start, pages * PAGE) == 0);
  count_alone();
  check(counted == 0 && !residency_has_groups());
}

/* More groups than there is room for: those that were unmapped make room, and nothing else is looked at. */
static void make_room(void) {
  char *start = map_without_reserve(400, 100), *others[2047];
  count_alone();
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < 2046; i++) others[i] = map_without_reserve(1, 0);
    for (size_t i = 0; i < 2046; i++) check(munmap(others[i], PAGE) == 0);
  }
  check(losses[LOSS_mapping_missed] == 0 && counted == 100 * PAGE);
  check(munmap(start, 400 * PAGE) == 0);
  count_alone();
  check(counted == 0 && !residency_has_groups());
}

static void touch_and_give_back(void) {
  char *start = map_without_reserve(400, 99);
  pages_look(1, true);
  check(madvise(start, 80 * PAGE, MADV_DONTNEED) == 0);
  pages_look(1, false);
  check(munmap(start + 100 * PAGE, PAGE) == 0 && munmap(start, 400 * PAGE) == 0);
}

static void count_resident_pages(void) {
  char *start = map_without_reserve(1000, 300);
  pages_look(1, true);
  check(counted == 300 * PAGE && residency_bytes() == counted);
  check(madvise(start, 101 * PAGE, MADV_DONTNEED) == 0 && munmap(start + 900 * PAGE, 100 * PAGE) == 0);
  pages_look(1, true);
  check(counted == 199 * PAGE && residency_bytes() == counted);
  check(mprotect(start + 200 * PAGE, 100 * PAGE, PROT_NONE) == 0); /* the pages stay */
  pages_look(1, true);
  check(counted == 199 * PAGE);
  check(munmap(start, 1000 * PAGE) == 0);
  pages_look(1, true);
  check(counted == 0 && residency_bytes() == 0 && !residency_has_groups());
}

static void *work(void *nothing) {
  this_memory.stream[NATIVE].left = -1; /* every mapping calls memory_mapped */
  this_memory.stream[NATIVE].free_left = INT64_MAX;
  for (int round = 0; round < ROUNDS; round++) {
    unmap_in_parts();
    make_accessible_in_parts();
    resize();
    touch_and_give_back();
    if (round % 50 == 0) pages_touched();
  }
  add_freed();
  return nothing;
}

static void fork_and_work(void) {
  pid_t child = fork();
  int status;
  if (child == 0) {
    mappings_postfork_child();
    for (int round = 0; round < 10; round++) {
      unmap_in_parts();
      touch_and_give_back();
    }
    _exit(0);
  }
  check(waitpid(child, &status, 0) == child && status == 0);
}

static void everything_was_freed(void) {
  int64_t mapped, reserved;
  pages_look(1, true);
  mappings_sizes(&mapped, &reserved);
  check(mapped == 0 && reserved == 0 && counted == 0 && ended_parts > 0);
}

struct looked {
  uint32_t untouched, absent, shared; /* as pages_touched and pages_shared say */
};

static struct looked look(void) {
  struct touched now = pages_touched();
  return (struct looked){now.untouched, now.absent, pages_shared(now.absent)};
}

static struct looked added(struct looked before) {
  struct looked now = look();
  return (struct looked){now.untouched - before.untouched, now.absent - before.absent, now.shared - before.shared};
}

/* What the kernel counts with files is told apart, however it is cut, protected and moved. */
static void tell_shared_pages(void) {
  const size_t pages = 300, unit = (size_t)PAGE / 4096;
  struct looked before = look();
  int64_t free_left = this_memory.stream[NATIVE].free_left;
  char *start = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
       *own = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(start != MAP_FAILED && own != MAP_FAILED);
  for (size_t i = 0; i < 200; i++) start[i * PAGE] = 1;
  for (size_t i = 0; i < 70; i++) own[i * PAGE] = 1;
  check(pages_shared(before.absent) == before.shared + pages * unit); /* not looked at yet */
  check(added(before).shared == 200 * unit && added(before).untouched == (100 + 230) * unit);
  check(added(before).absent == 100 * unit);
  check(munmap(start, 50 * PAGE) == 0);
  check(mprotect(start + 60 * PAGE, 40 * PAGE, PROT_NONE) == 0 && added(before).shared == 110 * unit);
  check(mprotect(start + 60 * PAGE, 40 * PAGE, PROT_READ) == 0 && added(before).shared == 150 * unit);
  char *moved = mremap(start + 200 * PAGE, 100 * PAGE, 150 * PAGE, MREMAP_MAYMOVE);
  check(moved != MAP_FAILED && added(before).shared == 150 * unit);
  moved[0] = 1;
  check(added(before).shared == 151 * unit && added(before).absent == 149 * unit);
  check(munmap(moved, 150 * PAGE) == 0 && munmap(start, 200 * PAGE) == 0 && munmap(own, pages * PAGE) == 0);
  check(pages_shared(before.absent + 149 * unit) == 0); /* 300 pages fewer than at that look, of which 151 were there */
  check(added(before).shared == 0 && added(before).untouched == 0);
  this_memory.stream[NATIVE].free_left = free_left;
  counted = 0;
}

/* Of so many pages, only a part is examined: that says the same of mappings that alternate. */
static void estimate_alternating_mappings(void) {
  const size_t pairs = 104, piece = 1024 * (size_t)PAGE, unit = (size_t)PAGE / 4096, whole = pairs * 1024 * unit;
  int64_t free_left = this_memory.stream[NATIVE].free_left;
  struct looked before = look();
  char *start = mmap(NULL, pairs * 2 * piece, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(start != MAP_FAILED);
  for (size_t i = 0; i < 2 * pairs; i++) {
    int flags = (i % 2 ? MAP_PRIVATE : MAP_SHARED) | MAP_ANONYMOUS | MAP_FIXED;
    char *part = mmap(start + i * piece, piece, PROT_READ | PROT_WRITE, flags, -1, 0);
    check(part == start + i * piece && madvise(part, piece, MADV_NOHUGEPAGE) == 0);
    /* Half of every second private one, and an eighth of each shared one. */
    size_t touched = i % 4 == 1 ? 512 : i % 2 ? 0 : 128;
    for (size_t page = 0; page < touched; page++) part[page * PAGE] = 1;
  }
  struct looked found = added(before);
  size_t shared = whole / 8, untouched = whole * 3 / 4 + whole - shared;
  check(found.shared > shared * 0.9 && found.shared < shared * 1.1);
  check(found.untouched > untouched * 0.95 && found.untouched < untouched * 1.05);
  check(munmap(start, pairs * 2 * piece) == 0);
  this_memory.stream[NATIVE].free_left = free_left;
  counted = 0;
}

int main(void) {
  pthread_t threads[THREADS];
#define INTERPOSED(result, name, arguments) next.name = (__typeof__(next.name))dlsym(RTLD_NEXT, #name);
#include "inside/core/interposed.h"
#undef INTERPOSED
  next.resolved = true;
  memory_mode = MEMORY_COUNT;
  shrink_behind_a_guard();
  fork_within_a_resize();
  count_resident_pages();
  count_in_steps();
  grow_in_a_pause();
  change_behind_a_count();
  move_in_each_step();
  move_and_keep();
  header.features = FEATURE_CPU; /* mappings do not look: what is touched after a look may be too little for a sample */
  count_what_is_given_back();
  count_churn();
  count_before_fork();
  count_many_small_ones();
  map_over_parts();
  charge_observed_faults();
  charge_pages_of_calls();
  count_at_ticks();
  leave_out_own_faults();
  header.features = 0;
  tell_shared_pages();
  estimate_alternating_mappings();
  count_much_at_the_end();
  make_room();
  for (int i = 0; i < THREADS; i++) check(pthread_create(&threads[i], NULL, work, NULL) == 0);
  for (int i = 0; i < CHILDREN; i++) fork_and_work();
  for (int i = 0; i < THREADS; i++) check(pthread_join(threads[i], NULL) == 0);
  if (losses[LOSS_mapping_missed] == 0) everything_was_freed();
  printf("ok, %d mappings missed\n", losses[LOSS_mapping_missed]);
  return 0;
}
