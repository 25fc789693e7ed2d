/* Python's allocators: MEM and OBJ (PyMem_SetAllocator) and the arenas (PyObject_SetArenaAllocator). RAW is the
 * system's allocator under another name. Extensions use it for bulk data (numpy from 2.5 on allocates its arrays
 * there), so it is not wrapped, and its blocks count as native.
 *
 * The wrappers forward every call and return its pointer unchanged. Blocks that Python takes from malloc are counted by
 * our malloc, which sees python_depth > 0. Only blocks that pymalloc serves from its own pools are counted here, so no
 * byte is counted twice. A block belongs to pymalloc if it lies in an arena, whose exact range is known; its size is in
 * the header of its pool.
 *
 * In a recording that begins paused, only the arenas are followed at first, and the allocators are wrapped when it is
 * resumed. What the pools hold then is counted at once. */
#include "inside/memory/pyalloc.h"

#include <link.h>
#include <sys/auxv.h>

#include "formats/spool/spool.h"
#include "inside/arenas/arenas.h"
#include "inside/core/next.h"
#include "inside/accounts/live.h"
#include "inside/memory/memory.h"
#include "inside/memory/sampler.h"
#include "inside/python/python.h"
#include "inside/stacks/codes.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/objects/pools.h"
#include "shared/saferead.h"
#include "shared/spool.h"

struct py_allocator {
  void *context;
  void *(*malloc)(void *context, size_t size);
  void *(*calloc)(void *context, size_t count, size_t size);
  void *(*realloc)(void *context, void *block, size_t size);
  void (*free)(void *context, void *block);
};
struct py_arena_allocator {
  void *context;
  void *(*alloc)(void *context, size_t size);
  void (*free)(void *context, void *block, size_t size);
};
enum { DOMAIN_RAW, DOMAIN_MEM, DOMAIN_OBJ, DOMAINS };

static void (*get_allocator)(int domain, struct py_allocator *out);
static void (*set_allocator)(int domain, struct py_allocator *allocator);
static struct py_arena_allocator arena_below;
static _Atomic uint64_t arenas_seen;
static bool installed, any_arena;
/* Python's allocators are to be wrapped when a recording that began paused is resumed. Until then they cost nothing. */
static _Atomic bool put_off, wrapping;

_Static_assert(POOL_BYTES == PIECE_BYTES, "a pool is a piece");

static void note_arena(uintptr_t base, bool alive) {
  arenas_note(base, alive);
  if (live_forget_pieces(base, base + ARENA_BYTES) && !alive) sampler_missed_frees(); /* an interpreter has ended */
}

static SLOW_PATH uint32_t classify_piece(const void *block) {
  return live_note_piece(block, arenas_contain((uintptr_t)block));
}

/* Returns the kind of the piece that contains the block, which the caller owns. Pools are aligned, so no piece contains
 * both blocks of a pool and others. */
static inline uint32_t piece_of(const void *block) {
  uint32_t piece = live_piece(block);
  return likely(live_piece_known(piece)) ? piece : classify_piece(block);
}

static inline size_t pool_size_class(const void *block) {
  const char *pool = (const char *)((uintptr_t)block & ~(uintptr_t)(POOL_BYTES - 1));
  return ((size_t)*(const uint32_t *)(pool + POOL_SIZE_CLASS) + 1) * 16;
}

/* Returns the bytes of a block of pymalloc; 0 = it is another block. */
static inline size_t pool_block_bytes(const void *block) {
  return block && piece_of(block) != PIECE_OUTSIDE ? pool_size_class(block) : 0;
}

/* ---- the allocators ---- */

static struct py_allocator pymalloc; /* pymalloc's own functions; their context is null */
static struct py_allocator below[2][DOMAINS];

/* An allocator is wrapped while the program runs, in several words. A thread that has read one of them before may call a
 * function of ours with pymalloc's context. So do programs that asked for the functions and know that pymalloc has none
 * (those that Nuitka compiles). */
static struct py_allocator *beneath(void *context) { return context ? context : &below[0][DOMAIN_OBJ]; }

/* Works with any allocator below: what that takes from malloc is counted there, and blocks of pools are counted
 * here. */
static void *count_if_pooled(struct memory_state *m, void *block, size_t size) {
  size_t usable = pool_block_bytes(block);
  if (usable) memory_count_allocated(m, PYTHON, block, size, usable, ALLOC_PYMALLOC);
  return block;
}

static void *python_malloc(void *context, size_t size) {
  const struct py_allocator *under = beneath(context);
  struct memory_state *m = &this_memory;
  m->python_depth++;
  void *block = under->malloc(under->context, size);
  m->python_depth--;
  return count_if_pooled(m, block, size);
}

static void *python_calloc(void *context, size_t count, size_t size) {
  struct py_allocator *under = beneath(context);
  struct memory_state *m = &this_memory;
  m->python_depth++;
  void *block = under->calloc(under->context, count, size);
  m->python_depth--;
  return count_if_pooled(m, block, count * size);
}

static void count_resized(struct memory_state *m, const void *block, size_t size, size_t before, size_t after) {
  if (after) {
    memory_count_resized(m, PYTHON, block, size, before, after, ALLOC_PYMALLOC);
  } else if (before) {
    memory_count_freed(m, PYTHON, before);
  }
}

/* malloc counts and follows the blocks outside the pools. */
static void *python_realloc(void *context, void *block, size_t size) {
  struct py_allocator *under = beneath(context);
  struct memory_state *m = &this_memory;
  struct live_sample sample;
  uint32_t piece = likely(block != NULL) ? piece_of(block) : PIECE_OUTSIDE;
  size_t before = piece == PIECE_OUTSIDE ? 0 : pool_size_class(block);
  bool followed = piece == PIECE_WATCHED && live_maybe(block) && sampler_take((uintptr_t)block, &sample);
  m->python_depth++;
  void *result = under->realloc(under->context, block, size);
  m->python_depth--;
  if (!result) {
    if (followed) sampler_put_back((uintptr_t)block, &sample);
    return NULL;
  }
  if (followed) sampler_resized(&sample, true);
  count_resized(m, result, size, before, result == block ? before : pool_block_bytes(result));
  return result;
}

/* The allocator below calls free, which counts. */
static void free_outside_pools(struct py_allocator *under, void *block) {
  struct memory_state *m = &this_memory;
  m->python_depth++;
  under->free(under->context, block);
  m->python_depth--;
}

static SLOW_PATH void free_and_stop(struct py_allocator *under, void *block) {
  memory_stop_at_freed(PYTHON, pool_size_class(block));
  under->free(under->context, block);
}

static inline void free_counted(struct py_allocator *under, void *block) {
  if (unlikely((this_memory.stream[PYTHON].free_left -= (int64_t)pool_size_class(block)) < 0)) {
    free_and_stop(under, block);
    return;
  }
  under->free(under->context, block);
}

/* Handles a block that may be followed, lies in no pool, or lies in a piece of unknown kind. */
static APART void free_checked(struct py_allocator *under, void *block) {
  if (!block || piece_of(block) == PIECE_OUTSIDE) {
    free_outside_pools(under, block);
    return;
  }
  if (live_maybe(block)) sampler_freed((uintptr_t)block);
  free_counted(under, block);
}

/* A block of a pool that may be followed. */
static APART void free_watched(struct py_allocator *under, void *block) {
  sampler_freed((uintptr_t)block);
  free_counted(under, block);
}

static APART void free_otherwise(struct py_allocator *under, void *block, uint32_t piece) {
  if (piece == PIECE_OUTSIDE) {
    free_outside_pools(under, block);
  } else if (piece == PIECE_WATCHED && live_maybe(block)) {
    free_watched(under, block);
  } else if (piece == PIECE_QUIET || piece == PIECE_WATCHED) {
    free_counted(under, block);
  } else {
    free_checked(under, block);
  }
}

static void python_free(void *context, void *block) { free_otherwise(beneath(context), block, live_piece(block)); }

/* ---- pymalloc directly below ----
 *
 * Small blocks come from pools, in size classes of 16 bytes. So they are counted before the call, which is the
 * last statement. (If no memory is available for an arena, pymalloc calls malloc instead, and the block is
 * counted twice.) */

#define SMALL_BYTES 512
#define CLASS_BYTES(size) (((size) + 15) & ~(size_t)15)

/* The countdown ends with this block, so it may be a sample. */
static APART void *malloc_and_stop(size_t size) {
  size_t usable = CLASS_BYTES(size);
  void *block = pymalloc.malloc(NULL, size);
  if (block) {
    memory_stop_at_allocated(PYTHON, block, size, usable, ALLOC_PYMALLOC, usable);
  } else {
    this_memory.stream[PYTHON].left += (int64_t)usable;
  }
  return block;
}

/* pymalloc calls malloc, which counts. */
static APART void *malloc_outside_pools(size_t size) {
  struct memory_state *m = &this_memory;
  m->python_depth++;
  void *block = pymalloc.malloc(NULL, size);
  m->python_depth--;
  return block;
}

/* Both get the allocator below as context, but call pymalloc's own functions directly. */
static HOT void *pymalloc_malloc(void *context, size_t size) {
  (void)context;
  if (unlikely(size - 1 >= SMALL_BYTES)) return malloc_outside_pools(size);
  if (unlikely((this_memory.stream[PYTHON].left -= (int64_t)CLASS_BYTES(size)) < 0)) return malloc_and_stop(size);
  return pymalloc.malloc(NULL, size);
}

static HOT void pymalloc_free(void *context, void *block) {
  (void)context; /* it may be pymalloc's, see beneath */
  uint32_t piece = live_piece(block);
  if (unlikely(piece != PIECE_QUIET)) {
    free_otherwise(&pymalloc, block, piece);
  } else if (unlikely((this_memory.stream[PYTHON].free_left -= (int64_t)pool_size_class(block)) < 0)) {
    free_and_stop(&pymalloc, block);
  } else {
    pymalloc.free(NULL, block);
  }
}

/* ---- installing, and installing again ---- */

/* Where Python keeps them, if wrapping was put off; else null. */
static struct py_allocator *place[DOMAINS];

static void wrap_domain(int domain, struct py_allocator *save) {
  get_allocator(domain, save);
  struct py_allocator ours = {save, python_malloc, python_calloc, python_realloc, python_free};
  set_allocator(domain, &ours);
}

static void wrap_all(int turn) {
  for (int domain = DOMAIN_MEM; domain < DOMAINS; domain++) wrap_domain(domain, &below[turn][domain]);
}

/* pymalloc has no context; Python's debug allocators have one. */
static bool is_pymalloc(const struct py_allocator *allocator) {
  return !allocator->context && allocator->malloc == pymalloc.malloc && allocator->free == pymalloc.free;
}

/* PYTHONMALLOC and dev mode replace our allocators during the start, before the first small allocation. They do not
 * replace the arena allocator, so the first arena reveals the change, and the wrappers are put around the new
 * allocators. If that arena is requested through ours, an allocator was only put around them, by a preloaded library's
 * constructor: a second wrapper would count twice, and an allocator that looks whether it is on top, and puts itself
 * around what it finds, would call itself for ever. Later nothing is wrapped again, unless a recording began paused: an
 * allocator that the program or tracemalloc installs then is put around ours. */
static void replaced(void) {
  loss_add(LOSS_allocator_replaced);
  wrap_all(1);
}

/* The wrappers cost some programs 3 % of their time, in pauses too, which is more than a recording with a small budget may
 * cost. */
static bool has_arenas_only(void) { return spool->features & FEATURE_ARENAS_ONLY; }

static void at_first_arena(void) {
  struct py_allocator now;
  if (has_arenas_only()) return;
  get_allocator(DOMAIN_OBJ, &now);
  if (atomic_load(&put_off)) {
    if (is_pymalloc(&now)) return;
    atomic_store(&put_off, false);
    place[DOMAIN_MEM] = place[DOMAIN_OBJ] = NULL;
    replaced();
    return;
  }
  if (now.malloc != python_malloc) {
    if (!this_memory.python_depth) replaced();
    return;
  }
  for (int domain = DOMAIN_MEM; domain < DOMAINS; domain++) {
    get_allocator(domain, &now);
    if (now.malloc != python_malloc || !is_pymalloc(&below[0][domain])) continue;
    now.malloc = pymalloc_malloc;
    now.free = pymalloc_free;
    set_allocator(domain, &now);
    if (domain == DOMAIN_OBJ) codes_addresses_seen(true);
  }
}

/* ---- wrapping put off until the recording is resumed ----
 *
 * A tick or a stop of malloc finds out that it goes on. There, the program may be inside PyMem_SetAllocator, which takes a
 * lock from 3.12 on. So the places where Python keeps its allocators are found at the start, and are written directly. */

static const char mark;

/* Returns where that, which begins with the address of the mark, lies in the interpreter's data; null = nowhere. */
static void *find_marked(const void *marked, size_t size) {
  uintptr_t at = python_symbols.data.start, end = python_symbols.data.end;
  while (at + size <= end &&
         (*(const uintptr_t *)at != (uintptr_t)&mark || memcmp((const void *)at, marked, size) != 0))
    at += sizeof(void *);
  return at + size <= end ? (void *)at : NULL;
}

/* Marks the allocator of a domain and looks for the mark in the interpreter's data. */
static struct py_allocator *find_place(int domain) {
  struct py_allocator own, marked;
  get_allocator(domain, &own);
  if (own.context) return NULL;
  marked = own;
  marked.context = (void *)&mark;
  set_allocator(domain, &marked);
  struct py_allocator *found = find_marked(&marked, sizeof marked);
  set_allocator(domain, &own);
  return found;
}

/* Returns false if the allocators must be wrapped now. */
static bool put_off_wrapping(void) {
  if (!spool->paused) return false;
  for (int domain = DOMAIN_MEM; domain < DOMAINS; domain++) {
    place[domain] = find_place(domain);
    if (!place[domain]) return place[DOMAIN_MEM] = NULL, false;
    get_allocator(domain, &below[0][domain]);
  }
  return true;
}

/* The program, or tracemalloc, has put an allocator of its own around Python's and will take it away again: a wrapper
 * around that one would be lost then. A parent that was wrapping while it forked may have written some of the words. */
static bool is_covered(void) {
  for (int domain = DOMAIN_MEM; domain < DOMAINS; domain++) {
    const struct py_allocator *now = place[domain];
    bool is_own = (now->malloc == pymalloc.malloc || now->malloc == pymalloc_malloc) &&
                  (now->free == pymalloc.free || now->free == pymalloc_free);
    if (!is_own || (now->context && now->context != &below[0][domain])) return true;
  }
  return false;
}

/* free comes first: a block that our malloc has followed must not be freed without us. */
static void wrap_directly(int domain) {
  struct py_allocator ours = {&below[0][domain], pymalloc_malloc, python_calloc, python_realloc, pymalloc_free};
  const uintptr_t *from = (const void *)&ours;
  for (size_t i = sizeof ours / sizeof *from; i-- > 0;) atomic_store((_Atomic uintptr_t *)place[domain] + i, from[i]);
}

static void note_covered(void) {
  static _Atomic bool told;
  if (!atomic_exchange(&told, true)) loss_add(LOSS_allocator_covered);
}

/* Another allocator was put around Python's while they were being wrapped, and was taken away again. */
static bool are_unwrapped(void) {
  const struct py_allocator *mem = place[DOMAIN_MEM], *obj = place[DOMAIN_OBJ];
  return obj && atomic_load(&arenas_seen) &&
         (obj->malloc == pymalloc.malloc || obj->free == pymalloc.free || mem->malloc == pymalloc.malloc ||
          mem->free == pymalloc.free);
}

/* ---- pointers of the program's own ----
 *
 * A program that asked for the functions before they were wrapped (those that Nuitka compiles do, and keep each in a variable)
 * allocates past ours, and frees through them. */

enum { FUNCTIONS = 4, WORDS = 4096, MOST_WORDS = 1 << 21 };

/* An allocator, as Python keeps several in its data, holds all four functions in order. Returns the place of another pointer,
 * or of one whose next words are not there. */
static size_t find_pointer(const uintptr_t *words, size_t count, bool is_pythons) {
  const uintptr_t *own = (const void *)&pymalloc.malloc;
  size_t at = 0;
  while (at < count && (words[at] != own[0] || (is_pythons && count - at >= FUNCTIONS &&
                                                memcmp(words + at, own, FUNCTIONS * sizeof *own) == 0)))
    at++;
  return at;
}

/* The program may have made some of its data unreadable. */
static bool has_pointer(uintptr_t at, uintptr_t end) {
  bool is_pythons = at < python_symbols.data.end && python_symbols.data.start < end;
  static uintptr_t words[WORDS]; /* one thread at a time wraps */
  while (at < end) {
    size_t count = (end - at) / sizeof *words < WORDS ? (end - at) / sizeof *words : WORDS;
    if (!count || !safe_read(words, (const void *)at, count * sizeof *words)) return false;
    size_t found = find_pointer(words, count, is_pythons);
    bool is_cut = found && count - found < FUNCTIONS;
    if (found < count && !is_cut) return true;
    at += (is_cut ? found : count) * sizeof *words;
  }
  return false;
}

/* In the writable data of the program itself, not of its libraries. Of large data, only the beginning is read: this may be a
 * signal handler. */
static bool program_has_pointer(void) {
  const ElfW(Phdr) *headers = (const void *)getauxval(AT_PHDR);
  size_t count = getauxval(AT_PHNUM);
  uintptr_t moved = 0;
  for (size_t i = 0; headers && i < count; i++)
    if (headers[i].p_type == PT_PHDR) moved = (uintptr_t)headers - headers[i].p_vaddr;
  for (size_t i = 0; headers && i < count; i++) {
    if (headers[i].p_type != PT_LOAD || !(headers[i].p_flags & PF_W)) continue;
    uintptr_t start = (moved + headers[i].p_vaddr + 7) & ~(uintptr_t)7;
    uintptr_t end = (moved + headers[i].p_vaddr + headers[i].p_memsz) & ~(uintptr_t)7;
    if (end > start && (end - start) / sizeof(uintptr_t) > MOST_WORDS) end = start + MOST_WORDS * sizeof(uintptr_t);
    if (has_pointer(start, end)) return true;
  }
  return false;
}

static void note_bypassed(void) {
  if (!safe_read_refused() && program_has_pointer()) loss_add(LOSS_allocator_bypassed);
}

static void wrap_now(bool first) {
  for (int domain = DOMAIN_MEM; domain < DOMAINS; domain++) wrap_directly(domain);
  atomic_store(&put_off, false);
  if (first) {
    note_bypassed();
  } else {
    note_covered();
    sampler_missed_frees();
  }
  if (safe_read_refused()) loss_add(LOSS_pools_unread);
  memory_found(safe_read_refused() ? pyalloc_arena_bytes() : arenas_used_bytes());
  codes_addresses_seen(true);
}

void pyalloc_resume(void) {
  bool first = atomic_load_explicit(&put_off, memory_order_relaxed);
  if (likely(!first && !are_unwrapped())) return;
  if (!atomic_load(&arenas_seen) || !python_holds_gil()) return; /* before the first arena there are no pools */
  if (is_covered()) {
    note_covered();
    return;
  }
  if (atomic_exchange(&wrapping, true)) return;
  if (first ? atomic_load(&put_off) : are_unwrapped()) wrap_now(first); /* else a tick has done it since */
  atomic_store(&wrapping, false);
}

void pyalloc_postfork_child(void) { atomic_store(&wrapping, false); }

#define MOST_SUMMED_BYTES ((int64_t)64 << 20) /* of arenas: a forked child waits while they are read, 5 us for a MiB */

static _Atomic int64_t arena_bytes;

int64_t pyalloc_arena_bytes(void) { return atomic_load(&arena_bytes); }

int64_t pyalloc_uncounted_bytes(void) {
  if (likely(!atomic_load(&put_off))) return 0;
  int64_t whole = pyalloc_arena_bytes();
  return whole > MOST_SUMMED_BYTES || safe_read_refused() ? whole : arenas_used_bytes();
}

/* Python 3.11 and later take the chunks of their frame stack from the arena allocator. They are memory, but hold no
 * pools. */
static void count_chunk(void *chunk, size_t size) {
  struct memory_state *m = &this_memory;
  m->python_outside_pools += (int64_t)size;
  memory_count_allocated(m, PYTHON, chunk, size, size, ALLOC_CHUNK);
}

static void count_chunk_freed(void *chunk, size_t size) {
  struct memory_state *m = &this_memory;
  if (live_maybe(chunk)) sampler_freed((uintptr_t)chunk);
  m->python_outside_pools -= (int64_t)size;
  memory_count_freed(m, PYTHON, size);
}

static void count_arena(void *arena) {
  if (has_arenas_only()) memory_count_allocated(&this_memory, PYTHON, arena, ARENA_BYTES, ARENA_BYTES, ALLOC_ARENA);
}

static void count_arena_freed(void *arena) {
  if (!has_arenas_only()) return;
  if (live_maybe(arena)) sampler_freed((uintptr_t)arena);
  memory_count_freed(&this_memory, PYTHON, ARENA_BYTES);
}

static void *arena_alloc(void *context, size_t size) {
  (void)context;
  this_memory.python_depth++;
  void *arena = arena_below.alloc(arena_below.context, size);
  this_memory.python_depth--;
  if (!arena) return NULL;
  if (size == ARENA_BYTES) {
    note_arena((uintptr_t)arena, true);
    atomic_fetch_add(&arena_bytes, ARENA_BYTES);
    if (atomic_fetch_add(&arenas_seen, 1) == 0) at_first_arena();
    count_arena(arena);
  } else {
    count_chunk(arena, size);
  }
  return arena;
}

static void arena_free(void *context, void *arena, size_t size) {
  (void)context;
  if (arena && size == ARENA_BYTES) {
    count_arena_freed(arena);
    note_arena((uintptr_t)arena, false);
    codes_forget_range((uintptr_t)arena, (uintptr_t)arena + size); /* of an interpreter that ends, with its blocks */
    atomic_fetch_sub(&arena_bytes, ARENA_BYTES);
  } else if (arena) {
    count_chunk_freed(arena, size);
  }
  this_memory.python_depth++;
  arena_below.free(arena_below.context, arena, size);
  this_memory.python_depth--;
}

static void (*get_arena)(struct py_arena_allocator *);
static void (*set_arena)(struct py_arena_allocator *);
static int (*is_initialized)(void);

static void install(void) {
  codes_addresses_seen(false);
  if (atomic_exchange(&arenas_seen, 0)) any_arena = true; /* of an interpreter before this one */
  if (any_arena) sampler_missed_frees();
  get_arena(&arena_below);
  struct py_arena_allocator ours = {NULL, arena_alloc, arena_free};
  set_arena(&ours);
  place[DOMAIN_MEM] = place[DOMAIN_OBJ] = NULL;
  atomic_store(&put_off, !has_arenas_only() && put_off_wrapping());
  if (has_arenas_only()) {
    for (int domain = DOMAIN_MEM; domain < DOMAINS; domain++) get_allocator(domain, &below[0][domain]);
  } else if (!atomic_load(&put_off)) {
    wrap_all(0);
  }
  pymalloc = below[0][DOMAIN_OBJ]; /* a program that has kept functions of ours may call them before the first arena */
  installed = true;
}

void pyalloc_init(void) {
  get_arena = python_symbol("PyObject_GetArenaAllocator");
  set_arena = python_symbol("PyObject_SetArenaAllocator");
  is_initialized = python_symbol("Py_IsInitialized");
  get_allocator = python_symbol("PyMem_GetAllocator");
  set_allocator = python_symbol("PyMem_SetAllocator");
  installed = false;
  if (!python_layout || python_layout->object_header || !memory_counts() || !get_arena || !set_arena ||
      !get_allocator || !set_allocator)
    return;
  if (is_initialized && !is_initialized()) {
    install();
  } else {
    loss_add(LOSS_python_late);
  }
}

/* From 3.12 on, an interpreter that starts a second time has its first allocators again. */
void pyalloc_start_again(void) {
  struct py_arena_allocator arena;
  struct py_allocator object;
  if (!installed || is_initialized()) return;
  get_arena(&arena);
  get_allocator(DOMAIN_OBJ, &object);
  const struct py_allocator *first = &below[0][DOMAIN_OBJ];
  bool is_reset = arena.alloc == arena_below.alloc && arena.context == arena_below.context &&
                  object.malloc == first->malloc && object.context == first->context;
  if (is_reset) install();
}

void pyalloc_end(void) {
  if (installed && !any_arena && !atomic_load(&arenas_seen)) loss_add(LOSS_python_malloc);
}

/* ---- in a process that was attached to ---- */

static struct py_arena_allocator *arena_place;

static void find_functions(void) {
  get_arena = python_symbol("PyObject_GetArenaAllocator");
  set_arena = python_symbol("PyObject_SetArenaAllocator");
  get_allocator = python_symbol("PyMem_GetAllocator");
  set_allocator = python_symbol("PyMem_SetAllocator");
}

void pyalloc_older_arena(uintptr_t base) {
  note_arena(base, true);
  atomic_fetch_add(&arena_bytes, ARENA_BYTES);
  atomic_fetch_add(&arenas_seen, 1);
}

bool pyalloc_can_wrap(void) {
  struct py_allocator raw, mem, object;
  struct py_arena_allocator arena;
  find_functions();
  if (!get_arena || !set_arena || !get_allocator || !set_allocator) return false;
  get_allocator(DOMAIN_RAW, &raw);
  get_allocator(DOMAIN_MEM, &mem);
  get_allocator(DOMAIN_OBJ, &object);
  get_arena(&arena);
  return !mem.context && !object.context && !arena.context && mem.malloc == object.malloc && mem.free == object.free &&
         mem.calloc == object.calloc && mem.realloc == object.realloc && object.malloc != raw.malloc;
}

static struct py_arena_allocator *find_arena_place(void) {
  struct py_arena_allocator marked = arena_below;
  marked.context = (void *)&mark;
  set_arena(&marked);
  struct py_arena_allocator *found = find_marked(&marked, sizeof marked);
  set_arena(&arena_below);
  return found;
}

bool pyalloc_find_places(void) {
  find_functions();
  get_arena(&arena_below);
  arena_place = find_arena_place();
  for (int domain = DOMAIN_MEM; domain < DOMAINS; domain++) {
    place[domain] = find_place(domain);
    get_allocator(domain, &below[0][domain]);
  }
  return arena_place && place[DOMAIN_MEM] && place[DOMAIN_OBJ];
}

void pyalloc_wrap(void) {
  pymalloc = below[0][DOMAIN_OBJ];
  __atomic_store_n(&arena_place->free, arena_free, __ATOMIC_SEQ_CST);
  __atomic_store_n(&arena_place->alloc, arena_alloc, __ATOMIC_SEQ_CST);
  for (int domain = DOMAIN_MEM; domain < DOMAINS; domain++) wrap_directly(domain);
  note_bypassed();
  codes_addresses_seen(true);
}

/* The context is the last to change: pymalloc's functions ignore it, and ours are right without it. */
static bool unwrap(int domain) {
  const struct py_allocator *now = place[domain];
  const uintptr_t *from = (const void *)&below[0][domain];
  if (now->malloc != pymalloc_malloc || now->free != pymalloc_free || now->calloc != python_calloc ||
      now->realloc != python_realloc)
    return now->malloc == pymalloc.malloc && now->free == pymalloc.free;
  for (size_t i = sizeof *now / sizeof *from; i-- > 0;) atomic_store((_Atomic uintptr_t *)place[domain] + i, from[i]);
  return true;
}

static bool unwrap_arenas(void) {
  if (arena_place->alloc != arena_alloc || arena_place->free != arena_free)
    return arena_place->alloc == arena_below.alloc && arena_place->free == arena_below.free;
  __atomic_store_n(&arena_place->alloc, arena_below.alloc, __ATOMIC_SEQ_CST);
  __atomic_store_n(&arena_place->free, arena_below.free, __ATOMIC_SEQ_CST);
  return true;
}

/* Arenas must be noted as long as an allocator of ours is called, also from below one of others: an address that has been an
 * arena may be that of a large block next, in front of which is no pool. */
bool pyalloc_unwrap(void) {
  bool done = true;
  for (int domain = DOMAIN_MEM; domain < DOMAINS; domain++) done = unwrap(domain) && done;
  return done && unwrap_arenas();
}
