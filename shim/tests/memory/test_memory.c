/* memory.c with interpose.c and next.c, on the real allocator of this process: the counters equal exact counts. */
#include <malloc.h>
#include <pthread.h>

#include "formats/spool/spool.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/memory/mappings.h"
#include "inside/memory/memory.h"
#include "inside/python/objects.h"
#include "inside/stacks/frames.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/spool.h"
#include "tests/check.h"
#include "tests/memory/stand_ins.h"

/* ---- stand-ins for the other files of the shim, which catch the samples ---- */

static struct spool_header header = {.memory_threshold_bytes = 1000003, .features = FEATURE_MEMORY};
struct spool_header *spool;
THREAD_LOCAL struct thread_state this_thread;
static struct record_memory caught[64];
static char record_space[SPOOL_SLOT_BYTES]; /* the record being written */
static int samples;
static _Atomic int live = 1;

void loss_add(enum loss loss) { header.losses[loss]++; }
void *spool_claim(unsigned slots) { return slots == 1 ? record_space : NULL; }
uint32_t spool_place_of(const void *record) { return record != NULL; }
struct record_alloc *spool_take_back(uint32_t place, uint64_t id) { return (void)place, (void)id, NULL; }
void spool_publish(void *record, unsigned kind, unsigned slots) {
  check(record == record_space && slots == 1);
  if (kind == RECORD_MEMORY) __builtin_memcpy(&caught[samples++ % 64], record, sizeof caught[0]);
}
uint64_t frames_current(void) { return 0; }
uint64_t frames_of(void *thread_state) { return (void)thread_state, 0; }
uint64_t evidence_of_caller(struct scratch *scratch) { return (void)scratch, 0; }
struct scratch *scratch_take(void) { return NULL; }
void scratch_give(struct scratch *scratch) { (void)scratch; }
uint64_t frames_line(void) { return 0; }
int threads_live(void) { return live; }
uint64_t objects_type(uintptr_t block, size_t bytes, enum block_hold hold, const void *thread_state) {
  (void)thread_state;
  return block && bytes && hold == BLOCK_OWNED;
}

/* ---- */

/* Keeps the compiler from removing pairs of allocation and free. */
static void *volatile keep;

static int64_t footprint(void) {
  int64_t total, python;
  memory_thread_end();
  memory_footprint(&total, &python);
  return total;
}

static void test_every_function_is_counted_by_usable_size(void) {
  int64_t before = footprint(), expected = 0;
  void *blocks[10];
  int count = 0;
  blocks[count++] = malloc(1999);
  blocks[count++] = calloc(7, 331);
  blocks[count++] = realloc(NULL, 4097);
  blocks[count++] = reallocarray(NULL, 13, 401);
  blocks[count++] = memalign(64, 1021);
  blocks[count++] = aligned_alloc(128, 1280);
  blocks[count++] = valloc(5003);
  check(posix_memalign(&blocks[count++], 256, 777) == 0);
  blocks[0] = realloc(blocks[0], 90001);
  blocks[1] = realloc(blocks[1], 11);
  for (int i = 0; i < count; i++) {
    keep = blocks[i];
    expected += (int64_t)malloc_usable_size(blocks[i]);
  }
  check(footprint() - before == expected);
  for (int i = 0; i < count; i++) free(blocks[i]);
  check(footprint() == before);
}

/* C23: not every libc declares them. */
void free_sized(void *, size_t);
void free_aligned_sized(void *, size_t, size_t);

static void test_sized_frees_count_like_free(void) {
  int64_t before = footprint();
  char *small = malloc(1999), *aligned = aligned_alloc(128, 1280), *large = malloc(5000000);
  keep = small;
  check(footprint() - before ==
        (int64_t)(malloc_usable_size(small) + malloc_usable_size(aligned) + malloc_usable_size(large)));
  free_sized(small, 1999);
  free_aligned_sized(aligned, 128, 1280);
  int written = samples;
  free_sized(large, 5000000);
  check(samples == written + 1 && caught[written % 64].net_bytes < -4999999);
  check(footprint() == before);
  free_sized(NULL, 0);
  free_aligned_sized(NULL, 64, 0);
  free_sized(bootstrap_alloc(10, 16), 10); /* blocks of the bootstrap area are not freed */
  check(footprint() == before);
}

static void *handed_on;
static size_t handed_alignment, handed_size;

static void take_sized(void *block, size_t size) {
  handed_on = block;
  handed_alignment = 0;
  handed_size = size;
}

static void take_aligned_sized(void *block, size_t alignment, size_t size) {
  handed_on = block;
  handed_alignment = alignment;
  handed_size = size;
}

/* An allocator that has these functions is called with the program's arguments. */
static void test_sized_frees_are_forwarded(void) {
  struct next_functions saved = next;
  int64_t before = footprint();
  char *first = malloc(333), *second = aligned_alloc(64, 640);
  next.free_sized = take_sized;
  next.free_aligned_sized = take_aligned_sized;
  free_sized(first, 333);
  check(handed_on == first && handed_size == 333 && handed_alignment == 0);
  free_aligned_sized(second, 64, 640);
  check(handed_on == second && handed_size == 640 && handed_alignment == 64);
  next = saved;
  check(footprint() == before);
  next.free(first);
  next.free(second);
}

static void test_failures_and_null_pointers_count_nothing(void) {
  int64_t before = footprint();
  volatile size_t huge = (size_t)1 << 62, overflow = (size_t)1 << 63;
  errno = 0;
  check(malloc(huge) == NULL && errno == ENOMEM);
  check(calloc(overflow, 4) == NULL && reallocarray(NULL, overflow, 4) == NULL && errno == ENOMEM);
  void *block = malloc(100);
  check(realloc(block, huge) == NULL);
  free(block);
  free(NULL);
  check(footprint() == before);
}

static void test_a_large_block_is_a_sample_of_its_own(void) {
  footprint();
  int before = samples;
  char *small = malloc(500000), *large = malloc(5000000);
  check(samples == before + 1);
  const struct record_memory *sample = &caught[before % 64];
  check(sample->net_bytes == (int64_t)malloc_usable_size(large));
  check(sample->allocated_bytes == malloc_usable_size(large) && sample->python_allocated_bytes == 0);
  free(large);
  check(samples == before + 2 && caught[(before + 1) % 64].net_bytes == -sample->net_bytes);
  free(small);
}

static void test_growth_is_sampled_and_churn_is_not(void) {
  int before = samples;
  for (int i = 0; i < 10000; i++) {
    keep = malloc(10007);
    free(keep);
  }
  check(samples == before);
  void *blocks[100];
  int64_t sum = 0;
  for (int i = 0; i < 100; i++) blocks[i] = malloc(50021);
  for (int i = before; i < samples; i++) sum += caught[i % 64].net_bytes;
  check(samples - before >= 4 && samples - before <= 5 && sum > 3900000 && sum <= 100 * 50100);
  for (int i = 0; i < 100; i++) free(blocks[i]);
}

#define PASSED 2000
static void *_Atomic handed[PASSED];

static void *produce(void *unused) {
  (void)unused;
  for (int i = 0; i < PASSED; i++) handed[i] = malloc(20011);
  memory_thread_end();
  return NULL;
}

static void *consume(void *unused) {
  (void)unused;
  for (int i = 0; i < PASSED; i++) {
    void *block;
    while (!(block = atomic_exchange(&handed[i], NULL))) sched_yield();
    free(block);
  }
  memory_thread_end();
  return NULL;
}

static void test_a_consumer_frees_blocks_of_a_producer(void) {
  int64_t before = footprint();
  pthread_t producer, consumer;
  live = 3;
  check(!pthread_create(&producer, NULL, produce, NULL) && !pthread_create(&consumer, NULL, consume, NULL));
  pthread_join(producer, NULL);
  pthread_join(consumer, NULL);
  live = 1;
  int64_t left = footprint() - before;
  check(left > -4096 && left < 4096); /* libc keeps a few bytes per thread */
}

/* During a pause nothing is written and nothing is lost: what moved in it becomes one sample without a stack, before
 * later samples. */
static void test_a_pause_becomes_one_sample(void) {
  int64_t at_first = footprint();
  int before = samples;
  header.paused = 1;
  char *gone = malloc(3000001), *kept = malloc(5000011);
  free(gone);
  check(samples == before);
  int64_t grown = (int64_t)malloc_usable_size(kept);
  check(footprint() - at_first == grown);
  header.paused = 0;
  char *large = malloc(2000003);
  check(samples == before + 2);
  const struct record_memory *pause = &caught[before % 64], *block = &caught[(before + 1) % 64];
  check(pause->net_bytes == grown && pause->stack == 0);
  check(pause->allocated_bytes > (uint64_t)grown);
  check(block->net_bytes == (int64_t)malloc_usable_size(large));
  check(block->footprint_bytes - pause->footprint_bytes == block->net_bytes);
  free(large);
  free(kept);
  check(footprint() == at_first);
}

static void test_a_threshold_that_is_set_is_in_force(void) {
  int before = samples;
  free(malloc(700001));
  check(samples == before);
  header.memory_threshold_bytes = 500009;
  free(malloc(700001));
  check(samples == before + 2);
  header.memory_threshold_bytes = 1000003;
}

static void test_bootstrap_blocks(void) {
  uint64_t before = header.losses[LOSS_bootstrap_exhausted];
  char *block = bootstrap_alloc(100, 64);
  check(block && ((uintptr_t)block & 63) == 0 && bootstrap_owns(block) && bootstrap_size(block) == 104);
  check(malloc_usable_size(block) == 104);
  memset(block, 'x', 100);
  char *moved = realloc(block, 200);
  check(moved && !bootstrap_owns(moved) && moved[99] == 'x');
  free(moved);
  free(bootstrap_alloc(10, 16)); /* blocks of the bootstrap area are not freed */
  check(bootstrap_alloc(1 << 20, 16) == NULL && header.losses[LOSS_bootstrap_exhausted] > before);
  check(bootstrap_alloc(SIZE_MAX, 16) == NULL && bootstrap_alloc(SIZE_MAX - 6, 16) == NULL);
}

static void test_headers_agree_with_libc(void) {
  static const size_t sizes[] = {0, 1, 24, 25, 1032, 1033, 4096, 100000, 200000, 40 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    void *block = next.malloc(sizes[i]), *aligned = next.memalign(512, sizes[i]);
    size_t head = next_libc_head(block), aligned_head = next_libc_head(aligned);
    check((head & LIBC_MAPPED) || next_libc_bytes(head) == malloc_usable_size(block));
    check((aligned_head & LIBC_MAPPED) || next_libc_bytes(aligned_head) == malloc_usable_size(aligned));
    check(!(head & LIBC_MAPPED) || sizes[i] > 100000);
    next.free(block);
    next.free(aligned);
  }
}

static void test_all(void) {
  test_every_function_is_counted_by_usable_size();
  test_sized_frees_count_like_free();
  test_sized_frees_are_forwarded();
  test_failures_and_null_pointers_count_nothing();
  test_a_large_block_is_a_sample_of_its_own();
  test_growth_is_sampled_and_churn_is_not();
  test_a_consumer_frees_blocks_of_a_producer();
  test_a_pause_becomes_one_sample();
  test_a_threshold_that_is_set_is_in_force();
  test_bootstrap_blocks();
}

int main(void) {
  next_resolve();
  check(memory_mode == MEMORY_FORWARD);
  spool = &header;
  memory_init();
  check(memory_mode == MEMORY_COUNT_LIBC);
  test_headers_agree_with_libc();
  test_all();
  memory_mode = MEMORY_COUNT; /* as on another allocator than libc's */
  test_all();
  puts("ok");
  return 0;
}
