/* stand_ins.c and calls.c: stand-ins forward every call unchanged, and the records add up to the bytes that were asked
 * for. */
#include <pthread.h>
#include <stdlib.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/thread_state.h"
#include "inside/cuda/calls.h"
#include "inside/cuda/cuda.h"
#include "inside/cuda/stand_ins.h"
#include "inside/stacks/frames.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "tests/check.h"

static struct spool_header header = {.features = FEATURE_COPY | FEATURE_MEMORY};
struct spool_header *spool = &header;
THREAD_LOCAL struct thread_state this_thread = {.id = 1};
static struct record_device_call last_call;
static struct record_device_block blocks[64];
static int block_count, call_records, spool_full;
static uint64_t bytes[8], calls[8], current_stack = 11;
static int64_t now_ns = 1000000000;

/* ---- stand-ins for the other files of the shim ---- */

void loss_add(enum loss loss) { header.losses[loss]++; }
void fork_check(void) {}
void thread_ensure(void) {}
uint64_t frames_current(void) { return current_stack; }
int64_t clock_now_ns(void) { return now_ns += 1000; }
bool safe_read(void *to, const void *from, size_t size) {
  if (from) memcpy(to, from, size);
  return from != NULL;
}
size_t safe_read_some(void *to, const void *from, size_t size) {
  size_t length = strnlen(from, size);
  memcpy(to, from, length);
  return length;
}
void *spool_claim(unsigned slots) {
  static union {
    struct record_device_call call;
    struct record_device_block block;
  } record_space;
  check(slots == 1);
  record_space.call.head = 1 << 16;
  return spool_full ? NULL : &record_space;
}
void spool_publish(void *record, unsigned kind, unsigned slots) {
  check(slots == 1 && (kind == RECORD_DEVICE_CALL || kind == RECORD_DEVICE_BLOCK));
  if (kind == RECORD_DEVICE_BLOCK) {
    check(block_count < 64);
    blocks[block_count++] = *(struct record_device_block *)record;
    return;
  }
  last_call = *(struct record_device_call *)record;
  check(last_call.thread == 1 && last_call.end_ns >= last_call.t_ns && last_call.calls > 0);
  bytes[last_call.direction] += last_call.bytes;
  calls[last_call.direction] += last_call.calls;
  call_records++;
}

/* ---- a CUDA library ---- */

static uintptr_t passed[CUDA_ARGUMENTS];
static int result;

static int take_nine(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f, uintptr_t g,
                     uintptr_t h, uintptr_t i) {
  memcpy(passed, ((uintptr_t[]){a, b, c, d, e, f, g, h, i}), sizeof passed);
  errno = 77;
  return result;
}
static int give_a_block(void **out, size_t size) {
  *out = (void *)(uintptr_t)(0x7000 + size);
  return result;
}
static int give_a_pitched_block(void **out, size_t *pitch, size_t width, size_t height) {
  (void)height;
  *pitch = (width + 511) & ~(size_t)511;
  *out = (void *)0x9000;
  return result;
}
static int other_copy(void *to, const void *from, size_t size) { return (void)to, (void)from, (int)size; }
static int look_up(const char *name, void **out, int version, uint64_t flags, int *status) {
  (void)name, (void)version, (void)flags;
  *status = 0;
  *out = (void *)other_copy;
  return 0;
}

static void *stand_in(const char *name, void *real) { return cuda_stand_in(real, cuda_find(name)); }
typedef int copy_function(void *, const void *, size_t, int, void *);
typedef int wide_function(uintptr_t, size_t, uintptr_t, size_t, size_t, size_t, int, void *);
typedef int to_array_function(uintptr_t, size_t, size_t, uintptr_t, size_t, size_t, size_t, int, void *);
typedef int between_arrays_function(uintptr_t, size_t, size_t, uintptr_t, size_t, size_t, size_t, size_t, int);

static void clear(void) {
  cuda_calls_flush_all();
  memset(bytes, 0, sizeof bytes);
  memset(calls, 0, sizeof calls);
  block_count = call_records = 0;
  result = 0;
}

/* ---- the tests ---- */

static void test_names(void) {
  check(cuda_find("cudaMemcpy") && cuda_find("cuMemcpyHtoDAsync_v2_ptsz") && cuda_find("cudaMemcpy2D_ptds"));
  check(!cuda_find("cudaMemcpyX") && !cuda_find("cuMemcpyHtoD") && !cuda_find("") && !cuda_find("c"));
}

static void test_one_function_has_one_stand_in(void) {
  void *once = stand_in("cudaMemcpyAsync", (void *)take_nine);
  check(once != (void *)take_nine && once == stand_in("cudaMemcpyAsync", (void *)take_nine));
  check(stand_in("cudaMemcpyAsync", once) == once); /* a stand-in gets no stand-in */
  check(stand_in("cudaMemcpyAsync", (void *)other_copy) != once);
}

static void test_calls_are_forwarded_unchanged(void) {
  wide_function *copy = (wide_function *)stand_in("cudaMemcpy2DAsync", (void *)take_nine);
  result = 719;
  errno = 5;
  check(copy(1, 2, 3, 4, 5, 6, 7, (void *)8) == 719 && errno == 77);
  for (uintptr_t i = 0; i < 6; i++) check(passed[i] == i + 1);
  check((int)passed[6] == 7 && passed[7] == 8);
  result = 0;
  check(copy(0, 0, 0, 0, 301, 17, 2, NULL) == 0);
  to_array_function *to_array = (to_array_function *)stand_in("cudaMemcpy2DToArrayAsync", (void *)take_nine);
  check(to_array(1, 2, 3, 4, 5, 6, 7, 1, (void *)9) == 0);
  for (uintptr_t i = 0; i < 7; i++) check(passed[i] == i + 1);
  check((int)passed[7] == 1 && passed[8] == 9);
  clear();
}

static void test_copied_bytes(void) {
  copy_function *copy = (copy_function *)stand_in("cudaMemcpyAsync", (void *)take_nine);
  wide_function *copy_2d = (wide_function *)stand_in("cudaMemcpy2D", (void *)take_nine);
  to_array_function *to_array = (to_array_function *)stand_in("cudaMemcpy2DToArrayAsync", (void *)take_nine);
  between_arrays_function *between_arrays =
      (between_arrays_function *)stand_in("cudaMemcpy2DArrayToArray", (void *)take_nine);
  clear();
  for (int kind = 0; kind < 5; kind++) copy(NULL, NULL, 1003, kind, NULL);
  copy_2d(0, 512, 0, 512, 301, 17, 1, NULL);
  to_array(0, 0, 0, 0, 512, 401, 13, 1, NULL);
  between_arrays(0, 0, 0, 0, 0, 0, 103, 11, 3);
  result = 1;
  copy(NULL, NULL, 1000000, 1, NULL); /* failed: nothing was copied */
  result = 0;
  copy(NULL, NULL, 0, 1, NULL);
  cuda_calls_flush_all();
  check(bytes[DEVICE_H2H] == 1003 && bytes[DEVICE_D2H] == 1003 && bytes[DEVICE_D2D] == 1003 + 103 * 11);
  check(bytes[DEVICE_UNIFIED] == 1003 && bytes[DEVICE_H2D] == 1003 + 301 * 17 + 401 * 13 && calls[DEVICE_H2D] == 3);
}

static void test_described_copies(void) {
  uint64_t described[16] = {[2] = 1, [9] = 2, [14] = 301, [15] = 17}; /* CUDA_MEMCPY2D: host to device */
  int (*copy)(const void *) = (int (*)(const void *))stand_in("cuMemcpy2D_v2", (void *)take_nine);
  clear();
  copy(described);
  described[2] = 3, described[9] = 1; /* array to host */
  copy(described);
  described[9] = 4;
  copy(described);
  copy(NULL); /* the library decides about the null pointer */
  cuda_calls_flush_all();
  check(bytes[DEVICE_H2D] == 301 * 17 && bytes[DEVICE_D2H] == 301 * 17 && bytes[DEVICE_UNIFIED] == 301 * 17);
}

static void test_many_calls_are_few_records(void) {
  copy_function *copy = (copy_function *)stand_in("cudaMemcpyAsync", (void *)take_nine);
  clear();
  for (int i = 0; i < 100000; i++) { /* 3 us each: 0.3 s */
    current_stack = 11 + (uint64_t)i % 3;
    copy(NULL, NULL, 7, 1, NULL);
  }
  cuda_calls_flush_all();
  check(bytes[DEVICE_H2D] == 700000 && calls[DEVICE_H2D] == 100000 && call_records <= 3 * 40);
  call_records = 0;
  for (int i = 0; i < 1000; i++) { /* more stacks in turns than a thread has sums: every call is still counted */
    current_stack = 11 + (uint64_t)i % 20;
    copy(NULL, NULL, 7, 1, NULL);
  }
  cuda_calls_flush_all();
  check(bytes[DEVICE_H2D] == 707000 && call_records <= 1000);
  current_stack = 11;
}

static void test_waits(void) {
  int (*wait)(void) = (int (*)(void))stand_in("cudaDeviceSynchronize", (void *)take_nine);
  clear();
  result = 3;
  check(wait() == 3);
  cuda_calls_flush_all();
  check(calls[DEVICE_SYNC] == 1 && bytes[DEVICE_SYNC] == 0 && last_call.duration_ns > 0);
}

static void test_blocks(void) {
  int (*give)(void **, size_t) = (int (*)(void **, size_t))stand_in("cudaMalloc", (void *)give_a_block);
  int (*pitched)(void **, size_t *, size_t, size_t) =
      (int (*)(void **, size_t *, size_t, size_t))stand_in("cudaMallocPitch", (void *)give_a_pitched_block);
  int (*release)(void *) = (int (*)(void *))stand_in("cudaFree", (void *)take_nine);
  void *block;
  size_t pitch;
  clear();
  check(give(&block, 1003) == 0 && block == (void *)(0x7000 + 1003));
  check(block_count == 1 && blocks[0].what == BLOCK_ALLOCATED && blocks[0].bytes == 1003 && blocks[0].stack == 11);
  check(blocks[0].address == 0x7000 + 1003 && blocks[0].source == GIVEN_BY_MALLOC);
  check(pitched(&block, &pitch, 700, 3) == 0 && blocks[1].bytes == 3 * 1024);
  release((void *)0x9000);
  check(block_count == 3 && blocks[2].what == BLOCK_FREED && blocks[2].address == 0x9000);
  release(NULL); /* allowed, and has no effect */
  check(block_count == 3);
  result = 1;
  release((void *)0x9000); /* refused */
  check(block_count == 5 && blocks[4].what == BLOCK_NOT_FREED && blocks[4].t_ns > blocks[3].t_ns);
  give(&block, 5);
  check(block_count == 5);
  clear();
}

static int (*inner)(void *, const void *, size_t);
static int runtime_copy(void *to, const void *from, size_t size) { return inner(to, from, size); }

static void test_calls_inside_the_library_are_not_counted(void) {
  inner = (int (*)(void *, const void *, size_t))stand_in("cuMemcpyHtoD_v2", (void *)take_nine);
  copy_function *copy = (copy_function *)stand_in("cudaMemcpy", (void *)runtime_copy);
  clear();
  copy(NULL, NULL, 1003, 1, NULL);
  inner(NULL, NULL, 5);
  cuda_calls_flush_all();
  check(bytes[DEVICE_H2D] == 1008 && calls[DEVICE_H2D] == 2);
}

static void test_the_drivers_own_lookup(void) {
  int (*find)(const char *, void **, int, uint64_t, int *) =
      (int (*)(const char *, void **, int, uint64_t, int *))stand_in("cuGetProcAddress_v2", (void *)look_up);
  void *found;
  int status = 9;
  check(find("cuMemcpyHtoD", &found, 12040, 0, &status) == 0 && status == 0);
  check(found == stand_in("cuMemcpyHtoD_v2", (void *)other_copy));
  find("cuLaunchKernel", &found, 12040, 0, &status);
  check(found == (void *)other_copy);
  find("cuMemcpyHtoD", &found, 3010, 0, &status); /* that version had other arguments */
  check(found == (void *)other_copy);
}

static void test_calls_are_made_when_paused_or_full(void) {
  copy_function *copy = (copy_function *)stand_in("cudaMemcpy", (void *)take_nine);
  clear();
  header.paused = 1;
  check(copy(NULL, NULL, 1003, 1, NULL) == 0);
  cuda_calls_flush_all();
  header.paused = 0;
  check(call_records == 0);
  spool_full = 1;
  check(copy(NULL, NULL, 1003, 1, NULL) == 0);
  cuda_calls_flush_all();
  spool_full = 0;
  header.ended = 1;
  check(copy(NULL, NULL, 1003, 1, NULL) == 0);
  header.ended = 0;
  spool = NULL;
  check(copy(NULL, NULL, 1003, 1, NULL) == 0);
  spool = &header;
  cuda_calls_flush_all();
  check(call_records == 0);
}

static void test_a_child_discards_the_sums_of_its_parent(void) {
  copy_function *copy = (copy_function *)stand_in("cudaMemcpy", (void *)take_nine);
  clear();
  copy(NULL, NULL, 1003, 1, NULL);
  copy(NULL, NULL, 1003, 1, NULL);
  int records_before = call_records;
  cuda_calls_postfork_child();
  cuda_calls_flush_all();
  check(call_records == records_before && bytes[DEVICE_H2D] <= 1003 * 2);
}

static void *copy_in_a_thread(void *ends) {
  copy_function *copy = (copy_function *)stand_in("cudaMemcpy", (void *)take_nine);
  this_thread.id = 1;
  copy(NULL, NULL, 5, 2, NULL);
  copy(NULL, NULL, 5, 2, NULL);
  if (ends) cuda_calls_thread_end();
  return NULL;
}

static void test_sums_of_ended_threads_are_written(void) {
  pthread_t thread;
  clear();
  for (int i = 0; i < 200; i++) { /* more threads than accumulators, but one after the other */
    check(!pthread_create(&thread, NULL, copy_in_a_thread, (void *)1));
    pthread_join(thread, NULL);
  }
  check(bytes[DEVICE_D2H] == 2000);
  for (int i = 0; i < 200; i++) { /* without cuda_calls_thread_end: a thread without an accumulator writes each call */
    check(!pthread_create(&thread, NULL, copy_in_a_thread, NULL));
    pthread_join(thread, NULL);
  }
  cuda_calls_flush_all();
  check(bytes[DEVICE_D2H] == 4000 && calls[DEVICE_D2H] == 800);
}

static void test_functions_beyond_the_stand_ins_are_losses(void) {
  char *library = calloc(1, 400);
  for (int i = 0; i < 400; i++) stand_in("cudaFree", library + i);
  check(header.losses[LOSS_device_unhooked] > 0 && header.losses[LOSS_device_unhooked] < 200);
  check(stand_in("cudaFree", library + 399) == library + 399);
  free(library);
}

int main(void) {
  test_names();
  test_one_function_has_one_stand_in();
  test_calls_are_forwarded_unchanged();
  test_copied_bytes();
  test_described_copies();
  test_many_calls_are_few_records();
  test_waits();
  test_blocks();
  test_calls_inside_the_library_are_not_counted();
  test_the_drivers_own_lookup();
  test_calls_are_made_when_paused_or_full();
  test_a_child_discards_the_sums_of_its_parent();
  test_sums_of_ended_threads_are_written();
  test_functions_beyond_the_stand_ins_are_losses();
  puts("ok");
  return 0;
}
