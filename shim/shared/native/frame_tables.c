/* Finds the FDE of an address by the sorted table in .eh_frame_hdr. */
#include "shared/native/frame_tables.h"

#include "shared/base.h"
#include "shared/native/frame_program.h"
#include "shared/native/image.h"
#include "shared/saferead.h"

/* Distributes keys over the slots of a cache; `count` is a power of two. */
static size_t slot_of(uint64_t key, size_t count) { return (key * 0x9e3779b97f4a7c15u >> 32) % count; }

#define HEADER_BYTES 12
#define PIECE 32 /* entries that are read at once from a library that may be unmapped */

/* An entry: the start of a function and its FDE, both relative to .eh_frame_hdr. */
struct hdr_entry {
  int32_t start, fde;
};

struct hdr {
  uintptr_t at;
  uint32_t count;
  bool plain;
  uint64_t generation; /* of the images, in 16 bits */
};

static bool copy_bytes(const struct hdr *hdr, void *to, uintptr_t from, size_t size) {
  if (!hdr->plain) return safe_read(to, (void *)from, size);
  memcpy(to, (const void *)from, size);
  return true;
}

/* The header and the first steps of a search are the same for many addresses. Of libraries that may be unmapped, the
 * words that they read are cached, so that a search takes one system call instead of ten. `mixed` = key ^ word shows
 * when two threads have mixed up an entry. */
#define CACHED_WORDS 2048
struct cached_word {
  _Atomic uint64_t mixed, word;
};
static struct cached_word words[CACHED_WORDS];

static bool read_word(const struct hdr *hdr, uintptr_t at, uint32_t *out) {
  if (hdr->plain) return copy_bytes(hdr, out, at, sizeof *out);
  struct cached_word *entry = &words[slot_of(at, CACHED_WORDS)];
  uint64_t key = hdr->generation << 48 | at, word = atomic_load_explicit(&entry->word, memory_order_relaxed);
  if ((atomic_load_explicit(&entry->mixed, memory_order_relaxed) ^ word) == key) return *out = (uint32_t)word, true;
  if (!copy_bytes(hdr, out, at, sizeof *out)) return false;
  atomic_store_explicit(&entry->word, *out, memory_order_relaxed);
  atomic_store_explicit(&entry->mixed, key ^ *out, memory_order_relaxed);
  return true;
}

/* Only the form that all linkers write is supported: version 1, a count of 4 bytes, entries relative to the header. The
 * second byte says how .eh_frame's address is encoded, which is not needed but must have 4 bytes. */
static bool read_header(const struct image *image, uint64_t generation, struct hdr *out) {
  uint32_t encodings;
  *out = (struct hdr){image->tables, 0, image->stays, generation};
  if (!image->tables || image->tables < image->tables_low || image->tables >= image->tables_high) return false;
  size_t room = image->tables_high - image->tables;
  if (room < HEADER_BYTES || !read_word(out, image->tables, &encodings)) return false;
  if ((encodings & 0xffff07ff) != 0x3b030301 || !read_word(out, image->tables + 8, &out->count)) return false;
  return out->count <= (room - HEADER_BYTES) / sizeof(struct hdr_entry);
}

static uintptr_t address_of_entry(const struct hdr *hdr, uint32_t index) {
  return hdr->at + HEADER_BYTES + (uintptr_t)index * sizeof(struct hdr_entry);
}

/* Narrows [low, high) to at most `most` entries, of which the last one that begins at or before `offset` is one. */
static bool narrow(const struct hdr *hdr, int64_t offset, uint32_t most, uint32_t *low, uint32_t *high) {
  while (*high - *low > most) {
    uint32_t middle = *low + (*high - *low) / 2;
    uint32_t start;
    if (!read_word(hdr, address_of_entry(hdr, middle), &start)) return false;
    if ((int32_t)start <= offset) {
      *low = middle;
    } else {
      *high = middle;
    }
  }
  return *low < *high;
}

/* Reads the remaining entries in one piece. */
static bool pick(const struct hdr *hdr, int64_t offset, uint32_t low, uint32_t high, struct hdr_entry *out) {
  struct hdr_entry entry[PIECE];
  size_t size = (high - low) * sizeof *entry;
  if (!safe_read(entry, (const void *)address_of_entry(hdr, low), size)) return false;
  uint32_t at = 0;
  for (uint32_t i = 1; i < high - low; i++) {
    if (entry[i].start <= offset) at = i;
  }
  *out = entry[at];
  return true;
}

/* Returns the FDE of the last function that begins at or before `lookup`; 0 = there is none. */
static uintptr_t find_fde(const struct image *image, uint64_t generation, uintptr_t lookup) {
  struct hdr hdr;
  struct hdr_entry found;
  if (!read_header(image, generation, &hdr)) return 0;
  int64_t offset = (int64_t)(lookup - hdr.at);
  uint32_t low = 0, high = hdr.count;
  if (!narrow(&hdr, offset, hdr.plain ? 1 : PIECE, &low, &high)) return 0;
  if (hdr.plain) {
    memcpy(&found, (const void *)address_of_entry(&hdr, low), sizeof found);
  } else if (!pick(&hdr, offset, low, high, &found)) {
    return 0;
  }
  return found.start <= offset ? hdr.at + (uintptr_t)(intptr_t)found.fde : 0;
}

bool frame_tables_find(const struct image *image, uint64_t generation, uintptr_t pc, bool is_return,
                       struct frame_rule *out) {
  uintptr_t lookup = pc - is_return;
  struct frame_tables tables = {image->tables_low, image->tables_high, image->stays};
  uintptr_t fde = find_fde(image, generation, lookup);
  bool found = fde && frame_program_run(&tables, fde, pc, lookup, out);
  if (!found) *out = (struct frame_rule){.start = 0};
  out->pc_class = (uint8_t)image->pc_class;
  return found;
}
