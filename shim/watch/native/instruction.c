/* The instruction that a sampled thread has interrupted. The Python stack was read some microseconds after the sample, so the
 * instruction of its innermost frame may be a later one. That of the sample is among the registers of the sample, or on its
 * native stack: the bytecode loop keeps it there.
 *
 * Where it keeps the next instruction while it calls a function is up to the compiler, and differs between the calls of one
 * loop: in a register that the callee saves, or in a word of its C frame; other places have the running instruction, or old
 * ones. In each sample whose call still runs when the stack is read, the right place agrees with what was read; the others
 * do so by chance. So they are counted, for each call instruction of the loop. */
#include "watch/native/instruction.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/native/frame_step.h"
#include "shared/saferead.h"
#include "shared/stacks/chain.h"
#include "shared/stacks/dictionary.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/target.h"
#include "watch/reading/remote.h"

#define NOT_READ 255
#define LONGEST 10 /* units that the next instruction may be ahead of the one that runs, caches included */
#define TRUSTED 8  /* a place that was right so often is taken */
#define PROBES 8   /* entries of the table of calls in which one may be */

/* On 3.11, a call is PRECALL, with one unit of caches, and CALL, with four. If PRECALL is specialized for a C function, it skips
 * CALL and then makes the call itself. These are its opcodes, and those of a CALL that never runs. */
#define HALVES_OF_CALL 0x30b /* the version */
#define HALVES_UNITS 7
static const uint8_t precall_of_c[] = {66, 67, 72, 73, 76, 77, 78, 79, 80, 81, 113, 121, 127, 141};
static const uint8_t skipped_call[] = {22, 171};

static bool collects(uintptr_t interpreter) {
  int offset = target.layout->object_header ? -1 : target.layout->interp_gc;
  return offset >= 0 && interpreter && (int32_t)remote_word(interpreter + (uintptr_t)offset) == 1;
}

static uintptr_t bytecode_of(const struct frame_entry *frame) {
  uintptr_t bytecode = frame->code + (uintptr_t)target.layout->code_bytecode;
  return target.layout->frame_owner < 0 ? remote_word(bytecode) + BYTES_DATA : bytecode;
}

/* The instructions before that of the frame, which is the last one. */
void instruction_read(const struct walked_stack *walked, struct attached_stack *out) {
  uint8_t code[2 * TICK_OPCODES];
  memset(out->opcodes, NOT_READ, sizeof out->opcodes);
  if (!out->hash || !walked) return;
  const struct frame_entry *frame = &walked->scratch->entry[0];
  out->flags |= collects(walked->interpreter) ? TICK_GC : 0;
  uintptr_t bytecode = bytecode_of(frame);
  int count = frame->instruction < TICK_OPCODES ? frame->instruction + 1 : TICK_OPCODES;
  if (count <= 0) return;
  uintptr_t first = bytecode + 2 * (uintptr_t)(frame->instruction - count + 1);
  if (!safe_read(code, (void *)first, 2 * (size_t)count)) return;
  for (int k = 0; k < count; k++) out->opcodes[k] = code[2 * (count - 1 - k)];
}

/* Returns the unit of the code that ends where the word points to, if it points into its bytecode; else -1. */
static int32_t unit_before(uintptr_t bytecode, int32_t units, uintptr_t word) {
  uintptr_t offset = word - bytecode;
  return offset >= 2 && offset <= 2 * (uintptr_t)units && offset % 2 == 0 ? (int32_t)(offset / 2 - 1) : -1;
}

struct bytecode {
  uintptr_t at;
  int32_t units;
};

/* The innermost of two that follow each other: beside the next instruction, the loop may keep the one that runs. */
static int32_t later(int32_t found, int32_t unit) {
  return unit >= 0 && (found < 0 || unit == found + 1) ? unit : found;
}

/* In the loop itself, the next instruction is in a register, perhaps beside the one that runs: then it is that after it. */
static int32_t unit_in_loop(struct bytecode code, const struct ring_sample *sample) {
  int32_t found = -1;
  for (int i = 0; i < DWARF_REGISTERS; i++) {
    found = later(found, unit_before(code.at, code.units, sample->value[i]));
  }
  for (size_t i = 0; i < NEXT_WORDS && i < sample->stack_words; i++) {
    found = later(found, unit_before(code.at, code.units, sample->stack[i]));
  }
  return found;
}

static int32_t unit_at(struct bytecode code, const struct ring_sample *sample, const struct loop_of_sample *loop,
                       size_t frame, int place) {
  static const uint8_t saved_by_callee[NEXT_REGISTERS] = {DWARF_EXTRA,       DWARF_FRAME,       DWARF_FURTHER,
                                                          DWARF_FURTHER + 1, DWARF_FURTHER + 2, DWARF_FURTHER + 3};
  if (place < NEXT_REGISTERS) {
    uint8_t number = saved_by_callee[place];
    bool is_known = loop->registers->known & BIT(number);
    return is_known ? unit_before(code.at, code.units, loop->registers->value[number]) : -1;
  }
  size_t word = frame + (size_t)(place - NEXT_REGISTERS);
  return word < sample->stack_words ? unit_before(code.at, code.units, sample->stack[word]) : -1;
}

/* Returns the counts of the call that the loop has made; null = it is unknown, or the table is full. */
static struct next_counts *counts_of_call(const struct loop_of_sample *loop) {
  uintptr_t after = loop->registers->value[DWARF_PC];
  if (!(loop->registers->known & BIT(DWARF_PC)) || !after) return NULL;
  for (uintptr_t probe = 0; probe < PROBES; probe++) {
    struct next_call *call = &loop->places->call[((after ^ after >> 8) + probe) % NEXT_CALLS];
    if (!call->after) call->after = after;
    if (call->after == after) return &call->counts;
  }
  return NULL;
}

static unsigned most_of(const struct next_counts *counts) {
  unsigned most = 0;
  for (int place = 0; place < NEXT_PLACES; place++)
    if (counts->right[place] > most) most = counts->right[place];
  return most;
}

/* Returns the unit that the places name which were right most often in this call; -1 = they differ, or none was often enough. While
 * none was, those of all calls count that were right in this one as often as any other. */
static int32_t unit_by_places(struct bytecode code, const struct ring_sample *sample, const struct loop_of_sample *loop,
                              size_t frame, const struct next_counts *of_call) {
  const struct next_counts *all = &loop->places->all;
  unsigned most = of_call ? most_of(of_call) : 0, most_of_all = most_of(all);
  int32_t found = -1;
  for (int place = 0; place < NEXT_PLACES; place++) {
    if (of_call && of_call->right[place] < most) continue;
    if (most < TRUSTED && (most_of_all < TRUSTED || all->right[place] < most_of_all)) continue;
    int32_t unit = unit_at(code, sample, loop, frame, place);
    if (found >= 0 && unit != found) return -1;
    found = unit;
  }
  return found;
}

/* If a count is full, all are halved. */
static void count(struct next_counts *counts, const bool *is_right) {
  unsigned most = 0;
  for (int place = 0; place < NEXT_PLACES; place++) {
    counts->right[place] = (uint16_t)(counts->right[place] + is_right[place]);
    if (counts->right[place] > most) most = counts->right[place];
  }
  for (int place = 0; place < NEXT_PLACES && most == UINT16_MAX; place++) counts->right[place] /= 2;
}

static void count_places(struct bytecode code, const struct ring_sample *sample, const struct loop_of_sample *loop,
                         size_t frame, int32_t read, struct next_counts *of_call) {
  bool is_right[NEXT_PLACES];
  for (int place = 0; place < NEXT_PLACES; place++) {
    int32_t unit = unit_at(code, sample, loop, frame, place);
    is_right[place] = read >= 0 && unit >= read && unit < read + LONGEST;
  }
  count(&loop->places->all, is_right);
  if (of_call) count(of_call, is_right);
}

static int32_t unit_of_call(struct bytecode code, const struct ring_sample *sample, const struct loop_of_sample *loop,
                            size_t frame, int32_t read) {
  if (!loop->places) return -1;
  struct next_counts *of_call = counts_of_call(loop);
  int32_t found = unit_by_places(code, sample, loop, frame, of_call);
  count_places(code, sample, loop, frame, read, of_call);
  return found;
}

/* Returns the unit of the PRECALL that has skipped the CALL whose last unit is `unit`, if it is one; else `unit`. */
static int32_t unit_that_skips(struct bytecode code, int32_t unit) {
  int32_t first = unit - HALVES_UNITS + 1;
  uint8_t byte[5]; /* the opcode of PRECALL, its argument, two of caches, the opcode of CALL */
  if (target.layout->version != HALVES_OF_CALL || first < 0) return unit;
  if (!safe_read(byte, (void *)(code.at + 2 * (uintptr_t)first), sizeof byte)) return unit;
  return memchr(precall_of_c, byte[0], sizeof precall_of_c) && memchr(skipped_call, byte[4], sizeof skipped_call)
             ? first
             : unit;
}

void instruction_of_sample(const struct walked_stack *walked, const struct ring_sample *sample,
                           const struct loop_of_sample *loop, struct attached_stack *out) {
  size_t frame = (loop->frame - sample->value[DWARF_STACK]) / sizeof(uintptr_t);
  if (!ARCH_READS_X86_CODE || !out->hash || !walked || !loop->frame || frame > sample->stack_words) return;
  struct frame_entry *innermost = &walked->scratch->entry[0];
  struct bytecode code = {bytecode_of(innermost), dictionary_code_remembered(&target, innermost->code).units};
  int32_t found = frame ? unit_of_call(code, sample, loop, frame, innermost->instruction) : unit_in_loop(code, sample);
  if (found < 0) return;
  innermost->instruction = frame ? unit_that_skips(code, found) : found;
  out->hash = chain_intern(&target, walked->scratch, walked->is_truncated);
  instruction_read(walked, out);
}
