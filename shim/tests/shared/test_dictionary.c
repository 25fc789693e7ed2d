/* Tests dictionary.c: with code objects that can be read, and with ones whose memory disappears while they are
 * written. */
#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/stacks/dictionary.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/scratch.h"
#include "shared/stacks/target.h"
#include "tests/check.h"

/* ---- stand-ins for the spool and the safe reads ---- */

static struct python_layout layout;

/* Sets the layout for objects whose headers are longer by so many bytes, and whose flags of str lie further up. */
static void set_layout(int header, int shift) {
  layout = (struct python_layout){.version = 0x30b,
                                  .code_bytes = 128 + header,
                                  .code_flags = 32 + header,
                                  .code_first_line = 36 + header,
                                  .code_file = 40 + header,
                                  .code_name = 48 + header,
                                  .code_version = 56 + header,
                                  .code_line_table = 64 + header,
                                  .code_bytecode = 128 + header,
                                  .code_first_traceable = 72 + header,
                                  .ascii_data = 48 + header,
                                  .compact_data = 72 + header,
                                  .object_header = header,
                                  .str_shift = shift};
}

static const char code_type;
static const struct stack_target target = {
    .layout = &layout, .code_type = (uintptr_t)&code_type, .version = 0x030b07f0, .thread = 1};
static struct record_code records[16];
static unsigned claims, publications;
static int reads_left = 1 << 20;

void loss_add(enum loss loss) { (void)loss; }

void *spool_claim(unsigned slots) {
  check(slots <= sizeof records / SPOOL_SLOT_BYTES);
  memset(records, 0, sizeof records);
  claims++;
  return records;
}

void spool_publish(void *record, unsigned kind, unsigned slots) {
  publications++;
  ((struct record_code *)record)->head = kind | slots << 16;
}

bool safe_read(void *to, const void *from, size_t size) {
  if (reads_left-- <= 0) return false;
  memcpy(to, from, size);
  return true;
}

/* ---- code objects ---- */

#define BYTECODE_UNITS 16
struct object {
  char bytes[192];
};
static struct object file, name, line_table;

/* Fields that every object of a kind has, behind the header. */
static void put_fixed(struct object *object, int at, uint64_t value) {
  memcpy(object->bytes + layout.object_header + at, &value, sizeof value);
}

static void put_pointer(struct object *object, int at, const void *value) {
  memcpy(object->bytes + at, (const void *)&value, sizeof value);
}

static void make_text(struct object *text, const char *characters) {
  put_fixed(text, STR_LENGTH, strlen(characters));
  put_fixed(text, STR_STATE, (uint64_t)(1 << 2 | 1 << 5 | 1 << 6) << layout.str_shift | 1);
  memcpy(text->bytes + layout.ascii_data, characters, strlen(characters));
}

static void make_code(struct object *code, int32_t first_line, uint32_t version) {
  make_text(&file, "app.py");
  make_text(&name, "work");
  put_fixed(&line_table, BYTES_SIZE, 8);
  put_fixed(code, OBJECT_TYPE, (uintptr_t)&code_type);
  put_fixed(code, VAR_SIZE, BYTECODE_UNITS);
  memcpy(code->bytes + layout.code_first_line, &first_line, sizeof first_line);
  memcpy(code->bytes + layout.code_version, &version, sizeof version);
  put_pointer(code, layout.code_file, &file);
  put_pointer(code, layout.code_name, &name);
  put_pointer(code, layout.code_line_table, &line_table);
}

static uint64_t hash_of(struct object *code) {
  struct iovec piece[IDENTITY_PIECES];
  char identity[IDENTITY_BYTES], *to = identity;
  dictionary_identity(&target, (const char *)code, piece);
  for (int i = 0; i < IDENTITY_PIECES; to += piece[i++].iov_len) memcpy(to, piece[i].iov_base, piece[i].iov_len);
  check(to == identity + sizeof identity);
  return dictionary_code(&target, (uintptr_t)code, (const char *)code, identity).hash;
}

/* ---- tests ---- */

static void a_code_object_is_written_once(struct object *code, int header, int shift) {
  set_layout(header, shift);
  memset(&file, 0, sizeof file);
  memset(&name, 0, sizeof name);
  memset(&line_table, 0, sizeof line_table);
  claims = publications = 0;
  make_code(code, 7, 1);
  uint64_t hash = hash_of(code);
  check(hash && claims == 1 && publications == 1);
  check((records[0].head & 0xffff) == RECORD_CODE && records[0].code == hash && records[0].first_line == 7);
  check(memcmp(records + 1, "app.pywork", 10) == 0);
  check(records[0].line_table_bytes == 8 && records[0].bytecode_bytes == 2 * BYTECODE_UNITS);
  check(hash_of(code) == hash && claims == 1);
}

/* Sets hash, size and bytes of the line table, which stays where it is. */
static void set_line_table(uint64_t hash, const char *bytes) {
  uint64_t size = strlen(bytes);
  memcpy(line_table.bytes + BYTES_SIZE, &size, sizeof size);
  memcpy(line_table.bytes + BYTES_HASH, &hash, sizeof hash);
  memcpy(line_table.bytes + BYTES_DATA, bytes, size + 1);
}

/* Of versions whose code objects have none of their own, one is known again by what its line table is, too. */
static void another_line_table_at_the_same_address_is_another_code_object(void) {
  static struct object code;
  set_layout(0, 0);
  make_code(&code, 9, 0);
  layout.code_version = -1;
  set_line_table(UINT64_MAX, "\x80\x01");
  uint64_t first = hash_of(&code);
  line_table.bytes[BYTES_DATA + 3] = 1; /* behind its end */
  claims = 0;
  check(first && hash_of(&code) == first && !claims);
  set_line_table(UINT64_MAX, "\x80\x02");
  uint64_t second = hash_of(&code);
  check(second && second != first && claims == 1);
  set_line_table(UINT64_MAX, "\x80\x02\x03");
  uint64_t third = hash_of(&code);
  check(third && third != second && claims == 2);
  set_line_table(1, "twenty four bytes so far");
  uint64_t fourth = hash_of(&code);
  set_line_table(2, "twenty four bytes so big");
  check(fourth && hash_of(&code) != fourth && claims == 4);
}

/* Whichever read fails: claimed slots are published as padding, and the code object is written when it is seen
 * again. */
static void unreadable_parts_are_published_as_padding(void) {
  static struct object codes[64];
  unsigned padded = 0;
  for (int reads = 0; reads < 64; reads++) {
    make_code(&codes[reads], 100 + reads, 100 + (uint32_t)reads);
    claims = publications = 0;
    reads_left = reads;
    uint64_t hash = hash_of(&codes[reads]);
    reads_left = 1 << 20;
    check(claims == publications);
    if (!hash && claims) {
      padded++;
      check((records[0].head & 0xffff) == SPOOL_PAD && records[0].head >> 16 > 1);
    }
    check(hash_of(&codes[reads]) && (hash != 0 || (records[0].head & 0xffff) == RECORD_CODE));
  }
  check(padded == 4); /* one for each of the four parts of a code object */
}

int main(void) {
  static struct object code[3];
  a_code_object_is_written_once(&code[0], 16, 0); /* of free-threaded builds */
  a_code_object_is_written_once(&code[1], 16, 6);
  a_code_object_is_written_once(&code[2], 0, 0);
  unreadable_parts_are_published_as_padding();
  another_line_table_at_the_same_address_is_another_code_object();
  return 0;
}
