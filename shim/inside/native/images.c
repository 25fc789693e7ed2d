/* The table of loaded images, and the scan of the native stack of an interrupted thread: which code called which, up to
 * the bytecode loop.
 *
 * The loader's list (link_map) is read by safe reads and without the loader's lock, because the interrupted thread may
 * hold that lock inside dlopen. The loader appends new libraries at the end of the list, so it must be read again only
 * if the last entry has got an l_next. A new table is built in another buffer and then swapped in, so a handler that
 * still reads the old table sees a complete one. */
#include "inside/native/images.h"

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
#include "shared/evidence/access.h"
#include "shared/loss.h"
#include "shared/native/image.h"
#include "shared/native/records.h"
#include "shared/saferead.h"
#include "shared/spool.h"

#define MAX_IMAGES 1024
#define MAX_LIBRARIES 4096

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
static _Atomic uint32_t seen_closed_count;
static _Atomic bool crowded;
static struct image_source source;
static int turn;                    /* number of tables built so far; guarded by refreshing */
static struct loaded_library entry; /* guarded by refreshing; static, as it is too large for a handler's stack */

/* ---- reading the loader's list ---- */

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

static bool same_image(const struct image *a, const struct image *b) {
  return a && a->start == b->start && a->end == b->end && a->id == b->id;
}

static void add_image(struct image_table *table, const struct image_table *before, struct image image) {
  if (table->count >= MAX_IMAGES) {
    if (!atomic_exchange(&crowded, true)) loss_add(LOSS_images_crowded);
    return;
  }
  const struct image *known = before ? find_image(before, image.start) : NULL;
  image.stays = !before || (known && known->stays);
  int at = table->count++;
  for (; at > 0 && table->image[at - 1].start > image.start; at--) table->image[at] = table->image[at - 1];
  table->image[at] = image;
  if (spool && !same_image(known, &image)) native_write_image(&image, entry.path, this_thread.id);
}

static void name_main_program(void) {
  ssize_t length = readlink("/proc/self/exe", entry.path, sizeof entry.path - 1);
  entry.path[length < 0 ? 0 : length] = 0;
}

static void describe(void) {
  source.list = (uintptr_t)&_r_debug.r_map;
  source.headers = getauxval(AT_PHDR);
  source.header_count = (uint32_t)getauxval(AT_PHNUM);
  source.interpreter = python_symbols.eval.start;
  source.shim = (uintptr_t)&images_init;
  source.python_at_load = python_at_load;
}

static void read_list(struct image_table *table, const struct image_table *before) {
  uintptr_t at = (uintptr_t)_r_debug.r_map;
  struct image image;
  describe();
  table->count = 0;
  for (int i = 0; at && i < MAX_LIBRARIES; i++) {
    if (!library_read(&entry, at, i == 0 ? &source : NULL)) break;
    if (i == 0) name_main_program();
    for (int segment = 0; segment < entry.segments; segment++) {
      if (library_image(&entry, segment, i == 0, &source, &image)) add_image(table, before, image);
    }
    atomic_store(&last_link, at);
    at = entry.next;
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
  atomic_store(&seen_closed_count, atomic_load(&source.closed));
  read_list(table, atomic_load(&published));
  atomic_fetch_add(&table->changes, 1);
  atomic_store(&published, table);
  errno = saved_errno;
  atomic_store(&refreshing, 0);
}

static uintptr_t called_directly(uintptr_t after, const struct image *image) {
  return image->stays ? arch_called_directly(after) : 0;
}

void images_init(void) {
  image_access = (struct image_access){images_find, images_generation, images_follows_call,
                                       images_follows_call_elsewhere, called_directly};
  rebuild();
}

const struct image_source *images_source(void) { return &source; }

/* The last link_map may be freed at any moment by a dlclose in another thread, also one that is not counted because
 * libc itself calls it. */
static bool list_is_current(void) {
  uintptr_t last = atomic_load_explicit(&last_link, memory_order_relaxed), next_link;
  if (!last || atomic_load(&closing) || atomic_load(&source.closed) != atomic_load(&seen_closed_count)) return false;
  return safe_read(&next_link, (void *)(last + offsetof(struct link_map, l_next)), sizeof next_link) && !next_link;
}

void images_refresh(void) {
  if (!list_is_current()) rebuild();
}

/* Also if another thread is reading the list: it may have begun before. */
void images_interpreter_found(void) {
  atomic_fetch_add(&source.closed, 1);
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

uint32_t images_closed_count(void) { return atomic_load(&closing) ? UINT32_MAX : atomic_load(&source.closed); }

/* dlclose can be interposed, because its result does not depend on the caller. dlopen cannot: it uses the caller's
 * search path. */
EXPORT int dlclose(void *handle) {
  next_ensure();
  atomic_fetch_add(&closing, 1);
  bool may_lose_python = late_before_close();
  int result = next.dlclose(handle);
  if (may_lose_python) late_after_close();
  atomic_fetch_add(&source.closed, 1);
  atomic_fetch_sub(&closing, 1);
  return result;
}

/* ---- calls ---- */

/* A library that was loaded after the start may be unloaded at any time, also by libc itself, so its code must be
 * read by a system call. The results are therefore cached until the images change. An entry is
 * generation << (ARCH_ADDRESS_BITS + 1) | word << 1 | result. */
#define CACHED_CALLS 1024
static _Atomic uint64_t call_cache[CACHED_CALLS];

static bool read_return_address(uintptr_t word, uint64_t generation) {
  _Atomic uint64_t *entry = &call_cache[(word ^ word >> 10) % CACHED_CALLS];
  uint64_t key = generation << (ARCH_ADDRESS_BITS + 1) | (uint64_t)word << 1,
           cached = atomic_load_explicit(entry, memory_order_relaxed);
  uint8_t code[8];
  if ((cached & ~UINT64_C(1)) == key) return cached & 1;
  bool result = safe_read(code, (void *)(word - 7), 7) && arch_follows_call(code + 7);
  atomic_store_explicit(entry, key | result, memory_order_relaxed);
  return result;
}

bool images_follows_call(uintptr_t address, const struct image *image) {
  if (address < image->start + 7) return false;
  if (!image->stays) return read_return_address(address, images_generation());
  return arch_follows_call((const uint8_t *)address);
}

/* The code may begin with its page, so that fewer than seven bytes are readable. */
bool images_follows_call_elsewhere(uintptr_t address) {
  uint8_t code[8] = {0};
  size_t here = address & 4095;
  if (safe_read(code, (void *)(address - 7), 7)) return arch_follows_call(code + 7);
  if (here < 2 || here >= 7 || !safe_read(code, (void *)(address - here), here)) return false;
  for (size_t i = 1; i <= 7; i++) code[7 - i] = i <= here ? code[here - i] : 0;
  return arch_follows_call(code + 7);
}
