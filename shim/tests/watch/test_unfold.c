/* unfold.c: what records of events stand for. What is in them does not matter to memory: the room is exactly what was counted,
 * so that the address sanitizer sees a byte too many. */
#include "formats/spool/spool.h"
#include "shared/random.h"
#include "tests/check.h"

#define RECORD_BYTES (EVENTS_SLOTS * SPOOL_SLOT_BYTES)
#define MOST_RECORDS 5
#define ROUNDS 4000

struct unfolded {
  void *records;
  int32_t *process;
  int64_t count;
};
struct unfolding {
  struct unfolded kinds[3]; /* alloc, free, note */
  int64_t invalid;
};
void scalene_unfold(const void *records, int64_t count, int32_t process, int is_brief, struct unfolding *into);

static _Alignas(64) char space[MOST_RECORDS][RECORD_BYTES];
static uint64_t state = 1;

static uint64_t below(uint64_t limit) { return random_next(&state) % limit; }

static void put(int record, int number, uint8_t kind, uint8_t stack, uint16_t more, uint64_t value) {
  struct spool_event event = {.after_ns = (uint32_t)number, .kind = kind, .stack = stack, .more = more, .value = value};
  ((struct spool_event *)(space[record] + SPOOL_SLOT_BYTES))[number] = event;
}

/* Returns what the first `count` records stand for; the caller frees what it holds. */
static struct unfolding unfolded(int count, int is_brief) {
  struct unfolding counted = {0}, made = {0};
  scalene_unfold(space, count, 9, is_brief, &counted);
  for (int i = 0; i < 3; i++) {
    made.kinds[i].records = malloc((size_t)counted.kinds[i].count * SPOOL_SLOT_BYTES + 1);
    made.kinds[i].process = malloc((size_t)counted.kinds[i].count * sizeof(int32_t) + 1);
  }
  scalene_unfold(space, count, 9, is_brief, &made);
  for (int i = 0; i < 3; i++) {
    check(made.kinds[i].count == counted.kinds[i].count);
    for (int64_t row = 0; row < made.kinds[i].count; row++) check(made.kinds[i].process[row] == 9);
  }
  check(made.invalid == counted.invalid);
  return made;
}

static void release(struct unfolding *made) {
  for (int i = 0; i < 3; i++) free(made->kinds[i].records), free(made->kinds[i].process);
}

static void test_a_block_and_its_end(void) {
  struct record_events *head = (struct record_events *)space[0];
  *head = (struct record_events){.head = RECORD_EVENTS | EVENTS_SLOTS << 16, .thread = 7, .t_ns = 100, .flags = 1};
  put(0, 0, EVENT_STACK, 3, 3, 0x51);
  put(0, 1, EVENT_ALLOC, 3, 100 | 7 << 10, 12);
  put(0, 2, EVENT_FREE, 4, 5 | FREE_RESIZED << 8, 12);
  struct unfolding made = unfolded(1, 0);
  const struct record_alloc *alloc = made.kinds[0].records;
  const struct record_free *freed = made.kinds[1].records;
  check(made.kinds[0].count == 1 && made.kinds[1].count == 1 && made.kinds[2].count == 0 && made.invalid == 0);
  check(alloc->stack == 0x51 && alloc->size_bytes == 100 && alloc->usable_bytes == 112 && alloc->t_ns == 101);
  check(freed->stack == 0 && freed->type == 0 && freed->flags == FREE_RESIZED && freed->t_ns == 102);
  release(&made);
}

static void test_a_large_block_at_the_beginning_has_no_size(void) {
  struct record_events *head = (struct record_events *)space[0];
  *head = (struct record_events){.head = EVENT_BYTES << 16, .thread = 7}; /* what lies before it is no event */
  __builtin_memset(head + 1, 0, RECORD_BYTES - sizeof *head);
  ((uint8_t *)head)[sizeof *head - sizeof(struct spool_event) + offsetof(struct spool_event, kind)] = EVENT_BYTES;
  put(0, 0, EVENT_ALLOC_LARGE, 0, 0, 12);
  struct unfolding made = unfolded(1, 0);
  check(made.kinds[0].count == 0 && made.invalid == 1);
  release(&made);
}

/* Bytes of any value, and bytes that are events more often. */
static void test_anything_is_unfolded_within_its_room(void) {
  for (int round = 0; round < ROUNDS; round++) {
    int records = (int)below(MOST_RECORDS + 1);
    bool wild = below(2);
    for (int i = 0; i < records; i++) {
      uint64_t *words = (uint64_t *)space[i];
      for (size_t j = 0; j < RECORD_BYTES / sizeof *words; j++) words[j] = random_next(&state);
      if (below(2)) ((struct record_events *)space[i])->head = RECORD_EVENTS | EVENTS_SLOTS << 16;
      for (int j = 0; j < 252 && !wild; j++)
        put(i, j, (uint8_t)(below(300) ? 1 + below(9) : 0), (uint8_t)below(256), (uint16_t)random_next(&state),
            below(300) ? 1 + below(1000) : 0);
    }
    struct unfolding whole = unfolded(records, 0), brief = unfolded(records, 1);
    check(whole.invalid == brief.invalid && brief.kinds[1].count == 0 && brief.kinds[2].count == 0);
    check(whole.kinds[0].count + whole.kinds[1].count + whole.kinds[2].count <= records * 252);
    check(brief.kinds[0].count <= 2 * records * 252);
    release(&whole);
    release(&brief);
  }
}

int main(void) {
  test_a_block_and_its_end();
  test_a_large_block_at_the_beginning_has_no_size();
  test_anything_is_unfolded_within_its_room();
}
