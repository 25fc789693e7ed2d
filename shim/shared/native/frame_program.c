/* The interpreter of .eh_frame. It runs the instructions of the CIE (common to many functions) and of the FDE (of one
 * function) up to an address, and keeps only what finding the caller needs. Anything unusual makes the rule
 * unsupported; the unwinder then searches the stack instead.
 *
 * Tables are treated as hostile: reads are bounded (cursor.c), each instruction takes at least one byte of an FDE of
 * limited size, and expressions are evaluated with symbols instead of memory. */
#include "shared/native/frame_program.h"

#include "shared/native/cursor.h"
#include "shared/base.h"

#define MAX_ENTRY_BYTES 65536
#define MAX_AUGMENTATION 8
#define MAX_REMEMBERED 4 /* compilers nest one or two */
#define MAX_TERMS 8
#define NO_BASE 255

/* Encodings of pointers. */
#define ENCODED_FORMAT 0x0f
#define ENCODED_RELATION 0x70
#define ENCODED_PCREL 0x10
#define ENCODED_INDIRECT 0x80
#define ENCODED_OMIT 0xff

enum slot { SLOT_EXTRA = FOLLOW_EXTRA, SLOT_FRAME = FOLLOW_FRAME, SLOT_RETURN = FOLLOW_RETURN, SLOT_STACK, SLOTS };

/* The rules at one address. */
struct row {
  int32_t cfa_offset, cfa_after;
  int32_t offset[SLOTS];
  uint8_t base[SLOTS];
  uint8_t cfa_base;
  uint8_t cfa_index, cfa_scale;
  bool cfa_deref;
  uint8_t further[FURTHER];
};

struct program {
  struct cursor in;
  uintptr_t pc, lookup, location;
  uint64_t code_align;
  int64_t data_align;
  uint8_t encoding; /* of the addresses in the FDE */
  bool sized;       /* augmentation data begin with their size */
  bool signal;
  unsigned remembered_count;
  struct row row, initial, remembered[MAX_REMEMBERED];
};

/* ---- expressions ----
 *
 * A term is a constant, register + offset, or *(register + offset) + after. The return address register counts as a
 * constant, so the expression of PLT entries, rsp + 8 + ((rip & 15) >= 11) * 8, becomes a plain offset. OpenSSL's
 * assembly keeps the stack pointer in an array: *(rsp + 8 * r9 + 8) + 8. */

struct term {
  uint8_t base;         /* NO_BASE = a constant, in `offset` */
  uint8_t index, scale; /* a register times a factor is added; 0 = none */
  bool deref;
  uint64_t offset, after;
};
struct terms {
  unsigned count;
  struct term term[MAX_TERMS];
};

static bool push(struct terms *terms, uint8_t base, uint64_t offset) {
  if (terms->count >= MAX_TERMS) return false;
  terms->term[terms->count++] = (struct term){.base = base, .offset = offset};
  return true;
}

static bool push_register(struct terms *terms, uint8_t number, uint64_t offset, uintptr_t pc) {
  if (number == DWARF_PC) return push(terms, NO_BASE, pc + offset);
  return number < DWARF_REGISTERS && push(terms, number, offset);
}

static bool dereference(struct terms *terms) {
  struct term *top = terms->count ? &terms->term[terms->count - 1] : NULL;
  if (!top || top->base == NO_BASE || top->deref) return false;
  return top->deref = true;
}

static void add_constant(struct term *term, uint64_t value) {
  if (term->deref) {
    term->after += value;
  } else {
    term->offset += value;
  }
}

static bool constants(uint8_t operation, uint64_t a, uint64_t b, uint64_t *out) {
  switch (operation) {
  case 0x1a: return *out = a & b, true;
  case 0x1e: return *out = a * b, true;
  case 0x24: return *out = b < 64 ? a << b : 0, true;
  case 0x29: return *out = a == b, true;
  case 0x2a: return *out = (int64_t)a >= (int64_t)b, true;
  case 0x2b: return *out = (int64_t)a > (int64_t)b, true;
  case 0x2c: return *out = (int64_t)a <= (int64_t)b, true;
  case 0x2d: return *out = (int64_t)a < (int64_t)b, true;
  case 0x2e: return *out = a != b, true;
  default: return false;
  }
}

/* A register times a constant becomes an index. */
static bool multiply(struct term *a, const struct term *b) {
  if (a->base == NO_BASE || a->scale || a->deref || a->offset || !b->offset || b->offset > UINT8_MAX) return false;
  *a = (struct term){.base = NO_BASE, .index = a->base, .scale = (uint8_t)b->offset};
  return true;
}

static bool add_index(struct term *a, const struct term *b) {
  if (a->base == NO_BASE || a->scale || a->deref) return false;
  a->index = b->index;
  a->scale = b->scale;
  a->offset += b->offset;
  return true;
}

static bool is_constant(const struct term *term) { return term->base == NO_BASE && !term->scale; }

/* An operation on the two uppermost terms. */
static bool combine(struct terms *terms, uint8_t operation) {
  if (terms->count < 2) return false;
  struct term *a = &terms->term[terms->count - 2], b = terms->term[terms->count - 1];
  terms->count--;
  if (operation == 0x22 && a->base == NO_BASE) { /* plus, with the register second */
    struct term first = *a;
    *a = b;
    b = first;
  }
  if (b.base != NO_BASE) return false;
  if (operation == 0x22 && b.scale) return add_index(a, &b);
  if (b.scale) return false;
  if (operation == 0x22) return add_constant(a, b.offset), true;
  if (operation == 0x1c) return add_constant(a, -b.offset), true;
  if (operation == 0x1e && !is_constant(a)) return multiply(a, &b);
  return is_constant(a) && constants(operation, a->offset, b.offset, &a->offset);
}

static bool literal(struct cursor *in, struct terms *terms, uint8_t operation) {
  switch (operation) {
  case 0x08: return push(terms, NO_BASE, cursor_u8(in));
  case 0x09: return push(terms, NO_BASE, (uint64_t)(int8_t)cursor_u8(in));
  case 0x0a: return push(terms, NO_BASE, cursor_u16(in));
  case 0x0b: return push(terms, NO_BASE, (uint64_t)(int16_t)cursor_u16(in));
  case 0x0c: return push(terms, NO_BASE, cursor_u32(in));
  case 0x0d: return push(terms, NO_BASE, (uint64_t)(int32_t)cursor_u32(in));
  case 0x0e:
  case 0x0f: return push(terms, NO_BASE, cursor_u64(in));
  case 0x10: return push(terms, NO_BASE, cursor_uleb(in));
  case 0x11: return push(terms, NO_BASE, (uint64_t)cursor_sleb(in));
  default: return false;
  }
}

static bool evaluate(struct program *p, struct term *out) {
  struct terms terms = {.count = 0};
  uint64_t size = cursor_uleb(&p->in);
  if (p->in.failed || size > p->in.end - p->in.at) return false;
  for (uintptr_t end = p->in.at + size; p->in.at < end;) {
    uint8_t operation = cursor_u8(&p->in);
    bool done;
    if (operation >= 0x30 && operation < 0x50) {
      done = push(&terms, NO_BASE, operation - 0x30);
    } else if (operation >= 0x70 && operation < 0x90) {
      done = push_register(&terms, operation - 0x70, (uint64_t)cursor_sleb(&p->in), p->pc);
    } else if (operation == 0x06) {
      done = dereference(&terms);
    } else if (operation == 0x23 && terms.count) {
      add_constant(&terms.term[terms.count - 1], cursor_uleb(&p->in));
      done = true;
    } else {
      done = operation < 0x12 ? literal(&p->in, &terms, operation) : combine(&terms, operation);
    }
    if (!done || p->in.failed || p->in.at > end) return false;
  }
  if (terms.count != 1) return false;
  *out = terms.term[0];
  return out->base != NO_BASE;
}

/* ---- instructions ---- */

static bool fits(uint64_t value) { return (int64_t)value == (int32_t)value; }

static int slot_of(uint64_t number) {
  switch (number) {
  case DWARF_EXTRA: return SLOT_EXTRA;
  case DWARF_FRAME: return SLOT_FRAME;
  case DWARF_STACK: return SLOT_STACK;
  case DWARF_RETURN: return SLOT_RETURN;
  default: return -1;
  }
}

static uint8_t further_of(uint8_t base, uint64_t offset) {
  uint64_t words = -offset / sizeof(uint64_t);
  if (base == BASE_SAME) return FURTHER_SAME;
  return base == BASE_CFA && offset % sizeof(uint64_t) == 0 && words - 1 < FURTHER_UNKNOWN - 1 ? (uint8_t)words
                                                                                               : FURTHER_UNKNOWN;
}

static bool set_saved(struct row *row, uint64_t number, uint8_t base, uint64_t offset) {
  int slot = slot_of(number);
  if (number - DWARF_FURTHER < FURTHER) row->further[number - DWARF_FURTHER] = further_of(base, offset);
  if (slot < 0) return true;
  if (!fits(offset)) return false;
  row->base[slot] = base;
  row->offset[slot] = (int32_t)offset;
  return true;
}

static bool restore(struct program *p, uint64_t number) {
  int slot = slot_of(number);
  uint64_t further = number - DWARF_FURTHER;
  if (further < FURTHER) p->row.further[further] = p->initial.further[further];
  return slot < 0 || set_saved(&p->row, number, p->initial.base[slot], (uint64_t)(int64_t)p->initial.offset[slot]);
}

static bool set_cfa(struct row *row, uint64_t number, uint64_t offset) {
  if (number >= DWARF_PC || !fits(offset)) return false;
  row->cfa_base = (uint8_t)number;
  row->cfa_offset = (int32_t)offset;
  row->cfa_deref = false;
  row->cfa_scale = 0;
  return true;
}

/* True if the CFA is a register plus an offset, so that either can be changed alone. */
static bool plain_cfa(const struct row *row) { return !row->cfa_deref && !row->cfa_scale; }

static bool set_cfa_expression(struct program *p) {
  struct term term;
  if (!evaluate(p, &term) || !set_cfa(&p->row, term.base, term.offset) || !fits(term.after)) return false;
  p->row.cfa_deref = term.deref;
  p->row.cfa_after = (int32_t)term.after;
  p->row.cfa_index = term.index;
  p->row.cfa_scale = term.scale;
  return true;
}

/* The register was saved at the address that the expression gives. */
static bool set_saved_expression(struct program *p, uint64_t number) {
  struct term term;
  uintptr_t before = p->in.at;
  if (slot_of(number) < 0) {
    cursor_skip(&p->in, cursor_uleb(&p->in));
    return set_saved(&p->row, number, BASE_UNKNOWN, 0);
  }
  if (evaluate(p, &term) && !term.deref && !term.scale) return set_saved(&p->row, number, term.base, term.offset);
  if (p->in.failed || number == DWARF_RETURN) return false;
  p->in.at = before;
  cursor_skip(&p->in, cursor_uleb(&p->in));
  return set_saved(&p->row, number, BASE_UNKNOWN, 0);
}

static bool lose(struct program *p, uint64_t number) {
  return number != DWARF_RETURN && set_saved(&p->row, number, BASE_UNKNOWN, 0);
}

static bool remember(struct program *p) {
  if (p->remembered_count >= MAX_REMEMBERED) return false;
  p->remembered[p->remembered_count++] = p->row;
  return true;
}

static bool recall(struct program *p) {
  if (!p->remembered_count) return false;
  p->row = p->remembered[--p->remembered_count];
  return true;
}

static uint64_t factored(struct program *p, uint64_t value) { return value * (uint64_t)p->data_align; }

/* Instructions that set the CFA. */
static bool run_cfa(struct program *p, uint8_t operation) {
  struct cursor *in = &p->in;
  uint64_t number;
  switch (operation) {
  case 0x0c: number = cursor_uleb(in); return set_cfa(&p->row, number, cursor_uleb(in));
  case 0x0d: return set_cfa(&p->row, cursor_uleb(in), (uint64_t)(int64_t)p->row.cfa_offset);
  case 0x0e: return plain_cfa(&p->row) && set_cfa(&p->row, p->row.cfa_base, cursor_uleb(in));
  case 0x0f: return set_cfa_expression(p);
  case 0x12: number = cursor_uleb(in); return set_cfa(&p->row, number, factored(p, (uint64_t)cursor_sleb(in)));
  case 0x13: return plain_cfa(&p->row) && set_cfa(&p->row, p->row.cfa_base, factored(p, (uint64_t)cursor_sleb(in)));
  default: return false;
  }
}

/* Instructions that say where a register was saved. */
static bool run_saved(struct program *p, uint8_t operation) {
  struct cursor *in = &p->in;
  uint64_t number = cursor_uleb(in);
  switch (operation) {
  case 0x05: return set_saved(&p->row, number, BASE_CFA, factored(p, cursor_uleb(in)));
  case 0x06: return restore(p, number);
  case 0x07: return set_saved(&p->row, number, BASE_UNKNOWN, 0);
  case 0x08: return (ARCH_LINK_REGISTER || number != DWARF_RETURN) && set_saved(&p->row, number, BASE_SAME, 0);
  case 0x09: cursor_uleb(in); return lose(p, number); /* saved in another register */
  case 0x10: return set_saved_expression(p, number);
  case 0x11: return set_saved(&p->row, number, BASE_CFA, factored(p, (uint64_t)cursor_sleb(in)));
  case 0x14:
  case 0x15: cursor_uleb(in); return lose(p, number); /* its value, rather than its place */
  case 0x16: cursor_skip(in, cursor_uleb(in)); return lose(p, number);
  case 0x2f: return set_saved(&p->row, number, BASE_CFA, -factored(p, cursor_uleb(in)));
  default: return false;
  }
}

static bool run_one(struct program *p, uint8_t operation) {
  uint64_t low = operation & 0x3f;
  switch (operation >> 6) {
  case 1: p->location += low * p->code_align; return true;
  case 2: return set_saved(&p->row, low, BASE_CFA, factored(p, cursor_uleb(&p->in)));
  case 3: return restore(p, low);
  default: break;
  }
  switch (operation) {
  case 0x00: return true;
  case 0x02: p->location += cursor_u8(&p->in) * p->code_align; return true;
  case 0x03: p->location += cursor_u16(&p->in) * p->code_align; return true;
  case 0x04: p->location += cursor_u32(&p->in) * p->code_align; return true;
  case 0x0a: return remember(p);
  case 0x0b: return recall(p);
  case 0x0c:
  case 0x0d:
  case 0x0e:
  case 0x0f:
  case 0x12:
  case 0x13: return run_cfa(p, operation);
  case 0x2d: return ARCH_LINK_REGISTER;        /* the return address is signed from here on, or no longer */
  case 0x2e: cursor_uleb(&p->in); return true; /* size of pushed arguments */
  default: return run_saved(p, operation);
  }
}

/* Runs the instructions up to `end` that apply to the address. */
static bool run(struct program *p, bool all) {
  while (p->in.at < p->in.end) {
    if (!run_one(p, cursor_u8(&p->in)) || p->in.failed) return false;
    if (!all && p->location > p->lookup) return true; /* the location was moved; rows are set only afterwards */
  }
  return true;
}

/* ---- CIE and FDE ---- */

/* Moves the cursor to the beginning of an entry's contents, after its size. */
static bool begin_entry(struct program *p, const struct frame_tables *tables, uintptr_t at) {
  if (at < tables->low || at >= tables->high || tables->high - at < 8) return false;
  cursor_begin(&p->in, at, tables->high, tables->low, tables->high, tables->plain);
  uint32_t size = cursor_u32(&p->in);
  if (p->in.failed || size < 4 || size > MAX_ENTRY_BYTES || size > p->in.end - p->in.at) return false;
  p->in.end = p->in.at + size;
  return true;
}

/* Returns the size of an encoded pointer; 0 = not supported. */
static unsigned encoded_size(uint8_t encoding) {
  switch (encoding & ENCODED_FORMAT) {
  case 0x03:
  case 0x0b: return 4;
  case 0x00:
  case 0x04:
  case 0x0c: return 8;
  default: return 0;
  }
}

static uint64_t read_encoded(struct cursor *in, uint8_t encoding) {
  switch (encoding & ENCODED_FORMAT) {
  case 0x03: return cursor_u32(in);
  case 0x0b: return (uint64_t)(int32_t)cursor_u32(in);
  default: return cursor_u64(in);
  }
}

static bool skip_personality(struct program *p) {
  uint8_t encoding = cursor_u8(&p->in);
  if (encoding == ENCODED_OMIT) return true;
  if ((encoding & ENCODED_RELATION) == 0x50 || !encoded_size(encoding)) return false; /* aligned */
  cursor_skip(&p->in, encoded_size(encoding));
  return true;
}

static bool read_augmentation_data(struct program *p, const char *letters) {
  uint64_t size = cursor_uleb(&p->in);
  if (p->in.failed || size > p->in.end - p->in.at) return false;
  uintptr_t end = p->in.at + size;
  for (; *letters; letters++) {
    if (*letters == 'R') {
      p->encoding = cursor_u8(&p->in);
    } else if (*letters == 'L') {
      cursor_u8(&p->in);
    } else if (*letters == 'S') {
      p->signal = true;
    } else if (*letters != 'P' || !skip_personality(p)) {
      return false;
    }
  }
  if (p->in.failed || p->in.at > end) return false;
  p->in.at = end;
  return true;
}

static bool read_letters(struct cursor *in, char letters[MAX_AUGMENTATION]) {
  for (int i = 0; i < MAX_AUGMENTATION; i++) {
    if (!(letters[i] = (char)cursor_u8(in))) return !in->failed;
  }
  return false;
}

/* Reads the CIE and runs its instructions. */
static bool run_cie(struct program *p, const struct frame_tables *tables, uintptr_t at) {
  char letters[MAX_AUGMENTATION];
  if (!begin_entry(p, tables, at) || cursor_u32(&p->in) != 0) return false;
  uint8_t version = cursor_u8(&p->in);
  if ((version != 1 && version != 3) || !read_letters(&p->in, letters)) return false;
  p->code_align = cursor_uleb(&p->in);
  p->data_align = cursor_sleb(&p->in);
  uint64_t return_register = version == 1 ? cursor_u8(&p->in) : cursor_uleb(&p->in);
  p->sized = letters[0] == 'z';
  if (return_register != DWARF_RETURN || (letters[0] && !p->sized)) return false;
  if (p->sized && !read_augmentation_data(p, letters + 1)) return false;
  p->row.cfa_base = NO_BASE;
  for (int slot = 0; slot < SLOTS; slot++) p->row.base[slot] = BASE_SAME;
  p->initial = p->row; /* a damaged CIE may restore before anything was set */
  if (!run(p, true)) return false;
  p->initial = p->row;
  p->remembered_count = 0;
  return true;
}

/* Reads the addresses of the FDE, whose contents begin at `at`, and runs its instructions. */
static bool run_fde(struct program *p, struct frame_rule *out) {
  uintptr_t here = p->in.at;
  uint8_t relation = p->encoding & (ENCODED_RELATION | ENCODED_INDIRECT);
  if (!encoded_size(p->encoding) || (relation && relation != ENCODED_PCREL)) return false;
  out->start = read_encoded(&p->in, p->encoding) + (relation ? here : 0);
  uint64_t size = read_encoded(&p->in, p->encoding);
  if (p->sized) cursor_skip(&p->in, cursor_uleb(&p->in));
  if (p->in.failed || p->lookup - out->start >= size) return false;
  p->location = out->start;
  return run(p, false);
}

/* The stack pointer of the caller is the CFA. In a signal frame its place is said, too, and is the CFA's. */
static bool plain_stack_pointer(const struct program *p) {
  const struct row *row = &p->row;
  if (row->base[SLOT_STACK] == BASE_SAME) return true;
  return p->signal && row->cfa_deref && row->cfa_after == 0 && row->base[SLOT_STACK] == row->cfa_base &&
         row->offset[SLOT_STACK] == row->cfa_offset;
}

static bool make_rule(const struct program *p, struct frame_rule *out) {
  const struct row *row = &p->row;
  out->cfa_base = row->cfa_base;
  out->cfa_offset = row->cfa_offset;
  out->cfa_after = row->cfa_deref ? row->cfa_after : 0;
  out->cfa_index = row->cfa_index;
  out->cfa_scale = row->cfa_scale;
  out->flags = (uint8_t)((row->cfa_deref ? RULE_DEREF : 0) | (p->signal ? RULE_SIGNAL : 0));
  for (int i = 0; i < FOLLOWED; i++) {
    out->saved_base[i] = row->base[i];
    out->saved_offset[i] = row->offset[i];
  }
  memcpy(out->further, row->further, sizeof out->further);
  if (row->base[SLOT_RETURN] == BASE_UNKNOWN) return true;
  bool has_return = ARCH_LINK_REGISTER || row->base[SLOT_RETURN] != BASE_SAME;
  return row->cfa_base < DWARF_PC && has_return && plain_stack_pointer(p);
}

bool frame_program_run(const struct frame_tables *tables, uintptr_t fde, uintptr_t pc, uintptr_t lookup,
                       struct frame_rule *out) {
  struct program p;
  *out = (struct frame_rule){.start = 0};
  memset(&p.row, 0, sizeof p.row);
  p.pc = pc;
  p.lookup = lookup;
  p.location = 0;
  p.encoding = 0;
  p.signal = false;
  p.remembered_count = 0;
  if (!begin_entry(&p, tables, fde)) return false;
  uintptr_t field = p.in.at;
  uint32_t back = cursor_u32(&p.in);
  struct cursor contents = p.in; /* with what was copied, which saves a system call */
  if (!back || back > field - tables->low || !run_cie(&p, tables, field - back)) return false;
  p.in = contents;
  return run_fde(&p, out) && make_rule(&p, out);
}
