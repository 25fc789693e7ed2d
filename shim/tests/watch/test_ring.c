/* Tests ring.c: records of a perf event's buffer, also over its end, lost ones, and such as no kernel writes. */
#include "watch/attached/ring.h"

#include "tests/check.h"

#define BYTES 4096
#define STACK_WORDS 6

static struct perf_event_mmap_page page;
static _Alignas(8) char data[BYTES];
static struct ring ring = {&page, data, BYTES};
static struct ring_batch batch;

static void put(const void *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) data[page.data_head++ % BYTES] = ((const char *)bytes)[i];
}

static void put_words(const uint64_t *words, int count) { put(words, (size_t)count * sizeof *words); }

static void put_header(uint32_t type, unsigned misc, size_t size) {
  struct perf_event_header header = {type, (uint16_t)misc, (uint16_t)size};
  put(&header, sizeof header);
}

#define SAMPLE_WORDS (1 + 3 + 1 + DWARF_REGISTERS + 1 + STACK_WORDS + 1)

/* The register with DWARF's number n is 1000 + n; the stack is t_ns + 0, 1, ... */
static void put_sample(unsigned mode, uint64_t t_ns, uint64_t room, uint64_t written) {
  put_header(PERF_RECORD_SAMPLE, mode, SAMPLE_WORDS * sizeof(uint64_t));
  put_words((uint64_t[]){0xfff, 7, t_ns, PERF_SAMPLE_REGS_ABI_64}, 4);
  for (int i = 0; i < DWARF_REGISTERS; i++) put_words((uint64_t[]){1000u + arch_perf_order[i]}, 1);
  put_words(&room, 1);
  for (uint64_t i = 0; i < STACK_WORDS; i++) put_words((uint64_t[]){t_ns + i}, 1);
  put_words(&written, 1);
}

static void read_all(void) {
  ring_read(&ring, &batch);
  check(page.data_tail == page.data_head && !ring_has(&ring));
}

static void check_newest(int64_t t_ns, size_t words) {
  const struct ring_sample *newest = &batch.newest;
  check(newest->t_ns == t_ns && newest->has_registers && newest->stack_words == words);
  for (uintptr_t i = 0; i < DWARF_REGISTERS; i++) check(newest->value[i] == 1000 + i);
  for (size_t i = 0; i < words; i++) check(newest->stack[i] == (uint64_t)t_ns + i);
}

static void test_samples_also_over_the_end(void) {
  size_t room = STACK_WORDS * sizeof(uint64_t);
  for (int round = 0; round < 100; round++) { /* the size of a sample does not divide that of the buffer */
    put_sample(PERF_RECORD_MISC_KERNEL, 5, room, room);
    put_sample(PERF_RECORD_MISC_USER, 1000 + (uint64_t)round, room, room - 16);
    check(ring_has(&ring));
    read_all();
    check(batch.user == 1 && batch.kernel == 1 && !batch.lost && !batch.damaged && !batch.newest.in_kernel);
    check_newest(1000 + round, STACK_WORDS - 2);
  }
  read_all();
  check(!batch.user && !batch.kernel);
}

static void test_lost_and_held_back(void) {
  put_header(PERF_RECORD_LOST, 0, 24);
  put_words((uint64_t[]){1, 40}, 2);
  put_header(PERF_RECORD_LOST_SAMPLES, 0, 16);
  put_words((uint64_t[]){2}, 1);
  put_header(PERF_RECORD_THROTTLE, 0, 32);
  put_words((uint64_t[]){1, 2, 3}, 3);
  put_header(PERF_RECORD_UNTHROTTLE, 0, 32);
  put_words((uint64_t[]){1, 2, 3}, 3);
  put_header(12345, 0, 8); /* of a later kernel */
  read_all();
  check(batch.lost == 43 && !batch.user && !batch.kernel && !batch.damaged);
}

static void test_a_thread_without_registers(void) {
  put_header(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, 7 * sizeof(uint64_t));
  put_words((uint64_t[]){1, 2, 3, PERF_SAMPLE_REGS_ABI_NONE, 0, 0}, 6);
  read_all();
  check(batch.kernel == 1 && batch.newest.in_kernel && !batch.newest.has_registers && batch.newest.t_ns == 3);
}

static void test_sizes_that_no_kernel_writes(void) {
  static const uint64_t rooms[] = {0, 8, 4096, 65528, UINT64_MAX}, written[] = {0, 4096, UINT64_MAX};
  for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
    for (size_t k = 0; k < sizeof written / sizeof *written; k++) {
      put_sample(PERF_RECORD_MISC_USER, 9, rooms[i], written[k]);
      read_all();
      check(batch.user == 1 && batch.newest.stack_words <= STACK_WORDS);
    }
  }
  for (size_t size = 0; size <= 72; size++) { /* cut samples; and sizes that are no record's */
    uint64_t start = page.data_head;
    put_sample(PERF_RECORD_MISC_USER, 9, 48, 48);
    data[(start + 6) % BYTES] = (char)size;
    data[(start + 7) % BYTES] = 0;
    page.data_head = start + (size < 8 ? 8 : size);
    read_all();
    check(batch.damaged == (size < 8 || size % 8) && batch.lost == batch.damaged && !batch.newest.stack);
  }
  put_header(PERF_RECORD_SAMPLE, 0, 4096); /* longer than what was written */
  read_all();
  check(batch.damaged && batch.lost == 1 && !batch.user);
  page.data_head += 3; /* no room for a header */
  read_all();
  check(batch.damaged);
  page.data_head += BYTES + 8; /* more than the buffer holds */
  read_all();
  check(batch.damaged && batch.lost == 1);
}

int main(void) {
  test_samples_also_over_the_end();
  test_lost_and_held_back();
  test_a_thread_without_registers();
  test_sizes_that_no_kernel_writes();
  return 0;
}
