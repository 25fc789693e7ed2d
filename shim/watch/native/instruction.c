/* The instruction that a sampled thread has interrupted. The Python stack was read some microseconds after the sample, so the
 * instruction of its innermost frame may be a later one. That of the sample is among the registers of the sample, or on its
 * native stack: the bytecode loop keeps it there. */
#include "watch/native/instruction.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/saferead.h"
#include "shared/stacks/chain.h"
#include "shared/stacks/dictionary.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/target.h"
#include "watch/native/sampled.h"
#include "watch/reading/remote.h"

#define NOT_READ 255
#define SAVED_WORDS 7 /* of a function that the loop has called: its return address, and six registers */
#define LOOP_WORDS 64 /* of the bytecode loop's C frame that are searched */

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
  for (size_t i = 0; i < LOOP_WORDS && i < sample->stack_words; i++) {
    found = later(found, unit_before(code.at, code.units, sample->stack[i]));
  }
  return found;
}

/* What the loop has called has saved the register, or else the first function inwards that uses it. -2 = it has saved several such
 * words: on 3.11.7, one of them is that of the instruction that runs, and the other one is old. */
static int32_t unit_saved(struct bytecode code, const struct ring_sample *sample, const struct saved_registers *saved) {
  int32_t found = -1;
  uintptr_t start = sample->value[DWARF_STACK], end = start + sample->stack_words * sizeof *sample->stack;
  for (int i = saved->count - 1; i >= 0 && found == -1; i--) {
    uintptr_t low = saved->of[i].low, high = saved->of[i].high < end ? saved->of[i].high : end;
    for (uintptr_t at = low > start ? low : start; at < high; at += sizeof *sample->stack) {
      int32_t unit = unit_before(code.at, code.units, sample->stack[(at - start) / sizeof *sample->stack]);
      if (unit >= 0 && unit != found) found = found == -1 || unit == found + 1 ? unit : -2;
    }
  }
  return found;
}

/* Where it is not known what each function has saved: words that an earlier call has left look the same, so unless the first
 * place has it, all must agree. -2 = they do not. */
static int32_t unit_searched(struct bytecode code, const struct ring_sample *sample, size_t frame) {
  int32_t found = -1, unit;
  for (size_t i = frame; i > 0; i--) {
    if ((unit = unit_before(code.at, code.units, sample->stack[i - 1])) < 0 || unit == found) continue;
    if (i + SAVED_WORDS > frame) return unit;
    if (found >= 0) return -2;
    found = unit;
  }
  return found;
}

/* If none of the functions that the loop has called uses the register, it still has the instruction; or the loop has kept it in
 * its own frame. `frame`: where that begins among the words of the sample. -1 = it is unknown. */
static int32_t unit_of_call(struct bytecode code, const struct ring_sample *sample, size_t frame) {
  static const uint8_t kept[] = {DWARF_EXTRA, DWARF_FRAME, 12, 13, 14, 15};
  const struct saved_registers *saved = sampled_saved();
  int32_t found = saved ? unit_saved(code, sample, saved) : unit_searched(code, sample, frame), unit;
  if (saved && found != -1) return found;
  for (size_t i = 0; i < sizeof kept && found >= -1; i++) {
    if ((unit = unit_before(code.at, code.units, sample->value[kept[i]])) < 0 || unit == found) continue;
    found = found < 0 ? unit : -2;
  }
  for (size_t i = frame; i < frame + LOOP_WORDS && i < sample->stack_words && found == -1; i++)
    found = unit_before(code.at, code.units, sample->stack[i]);
  return found;
}

void instruction_of_sample(const struct walked_stack *walked, const struct ring_sample *sample, uintptr_t eval_frame,
                           struct attached_stack *out) {
  size_t frame = (eval_frame - sample->value[DWARF_STACK]) / sizeof(uintptr_t);
  if (!ARCH_READS_X86_CODE || !out->hash || !walked || !eval_frame || frame > sample->stack_words) return;
  struct frame_entry *innermost = &walked->scratch->entry[0];
  struct bytecode code = {bytecode_of(innermost), dictionary_code_remembered(&target, innermost->code).units};
  int32_t found = frame ? unit_of_call(code, sample, frame) : unit_in_loop(code, sample);
  if (found < 0) return;
  innermost->instruction = found;
  out->hash = chain_intern(&target, walked->scratch, walked->is_truncated);
  instruction_read(walked, out);
}
