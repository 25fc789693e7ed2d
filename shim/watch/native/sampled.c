/* Unwinds sampled threads of other processes. The top of the stack is a copy from the moment of the sample; what lies beyond
 * it, and code and tables, are read from the process. */
#include "watch/native/sampled.h"

#include <stdlib.h>
#include <sys/types.h>

#include "shared/base.h"
#include "shared/evidence/access.h"
#include "shared/evidence/evidence.h"
#include "shared/evidence/unwind.h"
#include "shared/interpreter/symbols.h"
#include "shared/loss.h"
#include "shared/native/frame_step.h"
#include "shared/saferead.h"
#include "shared/stacks/scratch.h"
#include "watch/native/images.h"
#include "watch/native/interpreter.h"

#define CACHED_CODE 1024

static const struct remote_images *current; /* of the process that is read */
static struct python_symbols *in_use;       /* which python_symbols is a copy of */
static struct unwind_registers in_loop;     /* the registers of the last sample's bytecode loop */
static struct native_stack stack;
static struct scratch scratch;

/* ---- the images, as the unwinder asks for them ---- */

/* Bytes before an address, and whether they are readable. */
static struct code {
  uint64_t generation; /* of the images; 0 = the entry is free */
  uintptr_t address;
  bool is_readable;
  uint8_t byte[8];
} cache[CACHED_CODE];

static const struct code *code_before(uintptr_t address) {
  struct code *entry = &cache[(address ^ address >> 10) % CACHED_CODE];
  if (entry->generation == current->generation && entry->address == address) return entry;
  entry->generation = current->generation;
  entry->address = address;
  entry->is_readable = safe_read(entry->byte, (void *)(address - sizeof entry->byte), sizeof entry->byte);
  return entry;
}

static bool find(uintptr_t address, struct image *out) {
  const struct image *found = remote_images_find(current, address);
  if (found) *out = *found;
  return found;
}

static uint64_t generation(void) { return current->generation; }

static bool follows_call_elsewhere(uintptr_t address) {
  const struct code *code = code_before(address);
  return code->is_readable && arch_follows_call(code->byte + sizeof code->byte);
}

static bool follows_call(uintptr_t address, const struct image *image) {
  return address >= image->start + sizeof(uint64_t) && follows_call_elsewhere(address);
}

static uintptr_t called_directly(uintptr_t after, const struct image *image) {
  const struct code *code = code_before(after);
  (void)image;
  if (!code->is_readable) return 0;
  uintptr_t here = (uintptr_t)(code->byte + sizeof code->byte), target = arch_called_directly(here);
  return target ? target - here + after : 0;
}

static void use(const struct remote_images *images, struct python_symbols *symbols) {
  static struct python_symbols none;
  current = images;
  image_access = (struct image_access){find, generation, follows_call, follows_call_elsewhere, called_directly};
  if (in_use == symbols && symbols) return;
  python_symbols = symbols ? *symbols : none;
  in_use = symbols;
}

/* ---- samples ---- */

void sampled_forget(struct sampled_code *code) {
  if (in_use == code->symbols) in_use = NULL;
  free(code->symbols);
  free(code->places);
  *code = (struct sampled_code){.symbols = NULL};
}

static bool find_interpreter(struct sampled_code *code, pid_t pid, const struct image_source *source,
                             uint32_t version) {
  if (code->interpreter == source->interpreter) return code->symbols || !source->interpreter;
  sampled_forget(code);
  code->interpreter = source->interpreter;
  code->symbols = interpreter_symbols(pid, source, version);
  code->places = calloc(1, sizeof *code->places);
  if (!code->symbols || !code->symbols->eval.start) loss_add(LOSS_attached_unclassified);
  return code->symbols;
}

/* The words of the sample are at hand. */
static void begin_stack(const struct ring_sample *sample) {
  stack_window_begin(&stack.window, 0, 0);
  if (sample->value[DWARF_STACK] % sizeof *sample->stack) return;
  stack.window.start = sample->value[DWARF_STACK];
  stack.window.word = sample->stack;
  stack.window.words = sample->stack_words;
}

const struct unwind_registers *sampled_in_loop(void) { return &in_loop; }

bool sampled_evidence(struct remote_images *images, struct sampled_code *code, pid_t pid, uint32_t version,
                      const struct ring_sample *sample, uint32_t thread, struct native_evidence *out) {
  struct unwind_registers registers = {.known = BIT(DWARF_REGISTERS) - 1};
  *out = (struct native_evidence){0};
  if (!remote_images_refresh(images, pid, 0)) return false;
  if (!find_interpreter(code, pid, &images->source, version)) return false;
  use(images, code->symbols);
  memcpy(registers.value, sample->value, sizeof registers.value);
  begin_stack(sample);
  unwind_to_registers(&registers, &stack, &in_loop);
  if (stack.end != UNWIND_EVAL) in_loop.known = 0;
  evidence_of(&registers, &stack, thread, &scratch, out);
  return true;
}
