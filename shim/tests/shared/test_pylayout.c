/* pylayout.c: what 3.14 says of itself is taken only as far as it keeps every read inside what was read. */
#include "shared/base.h"
#include "shared/random.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/scratch.h"
#include "tests/check.h"

#define VERSION_314 0x030e00f0
#define STATE_BYTES 320

/* Position in the table of debug offsets, and the value on 3.14.0. */
static const struct {
  int at, value;
} known[] = {{208, 72},  {256, 8},   {264, 0},   {272, 56}, {288, 74},
             {320, 112}, {336, 128}, {344, 136}, {352, 68}, {384, 208}};

static void put(char *runtime, int at, uint64_t value) { memcpy(runtime + at, &value, sizeof value); }

static void fill(char runtime[RUNTIME_BYTES]) {
  memset(runtime, 0, RUNTIME_BYTES);
  memcpy(runtime, "xdebugpy", 8);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) put(runtime, known[i].at, (uint64_t)known[i].value);
}

static void the_offsets_of_a_release_are_taken(void) {
  char runtime[RUNTIME_BYTES];
  fill(runtime);
  const struct python_layout *layout = pylayout_for(VERSION_314, runtime);
  check(layout && layout->tstate_frame == 72 && layout->frame_owner == 74 && layout->code_bytes == 208);
  put(runtime, 208, 80);
  layout = pylayout_for(VERSION_314, runtime);
  check(layout && layout->tstate_frame == 80);
}

static void an_offset_that_lies_outside_is_refused(void) {
  char runtime[RUNTIME_BYTES];
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    for (int bit = 9; bit < 64; bit++) {
      fill(runtime);
      put(runtime, known[i].at, (uint64_t)1 << bit);
      check(!pylayout_for(VERSION_314, runtime));
    }
  }
  fill(runtime);
  put(runtime, 384, 209);
  check(!pylayout_for(VERSION_314, runtime));
  put(runtime, 384, 8); /* no room for what is read before the bytecode */
  check(!pylayout_for(VERSION_314, runtime));
}

static bool inside(const struct python_layout *layout) {
  int in_frame = layout->frame_bytes - 8, in_code = layout->code_bytes - 8;
  return layout->tstate_frame <= STATE_BYTES - 8 && layout->frame_previous <= in_frame &&
         layout->frame_code <= in_frame && layout->frame_instruction <= in_frame &&
         layout->frame_owner < layout->frame_bytes && layout->code_file <= MAX_CODE_BYTES - 8 &&
         layout->code_name <= MAX_CODE_BYTES - 8 && layout->code_line_table <= MAX_CODE_BYTES - 8 &&
         layout->code_first_traceable <= in_code + 4 && layout->code_bytes <= MAX_CODE_BYTES;
}

/* Mostly small numbers, so that many are believed. */
static void whatever_is_taken_stays_inside(void) {
  char runtime[RUNTIME_BYTES];
  uint64_t random = 20261121;
  int taken = 0;
  for (int round = 0; round < 200000; round++) {
    fill(runtime);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
      uint64_t draw = random_next(&random);
      if (draw % 4 == 0) put(runtime, known[i].at, draw >> 8 & 255);
    }
    const struct python_layout *layout = pylayout_for(VERSION_314, runtime);
    if (!layout) continue;
    check(inside(layout));
    taken++;
  }
  check(taken > 1000);
}

static void other_versions_do_not_ask(void) {
  char runtime[RUNTIME_BYTES];
  memset(runtime, 255, sizeof runtime);
  check(pylayout_for(0x030c01f0, runtime) && pylayout_for(0x030d00f0, runtime));
  check(!pylayout_for(0x030900f0, runtime) && !pylayout_for(0x030f00f0, runtime));
  check(!pylayout_for(0x030e00a1, runtime) && !pylayout_for(VERSION_314, runtime));
  memcpy(runtime, "xdebugpy", 8); /* free-threaded */
  check(!pylayout_for(0x030d00f0, runtime));
}

int main(void) {
  the_offsets_of_a_release_are_taken();
  an_offset_that_lies_outside_is_refused();
  whatever_is_taken_stays_inside();
  other_versions_do_not_ask();
  return 0;
}
