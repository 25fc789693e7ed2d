/* instruction.c: the bytecode loop of an invented interpreter keeps its next instruction in a place drawn at random, and old ones
 * elsewhere; the frame is read late. */
#include "watch/native/instruction.h"

#include <stdio.h>
#include <stdlib.h>

#include "formats/spool/spool.h"
#include "shared/random.h"
#include "shared/saferead.h"
#include "shared/stacks/chain.h"
#include "shared/stacks/dictionary.h"
#include "shared/stacks/target.h"
#include "tests/check.h"
#include "watch/reading/remote.h"

#define UNITS 200
#define BEYOND 20      /* words of the sample before the loop's frame */
#define STACK 0x7f0000 /* its stack pointer */
#define SAMPLES 2000
#define LEARNED 100

static const uint8_t register_of[NEXT_REGISTERS] = {DWARF_EXTRA,       DWARF_FRAME,       DWARF_FURTHER,
                                                    DWARF_FURTHER + 1, DWARF_FURTHER + 2, DWARF_FURTHER + 3};
static uint64_t random_state = 7;
static struct {
  uint64_t before; /* the fields of the code object */
  uint16_t unit[UNITS];
} code;
static struct python_layout layout = {.code_bytecode = 8, .interp_gc = -1, .version = 0x30d};
struct stack_target target = {.layout = &layout};

uintptr_t remote_word(uintptr_t address) { return *(uintptr_t *)address; }
bool safe_read(void *to, const void *from, size_t bytes) { return memcpy(to, from, bytes), true; }
uint64_t chain_intern(const struct stack_target *of, struct scratch *scratch, bool truncated) {
  return (void)of, (void)scratch, (void)truncated, 1;
}
struct code_facts dictionary_code_remembered(const struct stack_target *of, uintptr_t address) {
  return (void)of, (void)address, (struct code_facts){.hash = 1, .units = UNITS};
}

static uint64_t draw(uint64_t below) { return random_next(&random_state) % below; }
static uintptr_t next_of(int32_t unit) { return (uintptr_t)&code.unit[unit + 1]; }

struct invented {
  struct ring_sample sample;
  uint64_t stack[BEYOND + NEXT_WORDS];
  struct unwind_registers registers;
};

static void put(struct invented *of, int place, uintptr_t word) {
  if (place >= NEXT_REGISTERS) {
    of->stack[BEYOND + place - NEXT_REGISTERS] = word;
  } else {
    of->registers.value[register_of[place]] = word;
    of->registers.known |= BIT(register_of[place]);
  }
}

/* Old instructions everywhere, the one that runs in one place and the next one in another. */
static void invent(struct invented *of, int32_t unit, int running, int next) {
  *of = (struct invented){.sample = {.stack = of->stack, .stack_words = BEYOND + NEXT_WORDS}};
  of->sample.value[DWARF_STACK] = STACK;
  for (int place = 0; place < NEXT_PLACES; place++) {
    if (draw(3)) put(of, place, draw(2) ? next_of((int32_t)draw(UNITS)) : draw(1 << 20));
  }
  put(of, running, next_of(unit - 1));
  put(of, next, next_of(unit));
}

/* Returns the unit that the frame is put to. */
static int32_t found_for(struct invented *of, struct next_places *places, int32_t read) {
  static struct scratch scratch;
  struct walked_stack walked = {.scratch = &scratch};
  struct attached_stack out = {.hash = 1};
  struct loop_of_sample loop = {STACK + BEYOND * sizeof(uint64_t), &of->registers, places};
  scratch.entry[0] = (struct frame_entry){.code = (uintptr_t)&code, .instruction = read};
  instruction_of_sample(&walked, &of->sample, &loop, &out);
  return scratch.entry[0].instruction;
}

/* In most samples, the call is over when the frame is read. */
static void test_places(int running, int next) {
  struct next_places places = {0};
  struct invented of;
  int wrong = 0;
  for (int i = 0; i < SAMPLES; i++) {
    int32_t unit = 1 + (int32_t)draw(UNITS - 2);
    invent(&of, unit, running, next);
    int32_t read = draw(3) ? (int32_t)draw(UNITS) : unit, found = found_for(&of, &places, read);
    if (i >= LEARNED) wrong += found != unit;
    if (found != unit) check(found == read || i < LEARNED);
  }
  check(wrong == 0);
  /* an unknown register, or another function's instruction: the frame stays as it was read */
  invent(&of, 50, running, next);
  put(&of, next, 77);
  check(found_for(&of, &places, 9) == 9);
}

/* The loop makes two calls in turn, the second one seldom, with the next instruction in two places; each has old ones during the
 * other call. Returns how often the frame was put to a wrong instruction, after some samples. */
static int wrong_of_calls(int next, int next_of_second, int samples) {
  static struct next_places places;
  struct invented of;
  int wrong = 0;
  places = (struct next_places){0};
  for (int i = 0; i < samples; i++) {
    bool is_second = draw(8) == 0;
    int32_t unit = 1 + (int32_t)draw(UNITS - 2);
    invent(&of, unit, is_second ? next : next_of_second, is_second ? next_of_second : next);
    of.registers.value[DWARF_PC] = is_second ? 0x4200 : 0x4242;
    of.registers.known |= BIT(DWARF_PC);
    int32_t read = draw(3) ? (int32_t)draw(UNITS) : unit, found = found_for(&of, &places, read);
    if (i >= samples / 2) wrong += found != unit;
  }
  return wrong;
}

static void test_calls(void) {
  for (int next = 0; next < NEXT_PLACES; next++)
    check(wrong_of_calls(next, (next + 1 + (int)draw(NEXT_PLACES - 1)) % NEXT_PLACES, SAMPLES) == 0);
  check(wrong_of_calls(3, 7, 300000) == 0); /* counts are halved */
}

/* More calls than there are entries: the places of all calls count. */
static void test_many_calls(void) {
  static struct next_places places;
  struct invented of;
  int wrong = 0;
  for (int i = 0; i < 20 * SAMPLES; i++) {
    int32_t unit = 1 + (int32_t)draw(UNITS - 2);
    invent(&of, unit, 5, 9);
    of.registers.value[DWARF_PC] = 0x4000 + 4 * draw(2000);
    of.registers.known |= BIT(DWARF_PC);
    int32_t found = found_for(&of, &places, draw(3) ? (int32_t)draw(UNITS) : unit);
    if (i >= 10 * SAMPLES) wrong += found != unit;
  }
  printf("wrong with many calls: %d of %d\n", wrong, 10 * SAMPLES);
  check(wrong < SAMPLES / 2);
}

/* A call whose two halves are one: the frame is put to the first. */
static void test_halves(void) {
  struct next_places places = {0};
  struct invented of;
  layout.version = 0x30b;
  code.unit[100] = 67; /* PRECALL_BUILTIN_FAST_WITH_KEYWORDS */
  code.unit[102] = 22; /* CALL_ADAPTIVE */
  for (int i = 0; i < LEARNED; i++) {
    invent(&of, 106, 3, 7);
    put(&of, 3, next_of(99)); /* PRECALL still runs */
    int32_t found = found_for(&of, &places, i % 2 ? 100 : 60);
    check(i < LEARNED / 2 || found == 100);
  }
  code.unit[100] = 166; /* PRECALL: CALL makes the call */
  invent(&of, 106, 3, 7);
  check(found_for(&of, &places, 60) == 106);
  layout.version = 0x30d;
}

int main(void) {
  for (int next = 0; next < NEXT_PLACES; next++)
    test_places((next + 1 + (int)draw(NEXT_PLACES - 1)) % NEXT_PLACES, next);
  test_calls();
  test_many_calls();
  test_halves();
  puts("ok");
  return 0;
}
