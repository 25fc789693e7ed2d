/* Mappings without reserve: allocators inside libraries (jemalloc in polars and DuckDB, mimalloc in Arrow) map more than
 * they use, up to gigabytes at once. Their pages are counted from time to time by mincore, and the difference to the last
 * count is allocated or freed at that moment.
 *
 * A group is one mapping, of which parts may be unmapped. Its growth belongs to a stack that ran since the last count, or,
 * if that is a thread without Python, to the stack that mapped it not long ago. Samples of a group are ended in the
 * opposite order. */
#include "inside/memory/residency.h"

#include <sys/resource.h>

#include "formats/spool/spool.h"
#include "inside/accounts/live.h"
#include "inside/core/thread_state.h"
#include "inside/memory/memory.h"
#include "inside/memory/sampler.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/random.h"

#define MOST_GROUPS 2048
#define MOST_PIECES 8192
#define YOUNG_NS 1000000000
#define LEAST_PAUSE_NS 20000000
#define MOST_PAUSE_NS 1000000000
#define PAUSE_FACTOR 100    /* a count may take one percent of the time */
#define LEAST_CHANGE 262144 /* bytes: each change is a sample of the footprint */

struct group {
  bool used, seen;
  uint16_t last; /* its last piece; 0 = none */
  int64_t mapped_ns;
  uint64_t stack;
  int64_t counted; /* bytes that count as memory. Invariant: the sum of the bytes of its pieces */
  int64_t found;   /* bytes that the present count has found */
};

/* Bytes that one count has found in addition. */
struct piece {
  uint64_t id; /* of its sample; 0 = not sampled */
  int64_t bytes, sampled_bytes;
  uint16_t before; /* the piece before it in its group, or in the list of free pieces; 0 = none */
};

static struct group groups[MOST_GROUPS];
static struct piece pieces[MOST_PIECES];
static uint16_t free_pieces;         /* 0 = none */
static uint16_t used_pieces = 1;     /* those from there on were never used; number 0 is none */
static _Atomic uint32_t group_count; /* in use */
static uint16_t groups_end = 1;      /* those from there on were never used; number 0 is none */
static _Atomic int64_t total, due_ns;
static int64_t began_ns, began_cpu_ns;

bool residency_has_groups(void) { return atomic_load_explicit(&group_count, memory_order_relaxed) > 0; }

int64_t residency_bytes(void) { return atomic_load(&total); }

bool residency_is_full(void) { return atomic_load(&group_count) == MOST_GROUPS - 1; }

uint16_t residency_new_group(uint64_t stack) {
  for (uint16_t i = 1; i < MOST_GROUPS; i++) {
    if (groups[i].used) continue;
    groups[i] = (struct group){.used = true, .stack = stack, .mapped_ns = clock_now_ns()};
    if (i >= groups_end) groups_end = i + 1;
    atomic_fetch_add(&group_count, 1);
    return i;
  }
  loss_add(LOSS_mapping_missed);
  return 0;
}

bool residency_is_due(void) {
  int64_t due = atomic_load_explicit(&due_ns, memory_order_relaxed);
  return clock_now_ns() >= due && atomic_compare_exchange_strong(&due_ns, &due, INT64_MAX);
}

void residency_put_off(void) { atomic_store(&due_ns, clock_now_ns() + LEAST_PAUSE_NS); }

void residency_begin(void) {
  began_ns = clock_now_ns();
  began_cpu_ns = clock_thread_cpu_ns();
  for (size_t i = 1; i < groups_end; i++) {
    groups[i].seen = false;
    groups[i].found = 0;
  }
}

void residency_add(uint16_t group, int64_t bytes) {
  groups[group].seen = true;
  groups[group].found += bytes;
}

/* ---- whose pages ----
 *
 * A tick or a mapping says which stack runs, and the kernel how many page faults its thread has had since it last said
 * so. Of the stacks since the last count one is drawn, weighted by their faults. */

static _Atomic bool drawing;
static uint64_t faults, drawn_stack, random_state;

static void draw(uint64_t stack, uint64_t more) {
  if (atomic_exchange(&drawing, true)) return;
  if (!random_state) random_state = random_seed(this_thread.tid);
  faults += more;
  if (random_next(&random_state) % faults < more) drawn_stack = stack;
  atomic_store(&drawing, false);
}

void residency_note_running(uint64_t stack) {
  struct rusage usage;
  int64_t *seen = &this_memory.faults_seen;
  if (getrusage(RUSAGE_THREAD, &usage)) return;
  int64_t now = usage.ru_minflt + 1, more = now - *seen;
  if (*seen && more > 0) draw(stack, (uint64_t)more);
  *seen = now;
}

static uint64_t take_drawn(uint64_t running) {
  uint64_t stack = faults ? drawn_stack : running;
  faults = 0;
  return stack;
}

/* ---- pieces ---- */

static uint16_t take_piece(void) {
  uint16_t piece = free_pieces;
  if (piece) {
    free_pieces = pieces[piece].before;
  } else if (used_pieces < MOST_PIECES) {
    piece = used_pieces++;
  }
  return piece;
}

static void give_piece(uint16_t piece) {
  pieces[piece].before = free_pieces;
  free_pieces = piece;
}

/* Without a free piece, nobody is told when the bytes are freed. */
static void push_piece(struct group *group, const struct piece *added) {
  struct piece *last = &pieces[group->last];
  if (group->last && !last->id && !added->id) {
    last->bytes += added->bytes;
    return;
  }
  uint16_t piece = take_piece();
  if (!piece) return;
  pieces[piece] = *added;
  pieces[piece].before = group->last;
  group->last = piece;
}

static void end_piece(struct piece *piece, int64_t bytes, uint64_t stack) {
  struct live_sample sample = {.id = piece->id, .usable = (uint64_t)piece->sampled_bytes};
  if (!piece->id) return;
  sampler_ended(&sample, (uint64_t)bytes, stack, bytes == piece->sampled_bytes ? 0 : FREE_PART);
}

static void pop_pieces(struct group *group, int64_t bytes, uint64_t stack) {
  while (bytes > 0 && group->last) {
    uint16_t number = group->last;
    struct piece *piece = &pieces[number];
    int64_t taken = bytes < piece->bytes ? bytes : piece->bytes;
    end_piece(piece, taken, stack);
    bytes -= taken;
    piece->bytes -= taken;
    if (piece->bytes > 0) continue;
    group->last = piece->before;
    give_piece(number);
  }
}

/* ---- changes ---- */

static void grow(struct group *group, int64_t bytes, uint64_t running) {
  size_t size = (size_t)bytes;
  struct block block = {(uintptr_t)group, size, size, ALLOC_MMAP, false, true};
  struct piece piece = {.bytes = bytes, .sampled_bytes = bytes};
  bool young = began_ns - group->mapped_ns < YOUNG_NS;
  piece.id = memory_became_resident(&block, !running && young ? group->stack : running);
  push_piece(group, &piece);
}

static void shrink(struct group *group, int64_t bytes, uint64_t running) {
  pop_pieces(group, bytes, running);
  memory_left_residence((size_t)bytes, running);
}

static void settle_group(struct group *group, uint64_t stack) {
  int64_t change = group->found - group->counted;
  if (group->seen && change < LEAST_CHANGE && change > -LEAST_CHANGE) return;
  group->counted += change;
  atomic_fetch_add(&total, change);
  if (change > 0) grow(group, change, stack);
  if (change < 0) shrink(group, -change, stack);
  if (group->seen) return;
  group->used = false;
  atomic_fetch_sub(&group_count, 1);
}

void residency_settle(uint64_t running) {
  uint64_t stack = take_drawn(running);
  for (size_t i = 1; i < groups_end; i++) {
    if (groups[i].used) settle_group(&groups[i], stack);
  }
  int64_t pause_ns = (clock_thread_cpu_ns() - began_cpu_ns) * PAUSE_FACTOR;
  pause_ns = pause_ns < LEAST_PAUSE_NS ? LEAST_PAUSE_NS : pause_ns > MOST_PAUSE_NS ? MOST_PAUSE_NS : pause_ns;
  atomic_store(&due_ns, clock_now_ns() + pause_ns);
}

void residency_postfork_child(bool forget) {
  if (!residency_has_groups()) return;
  for (size_t i = 1; i < used_pieces; i++) pieces[i].id = 0;
  atomic_store(&due_ns, 0);
  if (!forget) return;
  for (size_t i = 1; i < groups_end; i++) groups[i].used = false;
  atomic_store(&group_count, 0);
  atomic_store(&total, 0);
}
