/* events.c: what is written for an allocation and a free, and when a record ends. live.c: the blocks of pools, which are
 * followed in the shadow of the heap. */
#include <sys/wait.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/accounts/live.h"
#include "inside/accounts/shadow.h"
#include "inside/events/events.h"
#include "shared/base.h"
#include "shared/spool.h"
#include "tests/check.h"

#define RECORD_BYTES (EVENTS_SLOTS * SPOOL_SLOT_BYTES)
#define MOST_RECORDS 8

static _Alignas(64) char space[MOST_RECORDS][RECORD_BYTES];
static unsigned kinds[MOST_RECORDS];
static int claimed;
static bool full;

void *spool_claim(unsigned slots) {
  check(slots == EVENTS_SLOTS);
  return full || claimed == MOST_RECORDS ? NULL : space[claimed++];
}
bool spool_has_room(void) { return !full; }
void spool_publish(void *record, unsigned kind, unsigned slots) {
  check(slots == EVENTS_SLOTS);
  kinds[((char *)record - space[0]) / RECORD_BYTES] = kind;
}

static const struct spool_event *event(int record, int number) {
  return (const struct spool_event *)(space[record] + SPOOL_SLOT_BYTES) + number;
}

static void begin(void) {
  events_postfork_child();
  for (int i = 0; i < claimed; i++) __builtin_memset(space[i], 0, RECORD_BYTES);
  claimed = 0;
  full = false;
}

static bool is(int record, int number, uint8_t kind, uint8_t stack, uint16_t more, uint64_t value) {
  const struct spool_event *e = event(record, number);
  return e->kind == kind && e->stack == stack && e->more == more && e->value == value;
}

static void test_a_pair_is_two_events_and_its_names_are_given_once(void) {
  struct event_context now = {7, 3, 1000};
  begin();
  events_set_flags(5);
  for (uint64_t id = 1; id <= 2; id++) {
    now.t_ns += 10;
    check(events_allocated(now, id, 0x51, 100, 112, ALLOC_PYMALLOC, true));
    check(events_freed(now, id, 0x52, 0x99, FREE_RESIZED));
  }
  const struct record_events *head = (const struct record_events *)space[0];
  check(claimed == 1 && kinds[0] == SPOOL_OPEN_EVENTS);
  check(head->thread == 7 && head->collections == 3 && head->t_ns == 1010 && head->flags == 5);
  check(is(0, 0, EVENT_STACK, 1, 1, 0x51) && is(0, 1, EVENT_ALLOC, 1, 100 | 7 << 10, 1));
  check(is(0, 2, EVENT_STACK, 2, 2, 0x52) && is(0, 3, EVENT_TYPE_NAME, 1, 1, 0x99));
  check(is(0, 4, EVENT_FREE, 2, 1 | FREE_RESIZED << 8, 1));
  check(is(0, 5, EVENT_ALLOC, 1, 100 | 7 << 10, 2) && event(0, 5)->after_ns == 10);
  check(is(0, 6, EVENT_FREE, 2, 1 | FREE_RESIZED << 8, 2) && event(0, 7)->kind == 0);
}

static void test_other_blocks_have_their_bytes_and_threads_in_events_of_their_own(void) {
  struct event_context now = {7, 0, 1000}, other = {8, 2, 1005};
  begin();
  check(events_allocated(now, 1, 0, 5000, 5024, ALLOC_CALLOC, false));
  check(is(0, 0, EVENT_BYTES, ALLOC_CALLOC, 24, 5000) && is(0, 1, EVENT_ALLOC_LARGE, 0, 0, 1));
  check(events_allocated(other, 2, 0, 600, 600, ALLOC_MALLOC, true));
  check(is(0, 2, EVENT_THREAD, 0, 0, 8 | (uint64_t)2 << 32));
  check(is(0, 3, EVENT_BYTES, ALLOC_MALLOC | 128, 0, 600) && is(0, 4, EVENT_ALLOC_LARGE, 0, 0, 2));
  check(events_typed(other, 2, 0x99) && is(0, 5, EVENT_TYPE_NAME, 1, 1, 0x99) && is(0, 6, EVENT_TYPED, 0, 1, 2));
  check(!events_allocated(now, 3, 0, 0, 24, ALLOC_MALLOC, false)); /* the event would look unwritten */
  check(!events_allocated(now, 3, 0, 10, 100000, ALLOC_MALLOC, false) && !events_freed(now, 0, 0, 0, 0));
}

static void test_a_record_ends_when_it_is_full_or_its_time_or_its_numbers_are_used_up(void) {
  struct event_context now = {7, 0, 1000};
  begin();
  for (uint64_t id = 1; claimed < 2; id++) check(events_allocated(now, id, 0x51, 16, 16, ALLOC_PYMALLOC, true));
  check(kinds[0] == RECORD_EVENTS && kinds[1] == SPOOL_OPEN_EVENTS);
  check(event(0, 251)->kind == 0 && event(0, 247)->kind == EVENT_ALLOC);
  check(is(1, 0, EVENT_STACK, 1, 1, 0x51)); /* the number is another record's */
  now.t_ns += (int64_t)5000000000;
  check(events_freed(now, 1, 0x51, 0, 0) && claimed == 3 && event(2, 1)->after_ns == 0);
  now.t_ns -= 1; /* the clock of another processor */
  check(events_freed(now, 2, 0x51, 0, 0) && claimed == 4);
  events_end();
  check(kinds[3] == RECORD_EVENTS);
  check(events_freed(now, 3, 0, 0, 0) && claimed == 5);
  events_postfork_child(); /* the record is the parent's */
  check(events_freed(now, 4, 0, 0, 0) && claimed == 6 && kinds[4] == SPOOL_OPEN_EVENTS);
}

static void test_without_room_nothing_is_written(void) {
  struct event_context now = {7, 0, 1000};
  begin();
  full = true;
  check(!events_allocated(now, 1, 0x51, 16, 16, ALLOC_PYMALLOC, true) && !events_freed(now, 1, 0, 0, 0));
  full = false;
  check(events_freed(now, 1, 0, 0, 0) && claimed == 1);
}

/* Blocks of 48 bytes; in the second one, nothing is followed. No memory is read there. */
static const uintptr_t pool = 0x7e0000004000, block = pool + 48, other = pool + 96;

static bool add(uint64_t id, uint64_t stack) {
  struct live_sample sample = {.id = id, .usable = 48, .stack = stack};
  return live_add_pooled(block, &sample);
}

static bool is_watched(void) { return live_note_piece((void *)block, true) == PIECE_WATCHED; }

static void test_blocks_of_pools_are_found_by_their_addresses(void) {
  struct live_sample sample, large = {.id = 9, .usable = 1024}, typed = {.id = 16, .usable = 512, .type = 0x98};
  uint64_t usable = 0;
  check(live_init(4096) && !live_pooled(block) && !live_maybe((void *)block));
  check(add(11, 0x51) && live_pooled(block) && !live_pooled(other) && !live_add_pooled(other, &large));
  check(!add(10, 0x50)); /* nobody has seen the free of the one that is there: it must be ended first */
  check(live_maybe((void *)block) && is_watched());
  check(live_find(block, 11, &usable) && usable == 48 && !live_find(block, 12, &usable));
  check(live_python_block(block, 48) == 11 && live_python_block(block, 49) == 0 && live_python_block(other, 1) == 0);
  check(live_set_type(block, 11, 0x99) && !live_set_type(block, 12, 0x98));
  check(live_find(block, 11, &usable) && usable == 48 && live_python_block(block, 48) == 11);
  check(live_take(block, &sample) && !live_take(block, &sample));
  check(sample.id == 11 && sample.usable == 48 && sample.interval == 1 && sample.type == 0x99 && sample.stack == 0x51);
  check(sample.python && sample.pooled && !live_pooled(block));
  check(add(12, 0x52) && live_take(block, &sample) && sample.type == 0 && sample.stack == 0x52);
  check(live_add_pooled(other, &typed) && live_take(other, &sample) && sample.type == 0x98 && sample.usable == 512);
  struct live_sample in_table = {.id = 13, .usable = 48, .stack = 0x53};
  check(live_add(other, &in_table) && live_take(other, &sample) && sample.id == 13 && !sample.pooled);
  check(!live_forget_pieces(pool, pool + PIECE_BYTES)); /* nothing in it is followed any more */
  check(add(14, 0x52) && is_watched());
  pid_t child = fork();
  if (!child) {
    live_postfork_child();
    check(!live_pooled(block) && !live_take(block, &sample));
    check(add(15, 0x52) && is_watched());
    _exit(0);
  }
  int status;
  check(child > 0 && waitpid(child, &status, 0) == child && !status);
  check(live_pooled(block) && live_take(block, &sample));
  check(add(18, 0x52) && !live_forget_pieces(pool, pool + PIECE_BYTES) &&
        live_pooled(block)); /* its interpreter ends */
  check(!add(19, 0x52) && live_take(block, &sample) && add(20, 0x52) && is_watched());
  live_release();
  check(!live_pooled(block) && live_init(4096) && add(17, 0x52) && live_pooled(block));
}

int main(void) {
  test_a_pair_is_two_events_and_its_names_are_given_once();
  test_other_blocks_have_their_bytes_and_threads_in_events_of_their_own();
  test_a_record_ends_when_it_is_full_or_its_time_or_its_numbers_are_used_up();
  test_without_room_nothing_is_written();
  test_blocks_of_pools_are_found_by_their_addresses();
  return 0;
}
