/* The table of loaded images, and the scan of the native stack of an interrupted thread: which code called which, up to
 * the bytecode loop.
 *
 * The loader's list (link_map) is read by safe reads and without the loader's lock, because the interrupted thread may
 * hold that lock inside dlopen. The loader appends new libraries at the end of the list, so it must be read again only
 * if the last entry has got an l_next. A new table is built in another buffer and then swapped in, so a handler that
 * still reads the old table sees a complete one. */
#include "inside/native/images.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/types.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/python/late.h"
#include "inside/python/python.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/stacks/hash.h"

#define MAX_IMAGES 1024
#define MAX_LIBRARIES 4096
#define PATH_BYTES 1024

struct image_table {
  int count;
  _Atomic uint32_t changes;       /* odd while the table is being built */
  uint64_t generation;            /* number of the read of the loader's list, from 1 */
  uintptr_t low, high;            /* every image lies in [low, high) */
  struct image image[MAX_IMAGES]; /* sorted by start, disjoint */
};
static struct image_table tables[4];
static _Atomic(struct image_table *) published;
static _Atomic int refreshing;
static _Atomic uintptr_t last_link; /* link_map at the end of the list when it was last read */
static _Atomic int closing;         /* number of threads inside dlclose: libraries may be unmapped at any moment */
static _Atomic uint32_t closed_count, seen_closed_count;
static int turn; /* number of tables built so far; guarded by refreshing */

static bool starts_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

static bool is_support(const char *path) {
  static const char *const names[] = {
      "libc.so",  "libc-",      "libm.so",    "libm-",       "libmvec",     "ld-linux",    "ld-2",
      "ld.so",    "linux-vdso", "libpthread", "libdl",       "librt.",      "librt-",      "libutil",
      "libgcc_s", "libstdc++",  "libc++",     "libjemalloc", "libtcmalloc", "libmimalloc", "ld-musl"};
  const char *base = strrchr(path, '/');
  base = base ? base + 1 : path;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (starts_with(base, names[i])) return true;
  }
  return false;
}

static uint32_t classify(uintptr_t start, uintptr_t end, const char *path, bool main_program) {
  uintptr_t eval = python_symbols.eval.start;
  uintptr_t own_code = (uintptr_t)&images_init;
  if (eval >= start && eval < end) return PC_INTERPRETER;
  if (own_code >= start && own_code < end) return PC_SHIM;
  if (main_program) return python_at_load ? PC_INTERPRETER : PC_EXTENSION;
  return is_support(path) ? PC_SUPPORT : PC_EXTENSION;
}

/* ---- reading the loader's list ---- */

struct library {
  uintptr_t bias;
  uintptr_t header; /* where its ELF header is mapped; 0 = use the auxiliary vector */
  char path[PATH_BYTES];
};

static void read_string(char *to, uintptr_t from, size_t size) {
  size_t got = from ? safe_read_some(to, (void *)from, size - 1) : 0;
  to[got] = 0;
}

static const struct image *find_image(const struct image_table *table, uintptr_t address) {
  int low = 0, high = table->count;
  if (address < table->low || address >= table->high) return NULL;
  while (low < high) {
    int middle = (low + high) / 2;
    if (table->image[middle].end <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < table->count && table->image[low].start <= address ? &table->image[low] : NULL;
}

static void write_module(const struct image *image, const char *path) {
  size_t length = strlen(path);
  unsigned slots = (unsigned)(1 + (length + SPOOL_SLOT_BYTES - 1) / SPOOL_SLOT_BYTES);
  struct record_module *record = spool_claim(slots);
  if (!record) return;
  record->thread = this_thread.id;
  record->t_ns = clock_now_ns();
  record->start = image->start;
  record->end = image->end;
  record->bias = image->bias;
  record->path_bytes = (uint32_t)length;
  record->pc_class = image->pc_class;
  record->image = image->id;
  memcpy(record + 1, path, length);
  spool_publish(record, RECORD_MODULE, slots);
}

static bool same_image(const struct image *a, const struct image *b) {
  return a && a->start == b->start && a->end == b->end && a->id == b->id;
}

/* ---- one library ---- */

#define MAX_SEGMENTS 64

/* The program headers of a library, guarded by refreshing; static, as they are too large for a handler's stack. */
static ElfW(Phdr) segments[MAX_SEGMENTS];

/* Finds .eh_frame_hdr and the segment that contains it. */
static void find_tables(struct image *image, int count) {
  uintptr_t tables = 0;
  for (int i = 0; i < count; i++) {
    if (segments[i].p_type == PT_GNU_EH_FRAME) tables = segments[i].p_vaddr;
  }
  for (int i = 0; tables && i < count; i++) {
    uintptr_t start = segments[i].p_vaddr;
    if (segments[i].p_type != PT_LOAD || tables < start || tables - start >= segments[i].p_filesz) continue;
    image->tables = image->bias + tables;
    image->tables_low = image->bias + start;
    image->tables_high = image->tables_low + segments[i].p_filesz;
  }
}

static uint64_t id_of(const struct image *image, const char *path) {
  uint64_t hash = hash_pair(image->start - image->bias, image->end - image->bias);
  hash = hash_pair(hash, image->pc_class);
  for (size_t left = strlen(path); left;) {
    uint64_t word = 0;
    size_t size = left < sizeof word ? left : sizeof word;
    memcpy(&word, path, size);
    hash = hash_pair(hash, word);
    path += size;
    left -= size;
  }
  return hash_not_zero(hash);
}

static void add_segment(struct image_table *table, const struct image_table *before, const ElfW(Phdr) * segment,
                        const struct library *library, bool main_program, struct image image) {
  if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || table->count >= MAX_IMAGES) return;
  image.start = library->bias + segment->p_vaddr;
  image.end = image.start + segment->p_memsz;
  image.pc_class = classify(image.start, image.end, library->path, main_program);
  const struct image *known = before ? find_image(before, image.start) : NULL;
  image.id = id_of(&image, library->path);
  image.stays = !before || (known && known->stays);
  int at = table->count++;
  for (; at > 0 && table->image[at - 1].start > image.start; at--) table->image[at] = table->image[at - 1];
  table->image[at] = image;
  if (spool && !same_image(known, &image)) write_module(&image, library->path);
}

/* Reads the program headers and returns how many there are. */
static int read_segments(const struct library *library, bool main_program) {
  uintptr_t headers = main_program ? getauxval(AT_PHDR) : 0;
  size_t count = main_program ? getauxval(AT_PHNUM) : 0;
  if (!main_program) {
    ElfW(Ehdr) header;
    if (!safe_read(&header, (void *)library->bias, sizeof header)) return 0;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return 0;
    headers = library->bias + header.e_phoff;
    count = header.e_phnum;
  }
  if (count > MAX_SEGMENTS) count = MAX_SEGMENTS;
  return (int)(safe_read_some(segments, (void *)headers, count * sizeof *segments) / sizeof *segments);
}

static void add_library(struct image_table *table, const struct image_table *before, const struct library *library,
                        bool main_program) {
  int count = read_segments(library, main_program);
  struct image image = {.bias = library->bias};
  find_tables(&image, count);
  for (int i = 0; i < count; i++) add_segment(table, before, &segments[i], library, main_program, image);
}

static struct library entry; /* guarded by refreshing; static, as it is too large for a handler's stack */

static void name_main_program(void) {
  ssize_t length = readlink("/proc/self/exe", entry.path, sizeof entry.path - 1);
  entry.path[length < 0 ? 0 : length] = 0;
}

static void read_list(struct image_table *table, const struct image_table *before) {
  uintptr_t at = (uintptr_t)_r_debug.r_map;
  table->count = 0;
  for (int i = 0; at && i < MAX_LIBRARIES; i++) {
    struct link_map map;
    if (!safe_read(&map, (void *)at, sizeof map)) break;
    entry.bias = map.l_addr;
    if (i == 0) {
      name_main_program();
    } else {
      read_string(entry.path, (uintptr_t)map.l_name, sizeof entry.path);
    }
    add_library(table, before, &entry, i == 0);
    atomic_store(&last_link, at);
    at = (uintptr_t)map.l_next;
  }
  table->low = table->count ? table->image[0].start : 0;
  table->high = table->count ? table->image[table->count - 1].end : 0;
}

static SLOW_PATH void rebuild(void) {
  int idle = 0;
  if (!atomic_compare_exchange_strong(&refreshing, &idle, 1)) return;
  int saved_errno = errno;
  struct image_table *table = &tables[turn++ & 3];
  atomic_fetch_add(&table->changes, 1);
  atomic_thread_fence(memory_order_seq_cst); /* before anything of the table changes, see images_find */
  table->generation = (uint64_t)turn;
  atomic_store(&seen_closed_count, atomic_load(&closed_count));
  read_list(table, atomic_load(&published));
  atomic_fetch_add(&table->changes, 1);
  atomic_store(&published, table);
  errno = saved_errno;
  atomic_store(&refreshing, 0);
}

void images_init(void) { rebuild(); }

/* The last link_map may be freed at any moment by a dlclose in another thread, also one that is not counted because
 * libc itself calls it. */
static bool list_is_current(void) {
  uintptr_t last = atomic_load_explicit(&last_link, memory_order_relaxed), next_link;
  if (!last || atomic_load(&closing) || atomic_load(&closed_count) != atomic_load(&seen_closed_count)) return false;
  return safe_read(&next_link, (void *)(last + offsetof(struct link_map, l_next)), sizeof next_link) && !next_link;
}

void images_refresh(void) {
  if (!list_is_current()) rebuild();
}

/* Also if another thread is reading the list: it may have begun before. */
void images_interpreter_found(void) {
  atomic_fetch_add(&closed_count, 1);
  images_refresh();
}

/* Another thread of the parent may have been inside rebuild or dlclose; it does not exist in the child. */
void images_postfork_child(void) {
  atomic_store(&refreshing, 0);
  atomic_store(&closing, 0);
}

/* The table may be built anew while it is read here, if other threads build three more meanwhile. */
bool images_find(uintptr_t address, struct image *out) {
  const struct image_table *table = atomic_load_explicit(&published, memory_order_acquire);
  if (!table) return false;
  uint32_t changes = atomic_load_explicit(&table->changes, memory_order_acquire);
  const struct image *found = find_image(table, address);
  if (!found || changes % 2) return false;
  *out = *found;
  atomic_thread_fence(memory_order_acquire);
  return atomic_load_explicit(&table->changes, memory_order_relaxed) == changes;
}

uint64_t images_generation(void) {
  const struct image_table *table = atomic_load_explicit(&published, memory_order_acquire);
  return table ? table->generation : 0;
}

uint32_t images_closed_count(void) { return atomic_load(&closing) ? UINT32_MAX : atomic_load(&closed_count); }

/* dlclose can be interposed, because its result does not depend on the caller. dlopen cannot: it uses the caller's
 * search path. */
EXPORT int dlclose(void *handle) {
  next_ensure();
  atomic_fetch_add(&closing, 1);
  bool may_lose_python = late_before_close();
  int result = next.dlclose(handle);
  if (may_lose_python) late_after_close();
  atomic_fetch_add(&closed_count, 1);
  atomic_fetch_sub(&closing, 1);
  return result;
}

/* ---- calls ---- */

/* True if a call instruction of x86-64 ends right before `p`: E8 rel32, or FF /2 with any operand. */
static bool follows_call(const uint8_t *p) {
  if (p[-5] == 0xe8) return true;
  for (int length = 2; length <= 7; length++) {
    uint8_t modrm = p[1 - length];
    if (p[-length] != 0xff || (modrm & 0x38) != 0x10) continue;
    int mode = modrm >> 6, base = modrm & 7;
    int need = 2 + (mode != 3 && base == 4);
    if (mode == 1) need += 1;
    if (mode == 2 || (mode == 0 && base == 5)) need += 4;
    if (need == length) return true;
  }
  return false;
}

/* A library that was loaded after the start may be unloaded at any time, also by libc itself, so its code must be
 * read by a system call. The results are therefore cached until the images change. An entry is generation << 48 |
 * word << 1 | result. */
#define CACHED_CALLS 1024
static _Atomic uint64_t call_cache[CACHED_CALLS];

static bool read_return_address(uintptr_t word, uint64_t generation) {
  _Atomic uint64_t *entry = &call_cache[(word ^ word >> 10) % CACHED_CALLS];
  uint64_t key = generation << 48 | (uint64_t)word << 1, cached = atomic_load_explicit(entry, memory_order_relaxed);
  uint8_t code[8];
  if ((cached & ~UINT64_C(1)) == key) return cached & 1;
  bool result = safe_read(code, (void *)(word - 7), 7) && follows_call(code + 7);
  atomic_store_explicit(entry, key | result, memory_order_relaxed);
  return result;
}

bool images_follows_call(uintptr_t address, const struct image *image) {
  if (address < image->start + 7) return false;
  if (!image->stays) return read_return_address(address, images_generation());
  return follows_call((const uint8_t *)address);
}

/* The code may begin with its page, so that fewer than seven bytes are readable. */
bool images_follows_call_elsewhere(uintptr_t address) {
  uint8_t code[8] = {0};
  size_t here = address & 4095;
  if (safe_read(code, (void *)(address - 7), 7)) return follows_call(code + 7);
  if (here < 2 || here >= 7 || !safe_read(code, (void *)(address - here), here)) return false;
  for (size_t i = 1; i <= 7; i++) code[7 - i] = i <= here ? code[here - i] : 0;
  return follows_call(code + 7);
}
