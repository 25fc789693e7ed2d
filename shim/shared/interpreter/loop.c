/* Reads the machine code of _PyEval_EvalFrameDefault and its neighbours, as the optimizing linker has left it.
 *
 * The compiler puts the blocks that it takes for cold elsewhere. Of Debian's CPython 3.14, 1 KiB of the loop is where the
 * symbol says and 82 KiB are elsewhere, without a symbol. The function jumps there, into the middle of what the unwind
 * tables have as another function. It may jump to the start of other functions too (a call at its end), but without a
 * condition.
 *
 * _PyObject_MakeTpCall, or a copy of it for the loop, may have type_call within it. Such a function compares the function
 * that it is to call with type_call, so it holds that function's address.
 *
 * A function that makes objects may store the address of another function in them, which nothing else names.
 *
 * Instructions are those of x86-64, looked for at every byte. What only looks like one leads elsewhere in nearly all cases.
 * For other processors nothing is found, except by the table alone. */
#include "shared/interpreter/loop.h"

#include <elf.h>
#include <link.h>

#include "shared/base.h"

#define HEADER_BYTES 12
#define USUAL_ENCODINGS 0x3b030301 /* version 1; the second byte does not matter here */
#define CANDIDATES 16
#define FEWEST_JUMPS 3
#define MOST_PART ((size_t)1 << 20) /* bytes of a part of the loop; the largest known has 82 KiB */
#define MOST_CODE 8192              /* bytes of a function that are searched */
#define TARGETS 512

/* An entry of the sorted table: where a function starts, and its FDE, relative to the table's header. */
struct entry {
  int32_t start, fde;
};

struct search {
  uintptr_t loop;  /* an address in the image */
  uintptr_t moved; /* of the place where it is read */
  uintptr_t code_start, code_end;
  const char *header; /* .eh_frame_hdr; null = none */
  const struct entry *entries;
  uint32_t count;
};

struct candidate {
  struct code_range range;
  int jumps;
};

/* Damaged headers are harmless to a program that never unwinds, so a table that is not in memory is ignored. */
static bool is_readable(const struct dl_phdr_info *info, uintptr_t at, size_t size) {
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    size_t offset = at - (info->dlpi_addr + segment->p_vaddr);
    if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_R)) continue;
    if (offset < segment->p_memsz && size <= segment->p_memsz - offset) return true;
  }
  return false;
}

/* Takes the code segment and the unwind table of the image with the loop. Returns 1 when it has found it. */
static int visit(struct dl_phdr_info *info, size_t size, void *data) {
  struct search *search = data;
  bool is_it = false;
  size_t room = 0;
  (void)size;
  search->header = NULL;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + segment->p_vaddr;
    if (segment->p_type == PT_GNU_EH_FRAME) search->header = (const char *)start, room = segment->p_memsz;
    if (segment->p_type != PT_LOAD || search->loop - start >= segment->p_memsz) continue;
    if ((segment->p_flags & (PF_R | PF_X)) != (PF_R | PF_X)) continue;
    search->code_start = start;
    search->code_end = start + segment->p_memsz;
    is_it = true;
  }
  if (!is_it) return 0;
  uint32_t encodings = 0;
  if (search->header && room > HEADER_BYTES && is_readable(info, (uintptr_t)search->header, room))
    memcpy(&encodings, search->header, sizeof encodings);
  if ((encodings & 0xffff07ff) != USUAL_ENCODINGS) return 1;
  memcpy(&search->count, search->header + 8, sizeof search->count);
  search->entries = (const struct entry *)(search->header + HEADER_BYTES);
  if (search->count > (room - HEADER_BYTES) / sizeof *search->entries) search->count = 0;
  return 1;
}

static uintptr_t start_of(const struct search *search, uint32_t index) {
  return (uintptr_t)search->header + (uintptr_t)(intptr_t)search->entries[index].start;
}

static bool contains(const struct code_range *range, uintptr_t address) {
  return address - range->start < range->end - range->start;
}

/* The function that contains an address of the code segment, by the table. It ends where the next one begins. A table that
 * is not sorted may give a range without the address, or one that begins outside of the segment. */
static bool function_at(const struct search *search, uintptr_t address, struct code_range *out) {
  uint32_t low = 0, high = search->count;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (start_of(search, middle) <= address) {
      low = middle;
    } else {
      high = middle;
    }
  }
  if (low >= search->count || start_of(search, low) > address) return false;
  *out = (struct code_range){start_of(search, low), low + 1 < search->count ? start_of(search, low + 1) : address + 1};
  if (out->end > search->code_end) out->end = search->code_end;
  return out->start >= search->code_start && out->end > address;
}

/* Where the four bytes at `at` lead as the distance of an instruction that ends behind them; 0 = out of the segment. */
static uintptr_t led_to(const struct search *search, const uint8_t *at) {
  int32_t distance;
  memcpy(&distance, at, sizeof distance);
  uintptr_t target = (uintptr_t)at + sizeof distance + (uintptr_t)(intptr_t)distance;
  return target >= search->code_start && target < search->code_end ? target : 0;
}

/* The code of a function that may be searched: the loop's image has been found, and the function lies in it. */
static bool begin(struct search *search, const struct interpreter_place *place, const struct code_range *loop) {
  if (!loop->start || loop->end < loop->start + 8) return false;
  search->loop = loop->start;
  search->moved = place->moved;
  return place->visit(visit, search) && search->count && loop->end <= search->code_end;
}

/* ---- the part that is elsewhere ---- */

static void count_jump(struct candidate *candidates, const struct code_range *function) {
  for (int i = 0; i < CANDIDATES; i++) {
    if (!candidates[i].jumps) candidates[i].range = *function;
    if (candidates[i].range.start != function->start) continue;
    candidates[i].jumps++;
    return;
  }
}

bool loop_part_find(const struct interpreter_place *place, struct code_range loop, struct code_range *part) {
  struct search search = {.count = 0};
  struct candidate candidates[CANDIDATES] = {{.jumps = 0}};
  struct code_range function;
  if (!ARCH_READS_X86_CODE || !begin(&search, place, &loop)) return false;
  for (uintptr_t at = loop.start; at < loop.end - 6; at++) {
    const uint8_t *code = (const uint8_t *)at;
    bool is_conditional = code[0] == 0x0f && (code[1] & 0xf0) == 0x80;
    if (!is_conditional && code[0] != 0xe9) continue;
    uintptr_t target = led_to(&search, code + 1 + is_conditional);
    if (!target || contains(&loop, target) || !function_at(&search, target, &function)) continue;
    if (contains(&function, loop.start)) continue; /* the table is not sorted */
    if (is_conditional || target > function.start) count_jump(candidates, &function);
  }
  const struct candidate *most = &candidates[0];
  for (int i = 1; i < CANDIDATES; i++) {
    if (candidates[i].jumps > most->jumps) most = &candidates[i];
  }
  *part = most->range;
  return most->jumps >= FEWEST_JUMPS && part->end - part->start <= MOST_PART;
}

/* ---- what it calls ---- */

/* True if the code holds the address of `function`, as a number or as a distance. */
static bool refers(const struct search *search, const struct code_range *code, uintptr_t function) {
  uintptr_t end = code->end - code->start > MOST_CODE ? code->start + MOST_CODE : code->end;
  for (uintptr_t at = code->start; at + sizeof(uint32_t) <= end; at++) {
    uint32_t number;
    memcpy(&number, (const void *)at, sizeof number);
    if (number + search->moved == function || led_to(search, (const uint8_t *)at) == function) return true;
  }
  return false;
}

static bool is_among(uintptr_t start, const struct code_range *found, int count) {
  for (int i = 0; i < count; i++) {
    if (found[i].start == start) return true;
  }
  return false;
}

/* The loop calls a few functions, such as _Py_Dealloc, in hundreds of places. `seen`: targets that were looked at. */
static int find_in(const struct search *search, const struct code_range *part, uintptr_t function,
                   struct code_range *out, int count, int room, uintptr_t seen[TARGETS]) {
  for (uintptr_t at = part->start; at + 5 < part->end && count < room; at++) {
    const uint8_t *code = (const uint8_t *)at;
    uintptr_t target = code[0] == 0xe8 ? led_to(search, code + 1) : 0;
    struct code_range called;
    if (!target || seen[target / 16 % TARGETS] == target) continue;
    seen[target / 16 % TARGETS] = target;
    if (!function_at(search, target, &called) || called.start != target) continue;
    if (!is_among(target, out, count) && refers(search, &called, function)) out[count++] = called;
  }
  return count;
}

int loop_find_callers(const struct interpreter_place *place, const struct code_range parts[2], uintptr_t function,
                      struct code_range *out, int room) {
  struct search search = {.count = 0};
  if (!ARCH_READS_X86_CODE || !function || !begin(&search, place, &parts[0])) return 0;
  uintptr_t seen[TARGETS] = {0};
  int count = find_in(&search, &parts[0], function, out, 0, room, seen);
  return parts[1].end <= search.code_end ? find_in(&search, &parts[1], function, out, count, room, seen) : count;
}

bool loop_refers(const struct interpreter_place *place, struct code_range code, uintptr_t function) {
  struct search search = {.count = 0};
  return ARCH_READS_X86_CODE && function && begin(&search, place, &code) && refers(&search, &code, function);
}

/* ---- what it stores ---- */

/* True if the four bytes at `at` are the distance of a call or a jump. */
static bool is_of_jump(uintptr_t at) {
  const uint8_t *code = (const uint8_t *)at;
  return code[-1] == 0xe8 || code[-1] == 0xe9 || (code[-2] == 0x0f && (code[-1] & 0xf0) == 0x80);
}

/* A number counts as well as a distance: programs that are not relocated hold addresses. */
int loop_find_stored(const struct interpreter_place *place, struct code_range code, uintptr_t *out, int room) {
  struct search search = {.count = 0};
  int count = 0;
  if (!ARCH_READS_X86_CODE || !begin(&search, place, &code) || code.end - code.start > MOST_CODE) return 0;
  for (uintptr_t at = code.start + 2; at + sizeof(uint32_t) <= code.end; at++) {
    uint32_t number;
    memcpy(&number, (const void *)at, sizeof number);
    uintptr_t named = number + search.moved;
    uintptr_t target = named >= search.code_start && named < search.code_end ? named : 0;
    if (!target && !is_of_jump(at)) target = led_to(&search, (const uint8_t *)at);
    struct code_range function;
    if (!target || contains(&code, target) || !function_at(&search, target, &function)) continue;
    bool is_known = function.start != target;
    for (int i = 0; i < count; i++) is_known |= out[i] == target;
    if (is_known) continue;
    if (count == room) return 0;
    out[count++] = target;
  }
  return count;
}

bool loop_function_at(const struct interpreter_place *place, struct code_range loop, uintptr_t start,
                      struct code_range *out) {
  struct search search = {.count = 0};
  return begin(&search, place, &loop) && function_at(&search, start, out) && out->start == start;
}
