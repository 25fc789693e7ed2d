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
     .tstate_loop = -1,
     .generator_frame = 16,
     .generator_state = 108,
     .frame_depth = 80,
     .frame_values = 64,
     .frame_locals = 352,
     .type_cached_keys = 872,
     .code_mask = ~(uintptr_t)0},
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
     .tstate_loop = -1,
     .generator_frame = 80,
     .generator_state = 75,
     .frame_depth = 64,
     .frame_values = 72,
     .frame_locals = 72,
     .type_cached_keys = 872,
     .code_mask = ~(uintptr_t)0},
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
     .tstate_loop = -1,
     .generator_frame = 72,
     .generator_state = 67,
     .frame_depth = 64,
     .frame_values = 72,
     .frame_locals = 72,
     .type_cached_keys = 880,
     .code_mask = ~(uintptr_t)0},
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
     .tstate_loop = 304,
     .generator_frame = 72,
     .generator_state = 67,
     .frame_depth = 64,
     .frame_values = 72,
     .frame_locals = 72,
     .type_cached_keys = 880,
     .code_mask = ~(uintptr_t)0},
    {.version = 0x30e,
     .tstate_frame = 72,
     .tstate_cframe = -1,
     .cframe_frame = -1,
     .tstate_interp = 16,
     .tstate_next = 8,
     .tstate_thread = 152,
     .interp_threads = -1,
     .tstate_chunk = 232,
     .interp_gc = -1,
     .interp_next = -1,
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
     .code_version = -1,
     .code_line_table = 136,
     .code_bytecode = 208,
     .code_first_traceable = 192,
     .ascii_data = 40,
     .compact_data = 56,
     .runtime_interpreters = -1,
     .interp_modules = -1,
     .tstate_dict = -1,
     .tstate_loop = -1,
     .generator_frame = -1,
     .generator_state = -1,
     .frame_depth = -1,
     .frame_values = -1,
     .frame_locals = -1,
     .type_cached_keys = -1,
     .code_mask = ~(uintptr_t)3},
};

#define STATE_BYTES 320 /* bytes that are read of a thread state, at least */
#define FRAME_BYTES 80  /* frame_bytes of 3.14 */

/* Offsets in the table that 3.13 and later publish at the start of _PyRuntime. `at` is the position of a uint64 in the
 * table of 3.14, `field` the row's field that it replaces, and `largest` the largest value for which the field lies in
 * the bytes that are read of the structure. A larger value would make a walk read outside of its buffers. */
#define DEBUG_FREE_THREADED 16
static const struct {
  int at;
  size_t field;
  uint64_t largest;
} debug_314[] = {
    {208, offsetof(struct python_layout, tstate_frame), STATE_BYTES - 8},
    {256, offsetof(struct python_layout, frame_previous), FRAME_BYTES - 8},
    {264, offsetof(struct python_layout, frame_code), FRAME_BYTES - 8},
    {272, offsetof(struct python_layout, frame_instruction), FRAME_BYTES - 8},
    {288, offsetof(struct python_layout, frame_owner), FRAME_BYTES - 1},
    {320, offsetof(struct python_layout, code_file), MAX_CODE_BYTES - 8},
    {336, offsetof(struct python_layout, code_name), MAX_CODE_BYTES - 8},
    {344, offsetof(struct python_layout, code_line_table), MAX_CODE_BYTES - 8},
    {352, offsetof(struct python_layout, code_first_line), MAX_CODE_BYTES - 4},
    {384, offsetof(struct python_layout, code_bytecode), MAX_CODE_BYTES},
};
static struct python_layout published;

static bool free_threaded(const char *runtime) {
  uint64_t flag;
  memcpy(&flag, runtime + DEBUG_FREE_THREADED, sizeof flag);
  return memcmp(runtime, "xdebugpy", 8) == 0 && flag != 0;
}

/* 3.14: the offsets that the interpreter publishes replace those of our table. Null = one of them is out of range. */
static const struct python_layout *with_debug_offsets(const struct python_layout *base, const char *runtime) {
  published = *base;
  for (size_t i = 0; i < sizeof debug_314 / sizeof *debug_314; i++) {
    uint64_t value;
    memcpy(&value, runtime + debug_314[i].at, sizeof value);
    if (value > debug_314[i].largest) return NULL;
    *(int *)((char *)&published + debug_314[i].field) = (int)value;
  }
  bool has_room = published.code_bytecode >= base->code_first_traceable + (int)sizeof(int32_t);
  published.code_bytes = published.code_bytecode;
  return has_room ? &published : NULL;
}

const struct python_layout *pylayout_for(uint32_t version, const char *runtime) {
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
    if (layouts[i].version != version >> 16) continue;
    bool has_table = layouts[i].version >= 0x30d;
    if ((has_table && free_threaded(runtime)) || (version & 0xf0) != 0xf0) return NULL;
    return layouts[i].version >= 0x30e ? with_debug_offsets(&layouts[i], runtime) : &layouts[i];
  }
  return NULL;
}
