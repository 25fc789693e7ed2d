/* Tests chains.c: native stacks become records, each function once with its callers, and a tick gets the hash of the
 * innermost. */
#include "shared/evidence/chains.h"

#include "formats/spool/spool.h"
#include "shared/evidence/access.h"
#include "shared/spool.h"
#include "tests/check.h"

/* ---- the rest of the shim ---- */

#define MOST 512
static struct record_native record[MOST];
static int records, room = MOST;

void *spool_claim(unsigned slots) {
  check(slots == 1);
  return records < room ? &record[records] : NULL;
}
void spool_publish(void *claimed, unsigned kind, unsigned slots) {
  check(claimed == &record[records] && kind == RECORD_NATIVE && slots == 1);
  records++;
}

/* Two images: [0x1000, 0x2000) with the id 1 and the bias 0x1000, and [0x5000, 0x6000) with 5 and 0. */
static bool find_image(uintptr_t address, struct image *out) {
  uintptr_t page = address >> 12;
  *out = (struct image){.id = page, .bias = page == 1 ? 0x1000 : 0};
  return page == 1 || page == 5;
}

/* ---- tests ---- */

static const struct record_native *find(uint64_t hash) {
  for (int i = 0; i < records; i++) {
    if (record[i].hash == hash) return &record[i];
  }
  return NULL;
}

static void check_node(uint64_t hash, uint64_t image, uint64_t address, uint32_t flags) {
  const struct record_native *found = find(hash);
  check(found && found->image == image && found->address == address && found->flags == flags && found->thread == 7);
}

#define EXACT_AT(where, start) {.pc = (where), .function = (start), .flags = NATIVE_EXACT}
#define CALL_AT(where, start) {.pc = (where), .function = (start)}

static void test_whole_stack(void) {
  const struct native_frame frames[] = {EXACT_AT(0x1234, 0x1200), CALL_AT(0x5010, 0x5000), CALL_AT(0x1310, 0x1300)};
  records = 0;
  uint64_t inner = native_chain(frames, 3, false, 7);
  check(records == 3);
  check_node(inner, 1, 0x200, 0);
  uint64_t middle = find(inner)->parent, outer = find(middle)->parent;
  check_node(middle, 5, 0x5000, 0);
  check_node(outer, 1, 0x300, 0);
  check(find(outer)->parent == 0);
  check(native_chain(frames, 3, false, 7) == inner && records == 3);
  check(native_chain(frames + 1, 2, false, 7) == middle && records == 3);
}

/* Another instruction of the same function is the same stack; another caller is not. */
static void test_functions_count(void) {
  struct native_frame frames[] = {EXACT_AT(0x1400, 0x1400), CALL_AT(0x5110, 0x5100)};
  records = 0;
  uint64_t first = native_chain(frames, 2, false, 7);
  frames[0].pc = 0x1480;
  frames[1].pc = 0x5180;
  check(native_chain(frames, 2, false, 7) == first && records == 2);
  frames[1].function = 0x5200;
  check(native_chain(frames, 2, false, 7) != first && records == 4);
}

static void test_gaps(void) {
  struct native_frame frames[] = {EXACT_AT(0x1500, 0x1500), CALL_AT(0x5310, 0x5300)};
  records = 0;
  uint64_t whole = native_chain(frames, 2, false, 7);
  frames[1].flags |= NATIVE_AFTER_GAP;
  uint64_t inner = native_chain(frames, 2, true, 7);
  check(inner != whole);
  check_node(inner, 1, 0x500, NATIVE_GAP);
  check_node(find(inner)->parent, 5, 0x5300, NATIVE_GAP);
}

/* Without its start, a function is known by the call that it made; the interrupted one is not, as it would be another one at
 * each tick. A return address may lie behind its image. */
static void test_unknown_functions(void) {
  const struct native_frame frames[] = {EXACT_AT(0x1610, 0), CALL_AT(0x2000, 0), CALL_AT(0x9010, 0)};
  records = 0;
  uint64_t inner = native_chain(frames, 3, false, 7);
  check_node(inner, 1, 0, 0);
  check_node(find(inner)->parent, 1, 0xfff, 0);
  check_node(find(find(inner)->parent)->parent, 0, 0, 0);
}

/* A record that is lost makes the stack unknown, and is written with the next one. */
static void test_full_spool(void) {
  const struct native_frame frames[] = {EXACT_AT(0x1700, 0x1700), CALL_AT(0x5410, 0x5400)};
  records = 0;
  room = 1;
  check(native_chain(frames, 2, false, 7) == 0 && records == 1);
  room = MOST;
  uint64_t inner = native_chain(frames, 2, false, 7);
  check(inner && records == 2 && find(find(inner)->parent) == &record[0]);
}

static void test_nothing(void) { check(native_chain(NULL, 0, false, 7) == 0); }

int main(void) {
  image_access.find = find_image;
  test_whole_stack();
  test_functions_count();
  test_gaps();
  test_unknown_functions();
  test_full_spool();
  test_nothing();
  return 0;
}
