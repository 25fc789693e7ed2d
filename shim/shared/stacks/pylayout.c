/* The offsets of CPython's fields by version. This table is the only place that knows them; pylayout.h describes
 * them. */
#include "shared/stacks/pylayout.h"

#include "shared/base.h"
#include "shared/stacks/scratch.h"

static const struct python_layout layouts[] = {
    {.version = 0x30a,
     .tstate_frame = 24,
     .tstate_cframe = -1,
     .cframe_frame = -1,
     .tstate_interp = 16,
     .tstate_next = 8,
     .tstate_thread = 176,
     .interp_threads = 8,
     .tstate_chunk = -1,
     .interp_gc = 816,
     .gc_counts = -72,
     .interp_next = 0,
     .frame_bytes = 112,
     .frame_code = 32,
     .frame_previous = 24,
     .frame_instruction = 96,
     .frame_owner = -1,
     .code_bytes = 176,
     .code_flags = 36,
     .code_first_line = 40,
     .code_file = 104,
     .code_name = 112,
     .code_version = -1,
     .code_line_table = 120,
     .code_bytecode = 48,
     .code_first_traceable = -1,
     .ascii_data = 48,
     .compact_data = 72,
     .runtime_interpreters = 32,
     .interp_modules = 856,
     .tstate_dict = 152,
     .tstate_context = 240,
     .tstate_loop = -1,
     .generator_frame = 16,
     .generator_state = 108,
     .frame_depth = 80,
     .frame_top = -1,
     .frame_values = 64,
     .frame_locals = 352,
     .type_cached_keys = 872,
     .tstate_bytes = -1,
     .tstate_tasks = -1,
     .interp_generation = -1,
     .interp_tasks = -1,
     .reference_mask = ~(uintptr_t)0},
    {.version = 0x30b,
     .tstate_frame = -1,
     .tstate_cframe = 56,
     .cframe_frame = 8,
     .tstate_interp = 16,
     .tstate_next = 8,
     .tstate_thread = 152,
     .interp_threads = 16,
     .tstate_chunk = 296,
     .interp_gc = 848,
     .gc_counts = -72,
     .interp_next = 0,
     .frame_bytes = 72,
     .frame_code = 32,
     .frame_previous = 48,
     .frame_instruction = 56,
     .frame_owner = 69,
     .code_bytes = 184,
     .code_flags = 48,
     .code_first_line = 72,
     .code_file = 112,
     .code_name = 128,
     .code_version = -1,
     .code_line_table = 136,
     .code_bytecode = 184,
     .code_first_traceable = 168,
     .ascii_data = 48,
     .compact_data = 72,
     .runtime_interpreters = 40,
     .interp_modules = 888,
     .tstate_dict = 128,
     .tstate_context = 224,
     .tstate_loop = -1,
     .generator_frame = 80,
     .generator_state = 75,
     .frame_depth = 64,
     .frame_top = -1,
     .frame_values = 72,
     .frame_locals = 72,
     .type_cached_keys = 872,
     .tstate_bytes = -1,
     .tstate_tasks = -1,
     .interp_generation = -1,
     .interp_tasks = -1,
     .reference_mask = ~(uintptr_t)0},
    {.version = 0x30c,
     .tstate_frame = -1,
     .tstate_cframe = 56,
     .cframe_frame = 0,
     .tstate_interp = 16,
     .tstate_next = 8,
     .tstate_thread = 136,
     .interp_threads = 72,
     .tstate_chunk = 232,
     .interp_gc = 312,
     .gc_counts = -72,
     .interp_next = 0,
     .frame_bytes = 72,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 70,
     .code_bytes = 192,
     .code_flags = 48,
     .code_first_line = 68,
     .code_file = 112,
     .code_name = 128,
     .code_version = 92,
     .code_line_table = 136,
     .code_bytecode = 192,
     .code_first_traceable = 176,
     .ascii_data = 40,
     .compact_data = 56,
     .runtime_interpreters = 40,
     .interp_modules = 944,
     .tstate_dict = 112,
     .tstate_context = 208,
     .tstate_loop = -1,
     .generator_frame = 72,
     .generator_state = 67,
     .frame_depth = 64,
     .frame_top = -1,
     .frame_values = 72,
     .frame_locals = 72,
     .type_cached_keys = 880,
     .tstate_bytes = -1,
     .tstate_tasks = -1,
     .interp_generation = -1,
     .interp_tasks = -1,
     .reference_mask = ~(uintptr_t)0},
    {.version = 0x30d,
     .tstate_frame = 72,
     .tstate_cframe = -1,
     .cframe_frame = -1,
     .tstate_interp = 16,
     .tstate_next = 8,
     .tstate_thread = 152,
     .interp_threads = 7344,
     .tstate_chunk = 232,
     .interp_gc = 7600,
     .gc_counts = -72,
     .interp_next = 7264,
     .frame_bytes = 72,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 70,
     .code_bytes = 200,
     .code_flags = 48,
     .code_first_line = 68,
     .code_file = 112,
     .code_name = 128,
     .code_version = 92,
     .code_line_table = 136,
     .code_bytecode = 200,
     .code_first_traceable = 184,
     .ascii_data = 40,
     .compact_data = 56,
     .runtime_interpreters = 632,
     .interp_modules = 7656,
     .tstate_dict = 128,
     .tstate_context = 208,
     .tstate_loop = 304,
     .generator_frame = 72,
     .generator_state = 67,
     .frame_depth = 64,
     .frame_top = -1,
     .frame_values = 72,
     .frame_locals = 72,
     .type_cached_keys = 880,
     .tstate_bytes = -1,
     .tstate_tasks = -1,
     .interp_generation = -1,
     .interp_tasks = -1,
     .reference_mask = ~(uintptr_t)0},
    {.version = 0x30e,
     .tstate_frame = 72,
     .tstate_cframe = -1,
     .cframe_frame = -1,
     .tstate_interp = 16,
     .tstate_next = 8,
     .tstate_thread = 152,
     .interp_threads = 7344,
     .tstate_chunk = 232,
     .interp_gc = 7600,
     .gc_counts = -72,
     .interp_next = 7272,
     .frame_bytes = 80,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 74,
     .code_bytes = 208,
     .code_flags = 48,
     .code_first_line = 68,
     .code_file = 112,
     .code_name = 128,
     .code_version = 92,
     .code_line_table = 136,
     .code_bytecode = 208,
     .code_first_traceable = 192,
     .ascii_data = 40,
     .compact_data = 56,
     .runtime_interpreters = 808,
     .interp_modules = 7688,
     .tstate_dict = 128,
     .tstate_context = 208,
     .tstate_loop = 864,
     .generator_frame = 72,
     .generator_state = 67,
     .frame_depth = -1,
     .frame_top = 64,
     .frame_values = 80,
     .frame_locals = 80,
     .type_cached_keys = 880,
     .tstate_bytes = 832,
     .tstate_tasks = 880,
     .interp_generation = 7992,
     .interp_tasks = 10880,
     .reference_mask = ~(uintptr_t)3},
    {.version = 0x30f,
     .tstate_frame = 72,
     .tstate_cframe = -1,
     .cframe_frame = -1,
     .tstate_interp = 16,
     .tstate_next = 8,
     .tstate_thread = 176,
     .interp_threads = 7336,
     .tstate_chunk = 256,
     .interp_gc = 7512,
     .gc_counts = -8,
     .interp_next = 7264,
     .frame_bytes = 80,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 74,
     .code_bytes = 208,
     .code_flags = 48,
     .code_first_line = 68,
     .code_file = 112,
     .code_name = 128,
     .code_version = 92,
     .code_line_table = 136,
     .code_bytecode = 208,
     .code_first_traceable = 192,
     .ascii_data = 40,
     .compact_data = 56,
     .runtime_interpreters = 936,
     .interp_modules = 7592,
     .tstate_dict = 152,
     .tstate_context = 232,
     .tstate_loop = 1024,
     .generator_frame = 72,
     .generator_state = 67,
     .frame_depth = -1,
     .frame_top = 64,
     .frame_values = 80,
     .frame_locals = 80,
     .type_cached_keys = 888,
     .tstate_bytes = 888,
     .tstate_tasks = 1048,
     .interp_generation = 7944,
     .interp_tasks = 10856,
     .reference_mask = ~(uintptr_t)3},
    {.version = 0x30d,
     .tstate_frame = 72,
     .tstate_cframe = -1,
     .cframe_frame = -1,
     .tstate_interp = 16,
     .tstate_next = 8,
     .tstate_thread = 152,
     .interp_threads = 7344,
     .tstate_chunk = 232,
     .interp_gc = 7600,
     .gc_counts = -72,
     .interp_next = 7264,
     .frame_bytes = 72,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 70,
     .code_bytes = 216,
     .code_flags = 64,
     .code_first_line = 84,
     .code_file = 128,
     .code_name = 144,
     .code_version = 108,
     .code_line_table = 152,
     .code_bytecode = 216,
     .code_first_traceable = 200,
     .ascii_data = 56,
     .compact_data = 72,
     .runtime_interpreters = 632,
     .interp_modules = 7664,
     .tstate_dict = 128,
     .tstate_context = 208,
     .tstate_loop = 304,
     .generator_frame = 88,
     .generator_state = 83,
     .frame_depth = 64,
     .frame_top = -1,
     .frame_values = 72,
     .frame_locals = 72,
     .type_cached_keys = 896,
     .tstate_bytes = -1,
     .tstate_tasks = -1,
     .interp_generation = -1,
     .interp_tasks = -1,
     .reference_mask = ~(uintptr_t)0,
     .object_header = 16},
    {.version = 0x30e,
     .tstate_frame = 72,
     .tstate_cframe = -1,
     .cframe_frame = -1,
     .tstate_interp = 16,
     .tstate_next = 8,
     .tstate_thread = 152,
     .interp_threads = 7344,
     .tstate_chunk = 232,
     .interp_gc = 7600,
     .gc_counts = -72,
     .interp_next = 7272,
     .frame_bytes = 80,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 78,
     .code_bytes = 232,
     .code_flags = 64,
     .code_first_line = 84,
     .code_file = 128,
     .code_name = 144,
     .code_version = 108,
     .code_line_table = 152,
     .code_bytecode = 232,
     .code_first_traceable = 208,
     .ascii_data = 56,
     .compact_data = 72,
     .runtime_interpreters = 808,
     .interp_modules = 7712,
     .tstate_dict = 128,
     .tstate_context = 208,
     .tstate_loop = 864,
     .generator_frame = 88,
     .generator_state = 83,
     .frame_depth = -1,
     .frame_top = 64,
     .frame_values = 80,
     .frame_locals = 80,
     .type_cached_keys = 896,
     .tstate_bytes = 832,
     .tstate_tasks = 880,
     .interp_generation = 8024,
     .interp_tasks = 17304,
     .reference_mask = ~(uintptr_t)3,
     .object_header = 16,
     .str_shift = 6,
     .frame_copy = 72,
     .code_copies = 224},
    {.version = 0x30f,
     .tstate_frame = 72,
     .tstate_cframe = -1,
     .cframe_frame = -1,
     .tstate_interp = 16,
     .tstate_next = 8,
     .tstate_thread = 176,
     .interp_threads = 7336,
     .tstate_chunk = 256,
     .interp_gc = 7512,
     .gc_counts = -8,
     .interp_next = 7264,
     .frame_bytes = 80,
     .frame_code = 0,
     .frame_previous = 8,
     .frame_instruction = 56,
     .frame_owner = 78,
     .code_bytes = 232,
     .code_flags = 64,
     .code_first_line = 84,
     .code_file = 128,
     .code_name = 144,
     .code_version = 108,
     .code_line_table = 152,
     .code_bytecode = 232,
     .code_first_traceable = 208,
     .ascii_data = 56,
     .compact_data = 72,
     .runtime_interpreters = 936,
     .interp_modules = 7592,
     .tstate_dict = 152,
     .tstate_context = 232,
     .tstate_loop = 1024,
     .generator_frame = 88,
     .generator_state = 83,
     .frame_depth = -1,
     .frame_top = 64,
     .frame_values = 80,
     .frame_locals = 80,
     .type_cached_keys = 904,
     .tstate_bytes = 888,
     .tstate_tasks = 1048,
     .interp_generation = 7952,
     .interp_tasks = 17256,
     .reference_mask = ~(uintptr_t)3,
     .object_header = 16,
     .str_shift = 6,
     .frame_copy = 72,
     .code_copies = 224},
};

#define STATE_BYTES 320 /* bytes that are read of a thread state, at least */
#define FRAME_BYTES 80  /* frame_bytes from 3.14 on */
#define OBJECT_BYTES 128
#define MOST_BYTES (1 << 24) /* of the runtime, of an interpreter */

/* Offsets in the table that 3.13 and later publish at the start of _PyRuntime. `at_314` and `at_315` are the positions of
 * a uint64 in the tables of these versions (0 = it is not there), `field` the row's field that it replaces, and `largest`
 * the largest value for which the field lies in the bytes that are read of the structure. A larger value would make a
 * walk read outside of its buffers. */
#define DEBUG_VERSION 8
#define DEBUG_FREE_THREADED 16
#define DEBUG_RUNTIME_BYTES 24
#define DEBUG_INTERPRETER_BYTES 48
#define FIELD(name) offsetof(struct python_layout, name)
static const struct debug_offset {
  int at_314, at_315;
  size_t field;
  uint64_t largest;
} debug_offsets[] = {
    {40, 40, FIELD(runtime_interpreters), MOST_BYTES},
    {64, 64, FIELD(interp_next), MOST_BYTES},
    {72, 72, FIELD(interp_threads), MOST_BYTES},
    {88, 88, FIELD(interp_gc), MOST_BYTES},
    {96, 96, FIELD(interp_modules), MOST_BYTES},
    {160, 160, FIELD(interp_generation), MOST_BYTES},
    {176, 176, FIELD(tstate_bytes), 4096},
    {192, 192, FIELD(tstate_next), STATE_BYTES - 8},
    {200, 200, FIELD(tstate_interp), STATE_BYTES - 8},
    {208, 208, FIELD(tstate_frame), STATE_BYTES - 8},
    {216, 240, FIELD(tstate_thread), STATE_BYTES - 8},
    {232, 256, FIELD(tstate_chunk), STATE_BYTES - 8},
    {256, 320, FIELD(frame_previous), FRAME_BYTES - 8},
    {264, 328, FIELD(frame_code), FRAME_BYTES - 8},
    {272, 336, FIELD(frame_instruction), FRAME_BYTES - 8},
    {280, 344, FIELD(frame_values), FRAME_BYTES},
    {280, 344, FIELD(frame_locals), FRAME_BYTES},
    {288, 352, FIELD(frame_owner), FRAME_BYTES - 1},
    {296, 360, FIELD(frame_top), FRAME_BYTES - 8},
    {320, 384, FIELD(code_file), MAX_CODE_BYTES - 8},
    {336, 400, FIELD(code_name), MAX_CODE_BYTES - 8},
    {344, 408, FIELD(code_line_table), MAX_CODE_BYTES - 8},
    {352, 416, FIELD(code_first_line), MAX_CODE_BYTES - 4},
    {384, 448, FIELD(code_bytecode), MAX_CODE_BYTES},
    {640, 736, FIELD(ascii_data), STR_STATE + 8}, /* and the header of objects */
    {680, 808, FIELD(generator_frame), OBJECT_BYTES},
    {688, 816, FIELD(generator_state), OBJECT_BYTES},
    {0, 536, FIELD(type_cached_keys), MOST_BYTES},
    {0, 744, FIELD(compact_data), 64}, /* and the header of objects */
};
/* The same for free-threaded builds alone. */
static const struct debug_offset offsets_of_copies[] = {
    {304, 368, FIELD(frame_copy), FRAME_BYTES - 4},
    {392, 456, FIELD(code_copies), MAX_CODE_BYTES - 8},
};
#define COLLECTING_314 656 /* of gc.collecting within gc */
#define COLLECTING_315 760
#define RINGS_BYTES_315 776 /* the size of what the pointer leads to */
#define RINGS_315 784       /* the pointer within gc */

static uint64_t published(const char *runtime, int at) {
  uint64_t value;
  memcpy(&value, runtime + at, sizeof value);
  return value;
}

static bool has_table(const char *runtime) { return memcmp(runtime, "xdebugpy", 8) == 0; }

static bool free_threaded(const char *runtime) {
  return has_table(runtime) && published(runtime, DEBUG_FREE_THREADED) != 0;
}

static bool lie_in(const int *offsets, int count, uint64_t bytes) {
  bool inside = bytes <= MOST_BYTES;
  for (int i = 0; i < count; i++) inside = inside && (uint64_t)offsets[i] + 16 <= bytes;
  return inside;
}

/* Patch releases move fields of interpreters and of the runtime by some words. A table that says something else of a release
 * is damaged, or is not of CPython. A state leads to its interpreter, whose fields are read plainly. */
#define NEAR_SMALL 64
#define NEAR_LARGE 1024
static bool are_near(const struct python_layout *base, const struct python_layout *out,
                     const struct debug_offset *offsets, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int slack = offsets[i].largest < MOST_BYTES ? NEAR_SMALL : NEAR_LARGE;
    int ours = *(const int *)((const char *)base + offsets[i].field),
        theirs = *(const int *)((const char *)out + offsets[i].field);
    if (theirs < ours - slack || theirs > ours + slack) return false;
  }
  return true;
}

/* What names the copies of bytecode has not moved in any release. */
static bool is_near(const struct python_layout *base, const struct python_layout *out) {
  return out->tstate_interp == base->tstate_interp &&
         are_near(base, out, debug_offsets, sizeof debug_offsets / sizeof *debug_offsets) &&
         out->frame_copy == base->frame_copy &&
         (!base->code_copies || (out->code_copies % 8 == 0 && out->code_copies > base->code_first_traceable &&
                                 out->code_copies < out->code_bytecode));
}

/* True if the fields that lie in the runtime and in an interpreter do so, and those that follow others have room. */
static bool is_plausible(const struct python_layout *base, const struct python_layout *out, const char *runtime) {
  const int of_interpreter[] = {out->interp_next,    out->interp_threads,    out->interp_gc,
                                out->interp_modules, out->interp_generation, out->interp_tasks};
  return is_near(base, out) && lie_in(&out->runtime_interpreters, 1, published(runtime, DEBUG_RUNTIME_BYTES)) &&
         lie_in(of_interpreter, sizeof of_interpreter / sizeof *of_interpreter,
                published(runtime, DEBUG_INTERPRETER_BYTES)) &&
         out->interp_gc + out->gc_counts >= 0 &&
         out->code_bytecode >= base->code_first_traceable + (int)sizeof(int32_t);
}

/* Counts that are kept in another way than that of 3.15.2 are not read. */
static int counts_of_3_15(const char *runtime, uint64_t collecting) {
  uint64_t rings = published(runtime, RINGS_315);
  bool is_known =
      published(runtime, RINGS_BYTES_315) == GC_RINGS_BYTES && rings < collecting && rings + 8 <= collecting;
  return is_known ? (int)rings - (int)collecting : GC_COUNTS_UNKNOWN;
}

static uint64_t largest_of(const struct python_layout *base, const struct debug_offset *each) {
  bool of_str = each->field == FIELD(ascii_data) || each->field == FIELD(compact_data);
  return each->largest + (of_str ? (uint64_t)base->object_header : 0);
}

static bool replace(struct python_layout *out, const struct python_layout *base, const char *runtime,
                    const struct debug_offset *offsets, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int at = base->version == 0x30e ? offsets[i].at_314 : offsets[i].at_315;
    uint64_t value = at ? published(runtime, at) : 0;
    if (value > largest_of(base, &offsets[i])) return false;
    if (at) *(int *)((char *)out + offsets[i].field) = (int)value;
  }
  return true;
}

/* From 3.14 on the offsets that the interpreter publishes replace those of our table. False = there are none of this
 * version, or one is out of range. Fields behind the last published one keep their distance from it. */
static bool replace_offsets(struct python_layout *out, const struct python_layout *base, uint32_t version,
                            const char *runtime) {
  *out = *base;
  if (!has_table(runtime) || published(runtime, DEBUG_VERSION) >> 16 != version >> 16) return false;
  bool is_314 = base->version == 0x30e;
  if (!replace(out, base, runtime, debug_offsets, sizeof debug_offsets / sizeof *debug_offsets)) return false;
  size_t copies = base->object_header ? sizeof offsets_of_copies / sizeof *offsets_of_copies : 0;
  if (!replace(out, base, runtime, offsets_of_copies, copies)) return false;
  uint64_t collecting = published(runtime, is_314 ? COLLECTING_314 : COLLECTING_315);
  if (collecting > MOST_BYTES) return false;
  out->interp_gc += (int)collecting;
  if (!is_314) out->gc_counts = counts_of_3_15(runtime, collecting);
  out->tstate_loop += out->tstate_bytes - base->tstate_bytes;
  out->tstate_tasks += out->tstate_bytes - base->tstate_bytes;
  out->interp_tasks += out->interp_generation - base->interp_generation;
  out->code_bytes = out->code_bytecode;
  return is_plausible(base, out, runtime);
}

const struct python_layout *pylayout_for(uint32_t version, const char *runtime, struct python_layout *room) {
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    if (layouts[i].version != version >> 16 || (version & 0xf0) != 0xf0) continue;
    if (layouts[i].version >= 0x30d && free_threaded(runtime) != (layouts[i].object_header != 0)) continue;
    if (layouts[i].version < 0x30e) return &layouts[i];
    return replace_offsets(room, &layouts[i], version, runtime) ? room : NULL;
  }
  return NULL;
}
