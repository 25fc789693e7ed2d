/* The followed blocks: sampled allocations that are still alive.
 *
 * A free first reads the filter, which has one byte for each 64 bytes of address space (wrapped around); 0 = no block
 * there is followed. Only if the byte is not 0, the table is searched. It consists of levels, each four times as large
 * as the one before. The first is mapped at the start, and another one whenever half of the slots are taken, because
 * few programs need many slots, and memory that is only mapped counts too (RLIMIT_AS, mlockall). In a level, a block
 * lies in one of two buckets of eight slots, whose keys fill one cache line each. Frees of Python's small blocks first
 * ask about the whole pool (live.h). For that, the followed blocks of each piece are counted (wrapped around too).
 *
 * There are no locks. The thread that has just allocated a block adds it, and the thread that is about to free it takes
 * it out, so no two threads work on one address at the same time. Slots are claimed by compare-and-swap.
 *
 * Invariants: filter[f(a)] >= number of slots with a key that maps to f(a), unless it has reached 255, where it stays;
 * a piece that is known as quiet has no followed block. */
#include "inside/accounts/live.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inside/accounts/shadow.h"
#include "shared/base.h"
#include "shared/sealed/sealed.h"
#include "shared/stacks/hash.h"

#define BUCKET 8
#define PLACES (2 * BUCKET)
#define CLAIMED 1 /* key of a slot that is being filled or emptied; not an address */
#define STUCK 255
#define NO_SLOT SIZE_MAX
#define FIRST_SLOTS ((size_t)4096)
#define LEVELS 6

_Alignas(ARCH_MOST_PAGE_BYTES) _Atomic uint8_t live_filter[LIVE_FILTER_CELLS];
_Alignas(ARCH_MOST_PAGE_BYTES) _Atomic uint32_t live_pieces[LIVE_PIECES];
_Alignas(ARCH_MOST_PAGE_BYTES) static _Atomic uint32_t followed_near[LIVE_PIECES];
struct level {
  size_t slots; /* a power of two */
  _Atomic uintptr_t *keys;
  /* Another thread may read a slot while it is filled for another block, so each field is read and written
   * atomically. */
  struct live_sample *samples;
};
static struct level levels[LEVELS];
static _Atomic int level_count;
static size_t most_slots; /* that one level may have */
static _Atomic size_t all_slots;
static _Atomic int growing;
#define FIELD_READ(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define FIELD_WRITE(field, value) __atomic_store_n(&(field), value, __ATOMIC_RELAXED)
static _Atomic int64_t count;

/* ---- levels ---- */

/* System calls of our own: this may run inside the program's malloc. The table is kept out of core dumps. */
static void *map_zeros(size_t bytes) {
  long memory = syscall(SYS_mmap, NULL, bytes, (long)(PROT_READ | PROT_WRITE),
                        (long)(MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE), -1L, 0L);
  if (memory == -1) return NULL;
  syscall(SYS_madvise, memory, bytes, (long)MADV_DONTDUMP);
  return (void *)memory;
}

/* True if a level of this many slots takes at most a sixteenth of the limits on memory (ulimit -v), if there are
 * any. */
static bool is_affordable(size_t slots) {
  struct rlimit space, data;
  if (getrlimit(RLIMIT_AS, &space) || getrlimit(RLIMIT_DATA, &data)) return true;
  rlim_t least = space.rlim_cur < data.rlim_cur ? space.rlim_cur : data.rlim_cur;
  return slots == FIRST_SLOTS || slots * (sizeof *levels->keys + sizeof *levels->samples) <= least / 16;
}

static bool map_level(struct level *level, size_t slots) {
  level->slots = slots;
  level->keys = map_zeros(slots * sizeof *level->keys);
  level->samples = level->keys ? map_zeros(slots * sizeof *level->samples) : NULL;
  if (level->samples) return true;
  if (level->keys) syscall(SYS_munmap, level->keys, slots * sizeof *level->keys);
  return false;
}

static bool is_half_full(void) {
  return atomic_load_explicit(&count, memory_order_relaxed) > (int64_t)(atomic_load(&all_slots) / 2);
}

/* Maps another level. False = the table has its full size, or no memory is available: it stays as it is then. */
static SLOW_PATH bool grow(void) {
  int saved_errno = errno;
  if (atomic_exchange(&growing, 1)) return true; /* another thread does it, or the one that we have interrupted */
  uint32_t section = seal_enter();
  int number = atomic_load(&level_count);
  size_t wanted = FIRST_SLOTS << 2 * number;
  bool grown = number && !is_half_full(); /* another thread has done it since the caller asked */
  if (!grown && !sealed() && number < LEVELS && wanted <= most_slots && is_affordable(wanted) &&
      map_level(&levels[number], wanted)) {
    atomic_fetch_add(&all_slots, wanted);
    atomic_store(&level_count, number + 1);
    grown = true;
  }
  seal_leave(section);
  if (!grown) most_slots = 0; /* asking again would cost system calls each time */
  atomic_store(&growing, 0);
  errno = saved_errno;
  return grown;
}

bool live_init(size_t wanted) {
  most_slots = wanted;
  return atomic_load(&level_count) > 0 || grow();
}

bool live_is_crowded(void) { return is_half_full() && !grow(); }

/* Returns the first slot of one of the two buckets of a block. */
static size_t bucket_of(const struct level *level, uint64_t hash, int which) {
  return (size_t)(which ? hash >> 32 : hash) * BUCKET & (level->slots - 1);
}

static size_t slot_of(const struct level *level, uintptr_t address, int place) {
  return bucket_of(level, hash_mixed(address >> 4), place >= BUCKET) + (size_t)place % BUCKET;
}

/* Returns the slot of the block, NO_SLOT if it has none. Most searches are for blocks that are in no level. */
static inline size_t find_slot(const struct level *level, uintptr_t address, uint64_t hash) {
  for (int which = 0; which < 2; which++) {
    size_t first = bucket_of(level, hash, which);
    for (size_t at = first; at < first + BUCKET; at++) {
      if (atomic_load_explicit(&level->keys[at], memory_order_acquire) == address) return at;
    }
  }
  return NO_SLOT;
}

static void filter_add(uintptr_t address) {
  _Atomic uint8_t *cell = &live_filter[LIVE_FILTER_CELL(address)];
  uint8_t value = atomic_load(cell);
  while (value != STUCK && !atomic_compare_exchange_weak(cell, &value, value + 1)) {}
}

static void filter_remove(uintptr_t address) {
  _Atomic uint8_t *cell = &live_filter[LIVE_FILTER_CELL(address)];
  uint8_t value = atomic_load(cell);
  while (value != STUCK && value != 0 && !atomic_compare_exchange_weak(cell, &value, value - 1)) {}
}

/* ---- pieces ---- */

static _Atomic uint32_t *followed_at(uintptr_t address) { return &followed_near[address / PIECE_BYTES % LIVE_PIECES]; }

/* The first followed block of a piece, and the removal of its last one, change its kind: it becomes unknown. */
static void piece_add(uintptr_t address) {
  if (atomic_fetch_add(followed_at(address), 1) == 0) atomic_store(live_piece_at(address), 0);
}

static void piece_remove(uintptr_t address) {
  if (atomic_fetch_sub(followed_at(address), 1) == 1) atomic_store(live_piece_at(address), 0);
}

/* A thread of another interpreter may follow a block of the piece at the same time (in live_thin). Either the second
 * load sees its count, or piece_add makes the piece unknown after the store here. */
uint32_t live_note_piece(const void *block, bool pool) {
  uintptr_t address = (uintptr_t)block;
  bool watched = atomic_load(followed_at(address)) != 0;
  uint32_t piece = !pool ? PIECE_OUTSIDE : watched ? PIECE_WATCHED : PIECE_QUIET;
  atomic_store(live_piece_at(address), live_piece_tag(address) | piece);
  if (piece != PIECE_QUIET || atomic_load(followed_at(address)) == 0) return piece;
  atomic_store(live_piece_at(address), 0);
  return PIECE_WATCHED;
}

bool live_forget_pieces(uintptr_t start, uintptr_t end) {
  uint32_t followed = 0;
  shadow_forget(start, end, piece_remove);
  for (uintptr_t piece = start & ~(uintptr_t)(PIECE_BYTES - 1); piece < end; piece += PIECE_BYTES) {
    atomic_store(live_piece_at(piece), 0);
    followed |= atomic_load(followed_at(piece));
  }
  return followed != 0;
}

/* ---- blocks of pools ---- */

/* From the word of its id. The header of its pool has it too, but may only be read while nobody can free the block. */
static uint64_t bytes_of(uint64_t word) { return (word & ~SHADOW_TYPED) >> SHADOW_CLASS_SHIFT << 4; }

/* From the first followed block on, all frees in the piece ask for their block: that costs them a few instructions, but a
 * count of the piece's blocks would cost each of these two locked ones. */
static SLOW_PATH void watch_piece(uintptr_t address) {
  uintptr_t start = address & ~(uintptr_t)(PIECE_BYTES - 1);
  for (uintptr_t at = start; at < start + PIECE_BYTES; at += 64)
    atomic_store(&live_filter[LIVE_FILTER_CELL(at)], STUCK);
  piece_add(address);
}

bool live_add_pooled(uintptr_t address, const struct live_sample *sample) {
  bool new_piece = false;
  if (sample->usable > SHADOW_MOST_BYTES || sample->usable % 16 || sample->id > SHADOW_ID) return false;
  struct shadow_block *block = shadow_make(address, &new_piece);
  if (unlikely(!block)) return false;
  if (unlikely(new_piece)) watch_piece(address);
  if (unlikely(atomic_load_explicit(&block->id, memory_order_relaxed))) return false;
  FIELD_WRITE(block->stack, sample->stack);
  if (sample->type) FIELD_WRITE(*shadow_type(address), sample->type);
  uint64_t word = sample->id | sample->usable >> 4 << SHADOW_CLASS_SHIFT | (sample->type ? SHADOW_TYPED : 0);
  atomic_store_explicit(&block->id, word, memory_order_release);
  return true;
}

bool live_pooled(uintptr_t address) {
  const struct shadow_block *block = shadow_of(address);
  return block && atomic_load_explicit(&block->id, memory_order_relaxed);
}

static inline bool take_pooled(uintptr_t address, struct live_sample *out) {
  struct shadow_block *block = shadow_of(address);
  uint64_t word = block ? atomic_load_explicit(&block->id, memory_order_relaxed) : 0;
  while (word && !atomic_compare_exchange_weak(&block->id, &word, 0)) {} /* live_set_type may change it */
  if (!word) return false;
  *out = (struct live_sample){.id = word & SHADOW_ID,
                              .usable = bytes_of(word),
                              .interval = 1,
                              .type = word & SHADOW_TYPED ? FIELD_READ(*shadow_type(address)) : 0,
                              .stack = FIELD_READ(block->stack),
                              .python = true,
                              .pooled = true};
  return true;
}

/* ---- the table ---- */

static _Atomic uint64_t emptied; /* slots, so far */

static int taken_slots(const struct level *level, size_t first) {
  int taken = 0;
  for (size_t at = first; at < first + BUCKET; at++) {
    taken += atomic_load_explicit(&level->keys[at], memory_order_relaxed) != 0;
  }
  return taken;
}

static void copy_sample(struct live_sample *to, const struct live_sample *from) {
  FIELD_WRITE(to->id, FIELD_READ(from->id));
  FIELD_WRITE(to->usable, FIELD_READ(from->usable));
  FIELD_WRITE(to->interval, FIELD_READ(from->interval));
  FIELD_WRITE(to->type, FIELD_READ(from->type));
  FIELD_WRITE(to->stack, FIELD_READ(from->stack));
  FIELD_WRITE(to->python, FIELD_READ(from->python));
  FIELD_WRITE(to->place, FIELD_READ(from->place));
  FIELD_WRITE(to->pooled, false);
}

static bool add_in(struct level *level, size_t first, uintptr_t address, const struct live_sample *sample) {
  for (size_t at = first; at < first + BUCKET; at++) {
    uintptr_t free = 0;
    if (atomic_load_explicit(&level->keys[at], memory_order_relaxed)) continue;
    if (!atomic_compare_exchange_strong(&level->keys[at], &free, CLAIMED)) continue;
    copy_sample(&level->samples[at], sample);
    atomic_fetch_add(&count, 1);
    filter_add(address);
    piece_add(address);
    atomic_store_explicit(&level->keys[at], address, memory_order_release);
    return true;
  }
  return false;
}

/* Fills the emptier bucket first. So both buckets of a block are hardly ever full while half of the level is free. */
static bool add_to(struct level *level, uintptr_t address, const struct live_sample *sample) {
  uint64_t hash = hash_mixed(address >> 4);
  size_t one = bucket_of(level, hash, 0), other = bucket_of(level, hash, 1);
  bool other_first = taken_slots(level, one) > taken_slots(level, other);
  return add_in(level, other_first ? other : one, address, sample) ||
         add_in(level, other_first ? one : other, address, sample);
}

/* The largest level comes first, here and in searches: most of the blocks are there. */
bool live_add(uintptr_t address, const struct live_sample *sample) {
  if (is_half_full() && most_slots) grow();
  for (int number = atomic_load(&level_count); number-- > 0;) {
    if (add_to(&levels[number], address, sample)) return true;
  }
  return false;
}

static bool empty_slot(struct level *level, size_t at, uintptr_t address, struct live_sample *out) {
  uintptr_t key = address;
  if (!atomic_compare_exchange_strong(&level->keys[at], &key, CLAIMED)) return false;
  atomic_fetch_add(&emptied, 1);
  copy_sample(out, &level->samples[at]);
  filter_remove(address);
  piece_remove(address);
  atomic_fetch_sub(&count, 1);
  atomic_store_explicit(&level->keys[at], 0, memory_order_release);
  return true;
}

bool live_take(uintptr_t address, struct live_sample *out) {
  if (take_pooled(address, out)) return true;
  uint64_t hash = hash_mixed(address >> 4);
  for (int number = atomic_load(&level_count); number-- > 0 && address > CLAIMED;) {
    size_t at = find_slot(&levels[number], address, hash);
    if (at != NO_SLOT && empty_slot(&levels[number], at, address, out)) return true;
  }
  return false;
}

static struct live_sample *find_in(struct level *level, uintptr_t address, uint64_t id) {
  for (int i = 0; i < PLACES; i++) {
    size_t at = slot_of(level, address, i);
    if (atomic_load_explicit(&level->keys[at], memory_order_acquire) == address &&
        FIELD_READ(level->samples[at].id) == id)
      return &level->samples[at];
  }
  return NULL;
}

static struct live_sample *find(uintptr_t address, uint64_t id) {
  struct live_sample *found = NULL;
  for (int number = atomic_load(&level_count); number-- > 0 && !found && address > CLAIMED;) {
    found = find_in(&levels[number], address, id);
  }
  return found;
}

/* Returns the followed block of a pool with that id, and the word with it; else null. */
static struct shadow_block *find_pooled(uintptr_t address, uint64_t id, uint64_t *word) {
  struct shadow_block *block = shadow_of(address);
  *word = block ? atomic_load_explicit(&block->id, memory_order_acquire) : 0;
  return *word && (*word & SHADOW_ID) == id ? block : NULL;
}

bool live_find(uintptr_t address, uint64_t id, uint64_t *usable) {
  uint64_t word;
  if (find_pooled(address, id, &word)) return *usable = bytes_of(word), true;
  const struct live_sample *sample = find(address, id);
  if (sample) *usable = FIELD_READ(sample->usable);
  return sample && FIELD_READ(sample->id) == id;
}

bool live_set_type(uintptr_t address, uint64_t id, uint64_t type) {
  uint64_t word;
  struct shadow_block *block = find_pooled(address, id, &word);
  if (block) {
    FIELD_WRITE(*shadow_type(address), type);
    return atomic_compare_exchange_strong(&block->id, &word, word | SHADOW_TYPED);
  }
  struct live_sample *sample = find(address, id);
  if (sample) FIELD_WRITE(sample->type, type);
  return sample != NULL;
}

static uint64_t python_block_in(struct level *level, uintptr_t address, size_t bytes) {
  for (int i = 0; i < PLACES; i++) {
    size_t at = slot_of(level, address, i);
    const struct live_sample *sample = &level->samples[at];
    if (atomic_load_explicit(&level->keys[at], memory_order_acquire) != address) continue;
    bool is_it = FIELD_READ(sample->python) && FIELD_READ(sample->usable) >= bytes;
    uint64_t id = FIELD_READ(sample->id);
    atomic_thread_fence(memory_order_acquire); /* the slot may have become another block's */
    if (is_it && atomic_load_explicit(&level->keys[at], memory_order_relaxed) == address) return id;
  }
  return 0;
}

/* The last answers. One thread may write an entry while another one reads it; then its words do not fit each other. */
#define ANSWERS 256
static struct answer {
  _Atomic uint64_t id, check;
} answers[ANSWERS];

uint64_t live_python_block(uintptr_t address, size_t bytes) {
  const struct shadow_block *pooled = shadow_of(address);
  uint64_t word = pooled ? atomic_load_explicit(&pooled->id, memory_order_relaxed) : 0, id = 0;
  if (word) return bytes_of(word) >= bytes ? word & SHADOW_ID : 0;
  /* The same classes are asked for again and again, and while no slot is emptied, their blocks are alive. */
  uint64_t question = hash_pair(hash_pair(address, bytes), atomic_load(&emptied));
  struct answer *answer = &answers[hash_mixed(address) % ANSWERS];
  id = atomic_load_explicit(&answer->id, memory_order_relaxed);
  if (id && (atomic_load_explicit(&answer->check, memory_order_relaxed) ^ id) == question) return id;
  id = 0;
  for (int number = atomic_load(&level_count); number-- > 0 && !id && address > CLAIMED;) {
    id = python_block_in(&levels[number], address, bytes);
  }
  if (id) {
    atomic_store_explicit(&answer->id, id, memory_order_relaxed);
    atomic_store_explicit(&answer->check, id ^ question, memory_order_relaxed);
  }
  return id;
}

void live_watch(uintptr_t address) {
  filter_add(address);
  piece_add(address);
}

void live_unwatch(uintptr_t address) {
  filter_remove(address);
  piece_remove(address);
}

static void thin_level(struct level *level, bool (*keep)(struct live_sample *sample)) {
  for (size_t at = 0; at < level->slots; at++) {
    uintptr_t address = atomic_load_explicit(&level->keys[at], memory_order_acquire);
    struct live_sample *there = &level->samples[at], sample, gone;
    if (address <= CLAIMED) continue;
    copy_sample(&sample, there);
    bool kept = keep(&sample);
    if (kept && FIELD_READ(there->id) == sample.id) FIELD_WRITE(there->interval, sample.interval);
    if (kept || !empty_slot(level, at, address, &gone)) continue;
    /* The block may have been freed, allocated and sampled again in the meantime. */
    if (gone.id != sample.id) live_add(address, &gone);
  }
}

void live_thin(bool (*keep)(struct live_sample *sample)) {
  for (int number = atomic_load(&level_count); number-- > 0;) thin_level(&levels[number], keep);
}

/* Fresh zero pages are cheaper than clearing copies of the parent's pages. */
void live_postfork_child(void) {
  for (int number = atomic_load(&level_count); number-- > 0;) {
    syscall(SYS_madvise, levels[number].keys, levels[number].slots * sizeof *levels->keys, (long)MADV_DONTNEED);
  }
  shadow_postfork_child();
  if (atomic_load(&level_count) == 0) return;
  syscall(SYS_madvise, live_filter, sizeof live_filter, (long)MADV_DONTNEED);
  syscall(SYS_madvise, live_pieces, sizeof live_pieces, (long)MADV_DONTNEED);
  syscall(SYS_madvise, followed_near, sizeof followed_near, (long)MADV_DONTNEED);
  atomic_fetch_add(&emptied, 1);
  atomic_store(&growing, 0);
  atomic_store(&count, 0);
}

void live_release(void) {
  shadow_release();
  for (int number = atomic_exchange(&level_count, 0); number-- > 0;) {
    syscall(SYS_munmap, levels[number].keys, levels[number].slots * sizeof *levels->keys);
    syscall(SYS_munmap, levels[number].samples, levels[number].slots * sizeof *levels->samples);
  }
}
