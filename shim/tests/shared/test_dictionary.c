/* Tests dictionary.c: with code objects that can be read, and with ones whose memory disappears while they are
 * written. */
#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/stacks/dictionary.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/target.h"
#include "tests/check.h"

/* ---- stand-ins for the spool and the safe reads ---- */

static struct python_layout layout = {.version = 0x30b,
                                      .code_bytes = 128,
                                      .code_flags = 32,
                                      .code_first_line = 36,
                                      .code_file = 40,
                                      .code_name = 48,
                                      .code_version = 56,
                                      .code_line_table = 64,
                                      .code_bytecode = 128,
                                      .code_first_traceable = 72,
                                      .ascii_data = 48,
                                      .compact_data = 72};
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

struct object {
  uint64_t words[16], bytecode[4];
};
static struct object file, name, line_table;

static void make_text(struct object *text, const char *characters) {
  uint32_t state = 1 << 2 | 1 << 5 | 1 << 6;
  text->words[2] = strlen(characters);
  memcpy((char *)text + STR_STATE, &state, sizeof state);
  memcpy((char *)text + layout.ascii_data, characters, strlen(characters));
}

static void make_code(struct object *code, int32_t first_line, uint32_t version) {
  make_text(&file, "app.py");
  make_text(&name, "work");
  line_table.words[2] = 8;
  code->words[1] = (uintptr_t)&code_type;
  code->words[2] = sizeof code->bytecode / 2;
  memcpy((char *)code + layout.code_first_line, &first_line, sizeof first_line);
  memcpy((char *)code + layout.code_version, &version, sizeof version);
  code->words[5] = (uintptr_t)&file;
  code->words[6] = (uintptr_t)&name;
  code->words[8] = (uintptr_t)&line_table;
}

static uint64_t hash_of(struct object *code) {
  return dictionary_code(&target, (uintptr_t)code, (const char *)code, (const char *)&name).hash;
}

/* ---- tests ---- */

static void a_code_object_is_written_once(void) {
  static struct object code;
  make_code(&code, 7, 1);
  uint64_t hash = hash_of(&code);
  check(hash && claims == 1 && publications == 1);
  check((records[0].head & 0xffff) == RECORD_CODE && records[0].code == hash && records[0].first_line == 7);
  check(memcmp(records + 1, "app.pywork", 10) == 0);
  check(hash_of(&code) == hash && claims == 1);
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
  a_code_object_is_written_once();
  unreadable_parts_are_published_as_padding();
  return 0;
}
