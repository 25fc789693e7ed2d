/* Reads the names of Thread objects. The object may have been freed, and its memory may hold anything since then. A
 * Thread knows the ident of its thread, so another object in its place is recognized. */
#include "shared/objects/thread_name.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/objects/instances.h"
#include "shared/objects/reads.h"
#include "shared/objects/texts.h"
#include "shared/spool.h"
#include "shared/stacks/pylayout.h"
#include "shared/words.h"

#define FLAG_INT (1ul << 24) /* tp_flags of int and str, and of their subclasses */
#define FLAG_STR (1ul << 28)
#define INT_SIZE 16 /* number of digits; 3.12 and later: number << 3 | sign */
#define INT_DIGITS 24
#define INT_BYTES 36
#define DIGIT_BITS 30
#define MOST_DIGITS 3
#define NAME_PEEK 128 /* bytes of a str that are fetched at once */

struct thread_name {
  uint64_t hash; /* never 0 */
  uint32_t bytes;
  char text[TEXT_MOST_BYTES]; /* UTF-8 */
};

/* ---- values ---- */

/* Returns the value of an int object, which is not negative; 0 = it is not such an int. */
static uint64_t int_value(const struct python_layout *layout, struct reads *reads, uintptr_t object) {
  char bytes[INT_BYTES];
  uint64_t value = 0;
  if (!reads_get(reads, bytes, object, INT_DIGITS)) return 0;
  uint64_t size = word_at(bytes, INT_SIZE), digits = layout->version >= 0x30c ? size >> 3 : size;
  if (!digits || digits > MOST_DIGITS || !reads_get(reads, bytes, object, INT_DIGITS + 4 * digits)) return 0;
  for (uint64_t i = 0; i < digits; i++)
    value |= (uint64_t)(uint32_t)int_at(bytes, INT_DIGITS + 4 * (int)i) << DIGIT_BITS * i;
  return value;
}

static uint64_t hash_of(const char *text, size_t bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < bytes; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
  return hash ? hash : 1;
}

static bool read_text(const struct python_layout *layout, struct reads *reads, uintptr_t object,
                      struct thread_name *out) {
  char head[TEXT_HEAD], data[TEXT_MOST_BYTES];
  if (!reads_get(reads, head, object, sizeof head)) return false;
  struct text text = text_of(layout, head);
  uintptr_t from = object + (uintptr_t)text.data;
  uint32_t kind = text.kind ? text.kind : text.kind_apart;
  if (!text.length || (kind != 1 && kind != 2 && kind != 4)) return false;
  if (text.kind_apart && !reads_get(reads, (char *)&from, object + (uintptr_t)text.address, sizeof from)) return false;
  if (!reads_get(reads, data, from, (size_t)text.length * kind)) return false;
  out->bytes = 0;
  for (uint32_t i = 0; i < text.length; i++)
    out->bytes += (uint32_t)text_put_utf8(out->text + out->bytes, text_character(data, kind, i));
  out->hash = hash_of(out->text, out->bytes);
  return true;
}

/* ---- a Thread ---- */

enum { NAME, IDENT, DAEMONIC, ATTRIBUTES };

/* Types that values of these attributes had, which are fetched together with the values. They may be wrong. */
static _Atomic uintptr_t types[ATTRIBUTES];

static uint64_t type_flags(struct reads *reads, uintptr_t value, int attribute) {
  uintptr_t type;
  uint64_t flags = instance_type_flags(reads, value, &type);
  if (flags && type != atomic_load_explicit(&types[attribute], memory_order_relaxed))
    atomic_store_explicit(&types[attribute], type, memory_order_relaxed);
  return flags;
}

/* Fetches the values, and after them the words that lead to them. */
static void fetch_values(const uintptr_t values[ATTRIBUTES], const struct instance_path *path, struct reads *reads) {
  reads_clear(reads);
  instance_type_add(atomic_load_explicit(&types[NAME], memory_order_relaxed), reads);
  instance_type_add(atomic_load_explicit(&types[IDENT], memory_order_relaxed), reads);
  reads_add_in_page(reads, values[IDENT], INT_BYTES);
  reads_add_in_page(reads, values[NAME], NAME_PEEK);
  instance_path_add(path, reads);
  reads_fetch(reads);
}

/* The values are those of the object if the words that lead to them have stayed the same: then none was freed. */
static bool is_same(const struct instance_path *path, struct reads *reads) {
  if (reads->missed) {
    reads_clear(reads);
    instance_path_add(path, reads);
    reads_fetch(reads);
  }
  return instance_path_same(path, reads);
}

static bool read_name(const struct python_layout *layout, uintptr_t thread, uint64_t ident, bool may_begin,
                      struct thread_name *out, struct thread_name_seen *seen) {
  static const char *const names[ATTRIBUTES] = {"_name", "_ident", "_daemonic"};
  uintptr_t values[ATTRIBUTES];
  struct reads reads;
  for (int attempt = 0; attempt < 2; attempt++) {
    if (!instance_attributes(layout, thread, names, ATTRIBUTES, values, &seen->path, &reads)) return false;
    if (!values[NAME] || !values[IDENT] || !values[DAEMONIC]) return false;
    fetch_values(values, &seen->path, &reads);
    bool is_int = type_flags(&reads, values[IDENT], IDENT) & FLAG_INT;
    bool is_owner = is_int ? int_value(layout, &reads, values[IDENT]) == ident : may_begin;
    bool is_whole = type_flags(&reads, values[NAME], NAME) & FLAG_STR && read_text(layout, &reads, values[NAME], out);
    if (!is_same(&seen->path, &reads)) continue;
    seen->name = values[NAME];
    seen->path.count -= ATTRIBUTES - 1 - NAME; /* without the other values, which come last */
    return is_owner && is_whole;
  }
  return false;
}

/* True if the name is the one that was read before: it is the same str, whose text is the same, in the same place.
 * The object may have been freed since then, but not renamed. */
static bool is_unchanged(const struct python_layout *layout, const struct thread_name_seen *seen, uint64_t known) {
  struct reads reads;
  struct thread_name name;
  reads_clear(&reads);
  reads_add_in_page(&reads, seen->name, NAME_PEEK);
  instance_path_add(&seen->path, &reads);
  reads_fetch(&reads);
  return reads.count && instance_path_same(&seen->path, &reads) && read_text(layout, &reads, seen->name, &name) &&
         name.hash == known;
}

/* ---- records ---- */

static bool write_name(uint32_t thread, const struct thread_name *name, int64_t read_ns) {
  unsigned slots = 1 + (unsigned)((name->bytes + SPOOL_SLOT_BYTES - 1) / SPOOL_SLOT_BYTES);
  struct record_type *type = spool_claim(slots);
  if (!type) return false;
  type->thread = thread;
  type->type = name->hash;
  type->name_bytes = name->bytes;
  type->pad = 0;
  memcpy(type + 1, name->text, name->bytes);
  spool_publish(type, RECORD_TYPE, slots);
  struct record_thread_name *record = spool_claim(1);
  if (!record) return false;
  record->thread = thread;
  record->t_ns = read_ns;
  record->name = name->hash;
  memset(record->reserved, 0, sizeof record->reserved);
  spool_publish(record, RECORD_THREAD_NAME, 1);
  return true;
}

bool thread_name_update(const struct python_layout *layout, uint32_t thread, uintptr_t object, uint64_t ident,
                        bool may_begin, uint64_t *known, struct thread_name_seen *seen, bool (*ended)(const void *),
                        const void *whose) {
  struct thread_name name;
  struct thread_name_seen found;
  int64_t read_ns = clock_now_ns(); /* before the read: a name that is read later is of a later moment */
  if (!object || (*known && seen && seen->name && is_unchanged(layout, seen, *known))) return false;
  if (!read_name(layout, object, ident, may_begin, &name, &found)) return false;
  if (ended && ended(whose)) return false;
  if (seen) *seen = found;
  if (name.hash == *known || !write_name(thread, &name, read_ns)) return false;
  *known = name.hash;
  return true;
}
