/* Names of tasks. Most names differ only in the number at their end ("Task-1"), so the text before the number is
 * written to the spool only once, and the number is stored in each record. */
#include "watch/tasks.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/objects/instances.h"
#include "shared/objects/reads.h"
#include "shared/objects/texts.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/stacks/dictionary.h"
#include "shared/stacks/pylayout.h"
#include "shared/words.h"
#include "watch/reading/observation.h"
#include "watch/reading/remote.h"
#include "watch/threads.h"

#define MOST_DIGITS 18
#define KNOWN 4096
#define LONG_TAG 16 /* 3.12 and later: number of digits << 3 | sign */
#define LONG_DIGITS 24
#define DIGIT_BITS 30

static uint64_t known[KNOWN]; /* hashes of texts that are in the spool */

static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t count) {
  for (size_t at = 0; at < count; at += 8) {
    uint64_t word = 0;
    for (size_t i = 0; i < 8 && at + i < count; i++) word |= (uint64_t)(unsigned char)bytes[at + i] << 8 * i;
    hash = dictionary_node_hash(hash, word, (int32_t)(count - at));
  }
  return hash;
}

uint64_t names_check(uintptr_t object, const char *bytes) {
  struct text text = text_of(target.layout, bytes);
  size_t size = (size_t)text.length * text.kind, room = NAME_PEEK - (size_t)text.data;
  uint64_t check = dictionary_node_hash(object, word_at(bytes, LONG_TAG), 0);
  if (!object || text.kind > 4) return check;
  check = dictionary_node_hash(check, text.kind ? 0 : word_at(bytes, LONG_DIGITS), 1);
  return hash_bytes(check, bytes + text.data, size < room ? size : room);
}

/* Returns the number of digits at the end of the text; 0 if they are not the canonical form of a number ("007") or too
 * many. */
static uint32_t digits_at_end(const char *data, uint32_t kind, uint32_t length) {
  uint32_t digits = 0;
  while (digits < length) {
    uint32_t c = text_character(data, kind, length - digits - 1);
    if (c < '0' || c > '9') break;
    digits++;
  }
  bool leading = digits > 1 && text_character(data, kind, length - digits) == '0';
  return leading || digits > MOST_DIGITS ? 0 : digits;
}

/* ---- the part before the number ---- */

static void write_prefix(uint64_t hash, const char *text, size_t bytes) {
  unsigned slots = 1 + (unsigned)((bytes + SPOOL_SLOT_BYTES - 1) / SPOOL_SLOT_BYTES);
  if (known[hash % KNOWN] == hash) return;
  struct record_type *record = spool_claim(slots);
  if (!record) return;
  record->thread = target.thread;
  record->type = hash;
  record->name_bytes = (uint32_t)bytes;
  __builtin_memcpy(record + 1, text, bytes);
  spool_publish(record, RECORD_TYPE, slots);
  known[hash % KNOWN] = hash;
}

static struct task_name split_name(const char *data, uint32_t kind, uint32_t length) {
  char text[TEXT_MOST_BYTES];
  size_t bytes = 0;
  struct task_name name = {.number = -1};
  uint32_t digits = digits_at_end(data, kind, length);
  for (uint32_t i = 0; i < length - digits; i++) bytes += text_put_utf8(text + bytes, text_character(data, kind, i));
  if (digits) name.number = 0;
  for (uint32_t i = length - digits; i < length; i++)
    name.number = 10 * name.number + (int64_t)(text_character(data, kind, i) - '0');
  name.prefix = hash_bytes(bytes + 1, text, bytes);
  write_prefix(name.prefix, text, bytes);
  return name;
}

/* 3.13 stores an automatic name as an int until it is first asked for. */
static struct task_name automatic_name(const char *object) {
  static const char prefix[] = "Task-";
  struct task_name name = split_name(prefix, 1, sizeof prefix - 1);
  uint64_t digits = word_at(object, LONG_TAG) >> 3, value = word_at(object, LONG_DIGITS);
  uint64_t low = value & 0xffffffff, high = digits > 1 ? value >> 32 : 0;
  name.number = digits <= 2 ? (int64_t)(low | high << DIGIT_BITS) : -1;
  return name;
}

bool names_read(struct process *process, uintptr_t object, struct task_name *out) {
  char head[TEXT_HEAD], data[TEXT_MOST_BYTES];
  *out = (struct task_name){0, -1};
  if (!object || !safe_read(head, (void *)object, sizeof head)) return false;
  enum kind kind = remote_kind(&process->asyncio.kinds, word_at(head, OBJECT_TYPE));
  if (kind == KIND_INT) *out = automatic_name(head);
  if (kind == KIND_INT) return true;
  struct text text = text_of(target.layout, head);
  size_t bytes = (size_t)text.length * text.kind;
  if (kind != KIND_STR || (text.kind != 1 && text.kind != 2 && text.kind != 4)) return false;
  if (!safe_read(data, (void *)(object + (uintptr_t)text.data), bytes ? bytes : 1)) return false;
  *out = split_name(data, text.kind, text.length);
  return true;
}

/* ---- greenlets ---- */

#define TYPE_NAME 24
#define CLASSES 64

static struct {
  uint64_t process;
  uintptr_t type;
  struct task_name name;
} classes[CLASSES]; /* names of classes that were read last */

static struct task_name read_class(uintptr_t type) {
  char text[TEXT_MOST_CHARACTERS + 1] = {0};
  if (!safe_read_some(text, (void *)remote_word(type + TYPE_NAME), sizeof text - 1)) return (struct task_name){0, -1};
  const char *dot = strrchr(text, '.'), *name = dot ? dot + 1 : text;
  return split_name(name, 1, (uint32_t)strlen(name));
}

static struct task_name class_name(uint64_t process, uintptr_t type) {
  size_t at = type / 16 % CLASSES;
  if (classes[at].process == process && classes[at].type == type) return classes[at].name;
  classes[at].process = process;
  classes[at].type = type;
  return classes[at].name = read_class(type);
}

/* The dict of an instance of a class in Python shares its keys with others, and has its values elsewhere. */
static uintptr_t name_attribute(struct process *process, const struct task_observation *greenlet) {
  static const char *const wanted = "name";
  uintptr_t dict = greenlet->name_object, name = dict ? remote_find(&process->asyncio.kinds, dict, wanted) : 0;
  struct instance_path path;
  struct reads reads;
  if (name) return name;
  return instance_attributes(target.layout, greenlet->task, &wanted, 1, &name, &path, &reads) ? name : 0;
}

void names_of_greenlet(struct process *process, const struct task_observation *greenlet, struct task_name *out) {
  uintptr_t name = name_attribute(process, greenlet);
  if (!name || !names_read(process, name, out)) *out = class_name(process->id, (uintptr_t)greenlet->name_check);
}
