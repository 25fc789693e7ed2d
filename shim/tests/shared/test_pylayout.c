/* Tests pylayout.c: the debug offsets that 3.14 publishes are used only if every field lies inside the bytes that are
 * read. */
#include "shared/base.h"
#include "shared/random.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/scratch.h"
#include "tests/check.h"
#include "tests/shared/published.h"

#define VERSION_314 PUBLISHED_VERSION
#define STATE_BYTES 320
#define DEBUG_AT 24 /* behind the cookie, the version and whether it is free-threaded */

/* The largest offset that is accepted of each that is published: a little more than that of the release. */
static const int largest[] = {808 + 1024, 7272 + 1024, 7344 + 1024, 7408 + 1024, 7688 + 1024, 7992 + 1024, 832 + 64,
                              8 + 64,     16,          72 + 64,     152 + 64,    232 + 64,    72,          64,
                              72,         80,          79,          72,          112 + 64,    128 + 64,    200,
                              68 + 64,    232,         40,          192 + 1024,  128,         128};
_Static_assert(sizeof largest / sizeof *largest == PUBLISHED, "one for each offset");

static const struct python_layout *layout_of(uint32_t version, const char *runtime) {
  static struct python_layout room;
  return pylayout_for(version, runtime, &room);
}

static void offsets_of_a_release_are_used(void) {
  char runtime[RUNTIME_BYTES];
  published_fill(runtime);
  const struct python_layout *layout = layout_of(VERSION_314, runtime);
  check(layout && layout->tstate_frame == 72 && layout->frame_owner == 74 && layout->code_bytes == 208);
  check(layout->interp_gc == 7600 && layout->tstate_loop == 864 && layout->tstate_tasks == 880);
  check(layout->interp_tasks == 10880 && layout->interp_modules == 7688 && layout->frame_locals == 80);
  published_put(runtime, 208, 80);
  published_put(runtime, 176, 832 + 16);  /* a thread state with two more words */
  published_put(runtime, 160, 7992 - 24); /* an interpreter with three less */
  layout = layout_of(VERSION_314, runtime);
  check(layout && layout->tstate_frame == 80 && layout->tstate_loop == 880 && layout->tstate_tasks == 896);
  check(layout->interp_tasks == 10880 - 24);
}

/* Its table has other positions. What it publishes alone replaces ours, too. */
static void offsets_of_3_15_are_used(void) {
  char runtime[RUNTIME_BYTES];
  published_fill_315(runtime);
  const struct python_layout *layout = layout_of(PUBLISHED_VERSION_315, runtime);
  check(layout && layout->tstate_thread == 176 && layout->tstate_loop == 1024 && layout->tstate_tasks == 1048);
  check(layout->interp_gc == 7512 && layout->interp_tasks == 10856 && layout->type_cached_keys == 888);
  check(layout->frame_owner == 74 && layout->code_bytes == 208 && layout->compact_data == 56);
  published_put(runtime, 536, 904);
  published_put(runtime, 240, 184);
  layout = layout_of(PUBLISHED_VERSION_315, runtime);
  check(layout && layout->tstate_thread == 184 && layout->type_cached_keys == 904);
  published_put(runtime, 744, 65); /* names_check would read outside of its buffer */
  check(!layout_of(PUBLISHED_VERSION_315, runtime));
}

/* A patch release may keep its counts of collections elsewhere. Those of another kind are not read. */
static void counts_of_collections_are_read_if_they_are_known(void) {
  char runtime[RUNTIME_BYTES];
  published_fill(runtime);
  check(layout_of(VERSION_314, runtime)->gc_counts == -72);
  published_put(runtime, 88, 0);
  published_put(runtime, 656, 71); /* they would lie before the interpreter */
  check(!layout_of(VERSION_314, runtime));
  published_fill_315(runtime);
  check(layout_of(PUBLISHED_VERSION_315, runtime)->gc_counts == -8);
  published_put(runtime, 784, 88);
  check(layout_of(PUBLISHED_VERSION_315, runtime)->gc_counts == -24);
  published_put(runtime, 784, 105); /* behind gc.collecting */
  check(layout_of(PUBLISHED_VERSION_315, runtime)->gc_counts == GC_COUNTS_UNKNOWN);
  published_put(runtime, 784, (uint64_t)-8);
  check(layout_of(PUBLISHED_VERSION_315, runtime)->gc_counts == GC_COUNTS_UNKNOWN);
  published_fill_315(runtime);
  published_put(runtime, 776, 1184);
  check(layout_of(PUBLISHED_VERSION_315, runtime)->gc_counts == GC_COUNTS_UNKNOWN);
}

/* The layouts of two interpreters do not overwrite each other. */
static void each_interpreter_has_its_own_layout(void) {
  struct python_layout room[2];
  char runtime[RUNTIME_BYTES];
  published_fill(runtime);
  const struct python_layout *first = pylayout_for(VERSION_314, runtime, &room[0]);
  published_put(runtime, 96, 7712);
  const struct python_layout *second = pylayout_for(VERSION_314, runtime, &room[1]);
  check(first && second && first->interp_modules == 7688 && second->interp_modules == 7712);
}

static void an_offset_out_of_range_is_refused(void) {
  char runtime[RUNTIME_BYTES];
  for (size_t i = 0; i < PUBLISHED; i++) {
    published_fill(runtime);
    published_put(runtime, published_314[i][0], (uint64_t)largest[i]);
    check(layout_of(VERSION_314, runtime));
    published_put(runtime, published_314[i][0], (uint64_t)largest[i] + 1);
    check(!layout_of(VERSION_314, runtime));
    for (int bit = 18; bit < 64; bit++) {
      published_fill(runtime);
      published_put(runtime, published_314[i][0], (uint64_t)1 << bit);
      check(!layout_of(VERSION_314, runtime));
    }
  }
  published_fill(runtime);
  published_put(runtime, 384, 8); /* no room for the fields before the bytecode */
  check(!layout_of(VERSION_314, runtime));
}

static void a_table_of_another_version_is_refused(void) {
  char runtime[RUNTIME_BYTES];
  published_fill(runtime);
  published_put(runtime, 8, 0x030f00f0);
  check(!layout_of(VERSION_314, runtime));
  published_fill(runtime);
  runtime[0] = 'y';
  check(!layout_of(VERSION_314, runtime));
}

/* The cookie and the version are right, and nothing else is. */
static void a_table_of_nonsense_is_refused(void) {
  char runtime[RUNTIME_BYTES];
  uint64_t random = 20261126;
  for (int round = 0; round < 20000; round++) {
    bool is_315 = round % 2;
    uint32_t version = is_315 ? PUBLISHED_VERSION_315 : VERSION_314;
    uint64_t mask = round % 3 ? 255 : round % 5 ? 0xffff : ~(uint64_t)0;
    if (is_315) published_fill_315(runtime);
    if (!is_315) published_fill(runtime);
    for (int at = DEBUG_AT; at < RUNTIME_BYTES; at += 8) published_put(runtime, at, random_next(&random) & mask);
    check(!layout_of(version, runtime));
    uint64_t same = round % 512;
    for (int at = DEBUG_AT; at < RUNTIME_BYTES; at += 8) published_put(runtime, at, same);
    check(!layout_of(version, runtime));
  }
}

/* A state that would lead to something else than its interpreter is refused: that is read plainly. */
static void the_interpreter_of_a_state_is_where_it_was(void) {
  char runtime[RUNTIME_BYTES];
  for (int at = 0; at < 320; at += 8) {
    published_fill(runtime);
    published_put(runtime, 200, (uint64_t)at);
    check((layout_of(VERSION_314, runtime) != NULL) == (at == 16));
    published_fill_315(runtime);
    published_put(runtime, 200, (uint64_t)at);
    check((layout_of(PUBLISHED_VERSION_315, runtime) != NULL) == (at == 16));
  }
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
    published_fill(runtime);
    for (size_t i = 0; i < PUBLISHED; i++) {
      uint64_t draw = random_next(&random);
      if (draw % 4 == 0) published_put(runtime, published_314[i][0], draw >> 8 & 255);
    }
    const struct python_layout *layout = layout_of(VERSION_314, runtime);
    if (!layout) continue;
    check(is_in_range(layout));
    accepted++;
  }
  check(accepted > 100);
}

static void other_versions_use_no_debug_offsets(void) {
  char runtime[RUNTIME_BYTES];
  memset(runtime, 255, sizeof runtime);
  check(layout_of(0x030c01f0, runtime) && layout_of(0x030d00f0, runtime));
  check(!layout_of(0x030900f0, runtime) && !layout_of(0x031000f0, runtime));
  char future[RUNTIME_BYTES];
  published_fill_315(future); /* what 3.16 publishes, if it had the offsets of 3.15 */
  published_put(future, 8, 0x031000f0);
  check(!layout_of(0x031000f0, future) && !layout_of(PUBLISHED_VERSION_315, future));
  check(!layout_of(0x030e00a1, runtime) && !layout_of(VERSION_314, runtime));
}

/* Their objects have longer headers; the offsets of one build are not taken for those of the other. */
static void free_threaded_builds_have_rows_of_their_own(void) {
  char runtime[RUNTIME_BYTES];
  memset(runtime, 255, sizeof runtime);
  check(layout_of(0x030d00f0, runtime)->object_header == 0);
  memcpy(runtime, "xdebugpy", 8);
  const struct python_layout *layout = layout_of(0x030d00f0, runtime);
  check(layout->object_header == 16 && layout->code_bytecode == 216 && !layout->frame_copy);
  check(!layout_of(0x030c00f0, runtime)->object_header); /* older ones publish nothing */
  for (int is_315 = 0; is_315 < 2; is_315++) {
    uint32_t version = is_315 ? PUBLISHED_VERSION_315 : VERSION_314;
    published_fill_free_threaded(runtime, is_315);
    layout = layout_of(version, runtime);
    check(layout && layout->object_header == 16 && layout->frame_copy == 72 && layout->code_copies == 224);
    check(layout->code_first_traceable == 208 && layout->code_bytes == 232 && layout->frame_owner == 78);
    check(layout->interp_tasks == (is_315 ? 17256 : 17304));
    for (uint64_t at = 0; at < 300; at++) {
      published_fill_free_threaded(runtime, is_315);
      published_put(runtime, is_315 ? 368 : 304, at);
      check(!layout_of(version, runtime) == (at != 72)); /* where a frame names its copy */
      published_fill_free_threaded(runtime, is_315);
      published_put(runtime, is_315 ? 456 : 392, at);
      check(!layout_of(version, runtime) == (at != 216 && at != 224)); /* and a code object has them */
    }
    published_fill_free_threaded(runtime, is_315);
    published_put(runtime, is_315 ? 736 : 640, 64); /* no str has its characters there */
    check(!layout_of(version, runtime));
    published_fill_free_threaded(runtime, is_315);
    published_put(runtime, 16, 0);
    check(!layout_of(version, runtime));
  }
}

int main(void) {
  offsets_of_a_release_are_used();
  offsets_of_3_15_are_used();
  counts_of_collections_are_read_if_they_are_known();
  each_interpreter_has_its_own_layout();
  an_offset_out_of_range_is_refused();
  a_table_of_another_version_is_refused();
  accepted_layouts_stay_in_range();
  a_table_of_nonsense_is_refused();
  the_interpreter_of_a_state_is_where_it_was();
  other_versions_use_no_debug_offsets();
  free_threaded_builds_have_rows_of_their_own();
  return 0;
}
