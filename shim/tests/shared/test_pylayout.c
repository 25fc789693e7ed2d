/* Tests pylayout.c: the debug offsets that 3.14 publishes are used only if every field lies inside the bytes that are
 * read. */
#include "shared/base.h"
#include "shared/random.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/scratch.h"
#include "tests/check.h"

#define VERSION_314 0x030e00f0
#define STATE_BYTES 320

/* Positions in the table of debug offsets, and their values on 3.14.0. */
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

static void offsets_of_a_release_are_used(void) {
  char runtime[RUNTIME_BYTES];
  fill(runtime);
  const struct python_layout *layout = pylayout_for(VERSION_314, runtime);
  check(layout && layout->tstate_frame == 72 && layout->frame_owner == 74 && layout->code_bytes == 208);
  put(runtime, 208, 80);
  layout = pylayout_for(VERSION_314, runtime);
  check(layout && layout->tstate_frame == 80);
}

static void an_offset_out_of_range_is_refused(void) {
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
  put(runtime, 384, 8); /* no room for the fields before the bytecode */
  check(!pylayout_for(VERSION_314, runtime));
}

static bool is_in_range(const struct python_layout *layout) {
  int in_frame = layout->frame_bytes - 8, in_code = layout->code_bytes - 8;
  return layout->tstate_frame <= STATE_BYTES - 8 && layout->frame_previous <= in_frame &&
         layout->frame_code <= in_frame && layout->frame_instruction <= in_frame &&
         layout->frame_owner < layout->frame_bytes && layout->code_file <= MAX_CODE_BYTES - 8 &&
         layout->code_name <= MAX_CODE_BYTES - 8 && layout->code_line_table <= MAX_CODE_BYTES - 8 &&
         layout->code_first_traceable <= in_code + 4 && layout->code_bytes <= MAX_CODE_BYTES;
}

/* Offsets are mostly small numbers, so that many layouts are accepted. */
static void accepted_layouts_stay_in_range(void) {
  char runtime[RUNTIME_BYTES];
  uint64_t random = 20261121;
  int accepted = 0;
  for (int round = 0; round < 200000; round++) {
    fill(runtime);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
      uint64_t draw = random_next(&random);
      if (draw % 4 == 0) put(runtime, known[i].at, draw >> 8 & 255);
    }
    const struct python_layout *layout = pylayout_for(VERSION_314, runtime);
    if (!layout) continue;
    check(is_in_range(layout));
    accepted++;
  }
  check(accepted > 1000);
}

static void other_versions_use_no_debug_offsets(void) {
  char runtime[RUNTIME_BYTES];
  memset(runtime, 255, sizeof runtime);
  check(pylayout_for(0x030c01f0, runtime) && pylayout_for(0x030d00f0, runtime));
  check(!pylayout_for(0x030900f0, runtime) && !pylayout_for(0x030f00f0, runtime));
  check(!pylayout_for(0x030e00a1, runtime) && !pylayout_for(VERSION_314, runtime));
  memcpy(runtime, "xdebugpy", 8); /* a free-threaded build */
  check(!pylayout_for(0x030d00f0, runtime));
}

int main(void) {
  offsets_of_a_release_are_used();
  an_offset_out_of_range_is_refused();
  accepted_layouts_stay_in_range();
  other_versions_use_no_debug_offsets();
  return 0;
}
