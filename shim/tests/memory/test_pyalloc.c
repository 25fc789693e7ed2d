/* pyalloc.c in a recording that begins paused: the allocators are wrapped, and the pools counted, once each time. And in a
 * process that is attached to: they are wrapped and put back. */
#include "inside/memory/pyalloc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/accounts/live.h"
#include "inside/arenas/arenas.h"
#include "inside/core/next.h"
#include "inside/memory/memory.h"
#include "inside/memory/sampler.h"
#include "inside/python/python.h"
#include "inside/stacks/codes.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/objects/pools.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "tests/check.h"

static struct spool_header header;
struct spool_header *spool = &header;
enum memory_mode memory_mode = MEMORY_COUNT;
THREAD_LOCAL struct memory_state this_memory = NEW_MEMORY_STATE;
const struct python_layout *python_layout = &(struct python_layout){.object_header = 0};
struct python_symbols python_symbols;
_Atomic uint8_t live_filter[LIVE_FILTER_CELLS];
_Atomic uint32_t live_pieces[LIVE_PIECES];

#define IN_POOLS 1234567
static int ticks_due;   /* one in each of the next calls of pyalloc_resume, before it wraps */
static int pools_found; /* how often what they hold was counted */

bool python_holds_gil(void) {
  if (ticks_due > 0) {
    ticks_due--;
    pyalloc_resume();
  }
  return true;
}
int64_t arenas_used_bytes(void) { return IN_POOLS; }
void memory_found(int64_t in_pools) {
  check(in_pools == IN_POOLS);
  pools_found++;
}

void loss_add(enum loss loss) { header.losses[loss]++; }
bool safe_read_refused(void) { return false; }
/* By the kernel, as the sanitizers have guarded bytes between the variables. */
bool safe_read(void *to, const void *from, size_t size) {
  struct iovec own = {to, size}, other = {(void *)(uintptr_t)from, size};
  return process_vm_readv(getpid(), &own, 1, &other, 1, 0) == (ssize_t)size;
}
void arenas_note(uintptr_t base, bool alive) { (void)base, (void)alive; }
bool arenas_contain(uintptr_t address) { return address == 0; }
uint32_t live_note_piece(const void *block, bool pool) { return block && pool ? PIECE_QUIET : PIECE_OUTSIDE; }
bool live_forget_pieces(uintptr_t start, uintptr_t end) { return start > end; }
void codes_addresses_seen(bool seen) { (void)seen; }
void codes_forget_range(uintptr_t start, uintptr_t end) { (void)start, (void)end; }
void memory_stop_at_allocated(int which, const void *block, size_t size, size_t usable, int source, size_t moved) {
  (void)which, (void)block, (void)size, (void)usable, (void)source, (void)moved;
}
void memory_stop_at_freed(int which, size_t bytes) { (void)which, (void)bytes; }
void sampler_missed_frees(void) {}
void sampler_freed(uintptr_t address) { (void)address; }
bool sampler_take(uintptr_t address, struct live_sample *out) { return address == 0 && !out; }
void sampler_put_back(uintptr_t address, const struct live_sample *sample) { (void)address, (void)sample; }
void sampler_resized(const struct live_sample *sample, bool lives_on) { (void)sample, (void)lives_on; }

/* ---- an interpreter ---- */

struct allocator {
  void *context;
  void *(*malloc)(void *context, size_t size);
  void *(*calloc)(void *context, size_t count, size_t size);
  void *(*realloc)(void *context, void *block, size_t size);
  void (*free)(void *context, void *block);
};
struct arena_allocator {
  void *context;
  void *(*alloc)(void *context, size_t size);
  void (*free)(void *context, void *block, size_t size);
};

static void *own_malloc(void *context, size_t size) { return context ? NULL : malloc(size); }
static void *own_calloc(void *context, size_t count, size_t size) { return context ? NULL : calloc(count, size); }
static void *own_realloc(void *context, void *block, size_t size) { return context ? NULL : realloc(block, size); }
static void own_free(void *context, void *block) { free(context ? NULL : block); }
static char arena[ARENA_BYTES];
static void *own_arena(void *context, size_t size) { return !context && size == sizeof arena ? arena : NULL; }
static void own_arena_free(void *context, void *block, size_t size) { (void)context, (void)block, (void)size; }

enum { RAW, MEM, OBJ, DOMAINS };
static const struct allocator own = {NULL, own_malloc, own_calloc, own_realloc, own_free};
static struct {
  struct allocator allocators[DOMAINS];
  struct arena_allocator arenas;
} kept;
static struct allocator *const allocators = kept.allocators;
static const struct arena_allocator own_arenas = {NULL, own_arena, own_arena_free};

static void get_allocator(int domain, struct allocator *out) { *out = allocators[domain]; }
static void set_allocator(int domain, struct allocator *to) { allocators[domain] = *to; }
static void get_arenas(struct arena_allocator *out) { *out = kept.arenas; }
static void set_arenas(struct arena_allocator *to) { kept.arenas = *to; }
static int is_initialized(void) { return 0; }

void *python_symbol(const char *name) {
  static const struct {
    const char *name;
    void *address;
  } symbols[] = {
      {"PyMem_GetAllocator", get_allocator},      {"PyMem_SetAllocator", set_allocator},
      {"PyObject_GetArenaAllocator", get_arenas}, {"PyObject_SetArenaAllocator", set_arenas},
      {"Py_IsInitialized", is_initialized},
  };
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    if (strcmp(symbols[i].name, name) == 0) return symbols[i].address;
  }
  return NULL;
}

static bool is_wrapped(int domain) { return allocators[domain].malloc != own.malloc && allocators[domain].context; }

static void put_back_own(void) { allocators[MEM] = allocators[OBJ] = own; }

/* A recording begins paused, and the interpreter takes its first arena. */
static void begin(void) {
  allocators[RAW] = own;
  put_back_own();
  kept.arenas = own_arenas;
  header.paused = 1;
  pools_found = 0;
  pyalloc_init();
  check(kept.arenas.alloc(kept.arenas.context, ARENA_BYTES) == arena);
  check(!is_wrapped(MEM) && !is_wrapped(OBJ) && !pools_found);
  header.paused = 0;
}

static void test_a_resume_wraps_and_counts_once(void) {
  begin();
  pyalloc_resume();
  check(is_wrapped(MEM) && is_wrapped(OBJ) && !is_wrapped(RAW));
  pyalloc_resume();
  check(pools_found == 1);
}

static void test_a_tick_within_it_counts_in_its_place(void) {
  begin();
  ticks_due = 1;
  pyalloc_resume();
  check(!ticks_due && is_wrapped(MEM) && is_wrapped(OBJ));
  check(pools_found == 1);
}

static void test_a_tick_within_a_second_wrapping_counts_in_its_place(void) {
  begin();
  pyalloc_resume();
  put_back_own();
  ticks_due = 1;
  pyalloc_resume();
  check(!ticks_due && is_wrapped(MEM) && is_wrapped(OBJ));
  check(pools_found == 2 && header.losses[LOSS_allocator_covered] == 1);
}

/* ---- in a process that was attached to ---- */

static void begin_attached(void) {
  for (int domain = RAW; domain < DOMAINS; domain++) allocators[domain] = own;
  kept.arenas = own_arenas;
}

static void test_attached_and_put_back(void) {
  begin_attached();
  check(pyalloc_find_places());
  check(!is_wrapped(MEM) && !is_wrapped(OBJ) && kept.arenas.alloc == own_arena);
  pyalloc_wrap();
  check(is_wrapped(MEM) && is_wrapped(OBJ) && kept.arenas.alloc != own_arena);
  check(pyalloc_unwrap());
  for (int domain = RAW; domain < DOMAINS; domain++) check(memcmp(&allocators[domain], &own, sizeof own) == 0);
  check(memcmp(&kept.arenas, &own_arenas, sizeof own_arenas) == 0);
}

static void *others_malloc(void *below, size_t size) {
  const struct allocator *allocator = below;
  return allocator->malloc(allocator->context, size);
}

/* An allocator of the program lies over ours: ours goes on to be called, so it must go on to see arenas. */
static void test_attached_and_covered(void) {
  begin_attached();
  check(pyalloc_find_places());
  pyalloc_wrap();
  struct allocator ours = allocators[OBJ];
  allocators[OBJ] = (struct allocator){&ours, others_malloc, own_calloc, own_realloc, own_free};
  check(!pyalloc_unwrap() && kept.arenas.alloc != own_arena);
  allocators[OBJ] = ours;
  check(pyalloc_unwrap() && kept.arenas.alloc == own_arena && allocators[OBJ].malloc == own.malloc);
}

static void test_attached_where_a_place_is_unknown(void) {
  struct address_range all = python_symbols.data;
  begin_attached();
  python_symbols.data.end = (uintptr_t)&kept.arenas;
  check(!pyalloc_find_places());
  python_symbols.data.end = (uintptr_t)&allocators[OBJ];
  check(!pyalloc_find_places());
  python_symbols.data = all;
  check(memcmp(&kept.arenas, &own_arenas, sizeof own_arenas) == 0);
  check(memcmp(&allocators[OBJ], &own, sizeof own) == 0);
}

int main(void) {
  python_symbols.data = (struct address_range){(uintptr_t)&kept, (uintptr_t)(&kept + 1), 0};
  test_a_resume_wraps_and_counts_once();
  test_a_tick_within_it_counts_in_its_place();
  test_a_tick_within_a_second_wrapping_counts_in_its_place();
  test_attached_and_put_back();
  test_attached_and_covered();
  test_attached_where_a_place_is_unknown();
  puts("ok");
  return 0;
}
