/* Tests frame_program.c: the instructions of unwind tables one by one, and random ones. */
#include <stdio.h>
#include <stdlib.h>

#include "shared/native/cursor.h"
#include "shared/native/frame_program.h"
#include "shared/random.h"
#include "tests/check.h"
#include "tests/native/stand_ins.h"

static uint64_t random_state = 1;

static uint64_t draw(void) { return random_next(&random_state); }

enum { ENTRIES = 160 };
static const unsigned char cie[] = {20, 0,    0,  0, 0,    0,    0, 0, 1,    'z', 'R', 0,
                                    1,  0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1,   0,   0};
#define CODE_OF(bytes) ((uintptr_t)(bytes) + sizeof cie + 8) /* where the function of the FDE starts: at its field */

/* Writes a CIE (CFA = rsp + 8) and an FDE of 4096 bytes of code, and returns where the instructions of the FDE begin. */
static unsigned char *write_entries(unsigned char *bytes) {
  uint32_t fde[] = {ENTRIES - sizeof cie - 4, sizeof cie + 4, 0, 4096};
  for (size_t k = 0; k < sizeof cie; k++) bytes[k] = cie[k];
  for (size_t k = 0; k < sizeof fde; k++) bytes[sizeof cie + k] = ((unsigned char *)fde)[k];
  bytes[sizeof cie + sizeof fde] = 0; /* no augmentation data */
  return bytes + sizeof cie + sizeof fde + 1;
}

static bool run_entries(unsigned char *bytes, uintptr_t offset, struct frame_rule *rule) {
  struct frame_tables tables = {(uintptr_t)bytes, (uintptr_t)bytes + ENTRIES, true};
  uintptr_t pc = CODE_OF(bytes) + offset;
  return frame_program_run(&tables, (uintptr_t)bytes + sizeof cie, pc, pc, rule);
}

static bool run_instructions(const char *text, size_t size, uintptr_t offset, struct frame_rule *rule) {
  unsigned char *bytes = calloc(1, ENTRIES), *at = write_entries(bytes);
  for (size_t i = 0; i < size; i++) at[i] = (unsigned char)text[i];
  bool found = run_entries(bytes, offset, rule);
  free(bytes);
  return found;
}
#define RUN(text, offset) run_instructions(text, sizeof(text) - 1, offset, &rule)

static bool cfa_is(const struct frame_rule *rule, int base, int offset) {
  return rule->cfa_base == base && rule->cfa_offset == offset && !(rule->flags & RULE_DEREF) && !rule->cfa_scale;
}

static void test_instructions(void) {
  struct frame_rule rule;
  /* push rbp; mov rbp, rsp; ...; pop rbp */
  const char prologue[] = "\x41\x0e\x10\x86\x02\x43\x0d\x06\x50\x0a\x0c\x07\x08\xc6\x41\x0b";
  check(RUN(prologue, 0) && cfa_is(&rule, DWARF_STACK, 8) && rule.saved_base[FOLLOW_FRAME] == BASE_SAME);
  check(RUN(prologue, 1) && cfa_is(&rule, DWARF_STACK, 16) && rule.saved_base[FOLLOW_FRAME] == BASE_CFA);
  check(rule.saved_offset[FOLLOW_FRAME] == -16 && rule.saved_offset[FOLLOW_RETURN] == -8);
  check(RUN(prologue, 4) && cfa_is(&rule, DWARF_FRAME, 16) && RUN(prologue, 19) && cfa_is(&rule, DWARF_FRAME, 16));
  check(RUN(prologue, 20) && cfa_is(&rule, DWARF_STACK, 8) && rule.saved_base[FOLLOW_FRAME] == BASE_SAME);
  check(RUN(prologue, 21) && cfa_is(&rule, DWARF_FRAME, 16) && rule.saved_base[FOLLOW_FRAME] == BASE_CFA);
  check(RUN(prologue, 4095) && !RUN(prologue, 4096));
  /* further registers: saved at CFA - 32, restored; lost; in another register; at another distance than whole words */
  check(RUN("\x8c\x04\x41\xcc", 0) && rule.further[0] == 4 && RUN("\x8c\x04\x41\xcc", 1) &&
        rule.further[0] == FURTHER_SAME);
  check(RUN("\x8f\x02\x07\x0c\x09\x0d\x03", 0) && rule.further[3] == 2 && rule.further[2] == FURTHER_SAME);
  check(rule.further[0] == FURTHER_UNKNOWN && rule.further[1] == FURTHER_UNKNOWN);
  check(RUN("\x05\x0e\x80\x02\x10\x0d\x02\x76\x70", 0) && rule.further[2] == FURTHER_UNKNOWN);
  check(rule.further[1] == FURTHER_UNKNOWN && rule.further[0] == FURTHER_SAME);
  /* DRAP: CFA = *(rbp - 8), and rbp was saved at rbp */
  check(RUN("\x0f\x03\x76\x78\x06\x10\x06\x02\x76\x00", 0) && (rule.flags & RULE_DEREF));
  check(rule.cfa_base == DWARF_FRAME && rule.cfa_offset == -8 && rule.cfa_after == 0);
  check(rule.saved_base[FOLLOW_FRAME] == DWARF_FRAME && rule.saved_offset[FOLLOW_FRAME] == 0);
  /* OpenSSL: CFA = *(rsp + 8 + r9 * 8) + 8 */
  check(RUN("\x0f\x0a\x77\x08\x79\x00\x38\x1e\x22\x06\x23\x08", 0) && (rule.flags & RULE_DEREF));
  check(rule.cfa_base == DWARF_STACK && rule.cfa_offset == 8 && rule.cfa_after == 8);
  check(rule.cfa_index == 9 && rule.cfa_scale == 8);
  /* an expression of constants and the address, as in the PLT */
  check(RUN("\x0f\x06\x77\x08\x34\x33\x24\x22\x86\x02", 0) && cfa_is(&rule, DWARF_STACK, 40));
  /* no caller; values, rather than places; unknown instructions; a stack pointer that is not the CFA */
  check(RUN("\x07\x10", 0) && rule.saved_base[FOLLOW_RETURN] == BASE_UNKNOWN);
  check(RUN("\x14\x06\x02", 0) && rule.saved_base[FOLLOW_FRAME] == BASE_UNKNOWN && !RUN("\x14\x10\x02", 0));
  check(!RUN("\x3f", 0) && !RUN("\x0b", 0) && !RUN("\x87\x02", 0) && !RUN("\x0c\x10\x08", 0));
  check(!RUN("\x0a\x0a\x0a\x0a\x0a", 0) && !RUN("\x0f\x02\x06\x06", 0));
  check(!RUN("\x0e\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 0) && !RUN("\x0e\xff\xff\xff\xff\x7f", 0));
}

static void test_random_instructions(void) {
  unsigned char *bytes = malloc(ENTRIES);
  /* Often the first instruction is one that sets the CFA or a place by an expression. */
  static const unsigned char first[] = {0x0f, 0x10, 0x16, 0x0c, 0x12, 0x0a, 0x40, 0x86};
  uint64_t found = 0;
  for (int i = 0; i < 200000; i++) {
    struct frame_rule rule;
    for (size_t k = 0; k < ENTRIES; k++) bytes[k] = (unsigned char)(draw() >> (draw() % 4 ? 2 : 0));
    *write_entries(bytes) = first[draw() % sizeof first];
    found += run_entries(bytes, 1, &rule);
  }
  printf("%lu random rules\n", found);
  check(found > 1000);
  free(bytes);
}

int main(void) {
  test_instructions();
  test_random_instructions();
  puts("ok");
  return 0;
}
