/* chain.c on invented frames of a free-threaded build, whose threads run copies of the bytecode of their own. */
#include "shared/base.h"
#include "shared/saferead.h"
#include "shared/stacks/chain.h"
#include "shared/stacks/dictionary.h"
#include "shared/stacks/pylayout.h"
#include "tests/check.h"

/* ---- stand-ins ---- */

static uintptr_t unreadable; /* the start of 8 bytes that cannot be read; 0 = all can */

bool safe_read(void *to, const void *from, size_t size) {
  uintptr_t start = (uintptr_t)from;
  if (start < 65536 || (unreadable && start < unreadable + 8 && start + size > unreadable)) return false;
  memcpy(to, from, size);
  return true;
}
bool safe_read_many(void *to, const uintptr_t *from, int count, size_t size, struct iovec *work) {
  for (int i = 0; i < count; i++) {
    if (!work || !safe_read((char *)to + (size_t)i * size, (const void *)from[i], size)) return false;
  }
  return true;
}
bool safe_read_all(void *to, const struct iovec *from, int count) { return check(to && from && count && false), false; }
struct code_facts dictionary_code_remembered(const struct stack_target *target, uintptr_t code) {
  return check(target && code && false), (struct code_facts){0, 0, 0};
}
struct code_facts dictionary_code(const struct stack_target *target, uintptr_t code, const char *object,
                                  const char *identity) {
  return check(object && identity && false), dictionary_code_remembered(target, code);
}
void dictionary_identity(const struct stack_target *target, const char *object, struct iovec *pieces) {
  check(target && object && pieces && false);
}
uint64_t dictionary_node_hash(uint64_t parent, uint64_t code, int32_t instruction) {
  return parent + code + (uint64_t)instruction;
}
bool dictionary_node_known(uint64_t hash) { return hash; }
bool dictionary_node_write(const struct record_node *node) { return node; }
uint64_t dictionary_labelled(const struct record_node *innermost, uint64_t label) { return innermost->hash ^ label; }

/* ---- an invented interpreter ---- */

#define UNITS 8
struct code {
  uint64_t header[4];
  const struct copies *copies;
  uint16_t bytecode[UNITS];
};
struct copies {
  int64_t count;
  const uint16_t *address[3];
};
struct frame {
  uintptr_t code;
  const uint16_t *instruction;
  int32_t copy;
  int8_t owner;
};
static const uint16_t second[UNITS], third[UNITS];
static struct code code;
static struct copies copies = {3, {code.bytecode, second, third}};
static const struct python_layout layout = {.version = 0x30e,
                                            .frame_bytes = sizeof(struct frame),
                                            .frame_code = offsetof(struct frame, code),
                                            .frame_instruction = offsetof(struct frame, instruction),
                                            .frame_owner = offsetof(struct frame, owner),
                                            .frame_copy = offsetof(struct frame, copy),
                                            .code_copies = offsetof(struct code, copies),
                                            .code_bytecode = offsetof(struct code, bytecode),
                                            .object_header = 16,
                                            .reference_mask = ~(uintptr_t)3};
static const struct stack_target target = {.layout = &layout, .thread = 1};

/* Returns the instruction that a frame is at; -2 = it is not a frame. */
static int32_t read_frame(const uint16_t *instruction, int32_t copy) {
  struct frame frame = {(uintptr_t)&code | 1, instruction, copy, 0};
  struct frame_entry entry = {.instruction = -2};
  enum chain_frame kind = chain_read(&target, (uintptr_t)&frame, (const char *)&frame, &entry);
  check(kind == CHAIN_FRAME || entry.instruction == -2);
  check(kind != CHAIN_FRAME || entry.code == (uintptr_t)&code);
  return entry.instruction;
}

/* ---- tests ---- */

static void an_instruction_is_found_in_the_copy_of_its_thread(void) {
  code.copies = &copies;
  for (int i = 0; i < UNITS; i++) {
    check(read_frame(code.bytecode + i, 0) == i);
    check(read_frame(second + i, 1) == i && read_frame(third + i, 2) == i);
  }
}

static void what_cannot_be_read_is_no_frame(void) {
  code.copies = NULL;
  check(read_frame(code.bytecode + 3, 0) == 3); /* the object's own needs no array */
  check(read_frame(second + 3, 1) == -2);
  code.copies = &copies;
  unreadable = (uintptr_t)&copies.address[1];
  check(read_frame(second + 3, 1) == -2 && read_frame(third + 3, 2) == 3);
  unreadable = (uintptr_t)&code.copies;
  check(read_frame(third + 3, 2) == -2);
  unreadable = 0;
  copies.count = 2; /* an array that was freed, and another thing since then */
  check(read_frame(third + 3, 2) == -2 && read_frame(second + 3, 1) == 3);
  copies.count = 3;
  check(read_frame(second + 3, -1) == -2 && read_frame(second + 3, INT32_MIN) == -2);
}

int main(void) {
  an_instruction_is_found_in_the_copy_of_its_thread();
  what_cannot_be_read_is_no_frame();
  return 0;
}
