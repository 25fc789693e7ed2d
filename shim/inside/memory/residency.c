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
#define LEAST_PAUSE_NS 20000000 /* between two counts; the steps of one have a shorter pause */
#define PAUSE_FACTOR 100        /* counts may take one percent of one processor */
#define LEAST_CHANGE 262144     /* bytes: each change is a sample of the footprint */
#define LEAST_TOGETHER 1048576  /* bytes: smaller changes of many groups are samples, too, if they sum up to this */

struct group {
  bool used, seen; /* seen: by the present count */
  bool moved;      /* since the present or last count began: it may not find all parts, or find one twice */
  bool marked;
  uint16_t last; /* its last piece; 0 = none */
  int64_t mapped_ns;
  uint64_t stack;
  int64_t counted; /* bytes that count as memory. Invariant: the sum of the bytes of its pieces, and `lost` */
  int64_t found;   /* bytes that the present count has found */
  int64_t lost;    /* bytes of `counted` for which there was no piece */
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
static uint16_t next_free = 1;       /* a hint: where to look for a group */
static _Atomic int64_t total, due_ns;
static _Atomic bool paused; /* the recording was paused since the last count began */
static bool paused_before;  /* or before that, since the last one that ended */
static int64_t began_ns;

bool residency_has_groups(void) { return atomic_load_explicit(&group_count, memory_order_relaxed) > 0; }

int64_t residency_bytes(void) { return atomic_load(&total); }

bool residency_is_full(void) { return atomic_load(&group_count) == MOST_GROUPS - 1; }

uint16_t residency_new_group(uint64_t stack) {
  for (uint16_t tries = 1; tries < MOST_GROUPS; tries++) {
    uint16_t i = next_free;
    next_free = i + 1 < MOST_GROUPS ? i + 1 : 1;
    if (groups[i].used) continue;
    groups[i] = (struct group){.used = true, .stack = stack, .mapped_ns = clock_now_ns()};
    if (i >= groups_end) groups_end = i + 1;
    atomic_fetch_add(&group_count, 1);
    return i;
  }
  loss_add(LOSS_mapping_missed);
  return 0;
}

void residency_moved(uint16_t group) { groups[group].moved = true; }

/* A group that was mapped during the count waits for the next one. */
static bool is_new(const struct group *group) { return group->mapped_ns >= began_ns; }

bool residency_has_moved(uint16_t group) { return groups[group].moved && !is_new(&groups[group]); }

void residency_begin_again(void) {
  for (size_t i = 1; i < groups_end; i++) {
    if (groups[i].moved) groups[i].found = 0;
  }
}

void residency_end_again(void) {
  for (size_t i = 1; i < groups_end; i++) groups[i].moved = false;
}

bool residency_is_due(void) {
  int64_t due = atomic_load_explicit(&due_ns, memory_order_relaxed);
  return clock_now_ns() >= due && atomic_compare_exchange_strong(&due_ns, &due, INT64_MAX);
}

void residency_put_off(int64_t used_ns, bool ended) {
  int64_t pause_ns = used_ns * PAUSE_FACTOR;
  if (ended && pause_ns < LEAST_PAUSE_NS) pause_ns = LEAST_PAUSE_NS;
  atomic_store(&due_ns, clock_now_ns() + pause_ns);
}

void residency_add(uint16_t group, int64_t bytes) {
  groups[group].seen = true;
  groups[group].found += bytes;
}

/* ---- whose pages ----
 *
 * A tick or a mapping says which stack runs, and the kernel how many page faults its thread has had since it last said
 * so. Of these stacks one is drawn, weighted by their faults. A count takes several steps, and does not find what was
 * touched behind it: so the faults since it began are kept for the next count, too. */

struct drawn {
  uint64_t faults, stack;
};
static _Atomic bool drawing;
static struct drawn before, since; /* the present or last count began */
static uint64_t random_state;

static void add(struct drawn *to, struct drawn more) {
  uint64_t sum = to->faults + more.faults;
  if (!more.faults) return;
  if (!random_state) random_state = random_seed(this_thread.tid);
  to->faults = sum;
  if (random_next(&random_state) % sum < more.faults) to->stack = more.stack;
}

/* If a tick of another thread is drawing, its stack and those before it wait for the next count. */
static void take_since(bool keep) {
  if (atomic_exchange(&drawing, true)) return;
  add(&before, since);
  if (!keep) since.faults = 0;
  atomic_store(&drawing, false);
}

void residency_note_running(uint64_t stack) {
  struct rusage usage;
  int64_t *seen = &this_memory.faults_seen;
  if (getrusage(RUSAGE_THREAD, &usage)) return;
  int64_t now = usage.ru_minflt + 1, more = now - *seen;
  bool known = *seen && more > 0;
  *seen = now;
  if (!known || atomic_exchange(&drawing, true)) return;
  add(&since, (struct drawn){(uint64_t)more, stack});
  atomic_store(&drawing, false);
}

void residency_begin(void) {
  began_ns = clock_now_ns();
  take_since(false);
  paused_before |= atomic_exchange(&paused, false);
  for (size_t i = 1; i < groups_end; i++) {
    groups[i].seen = groups[i].moved = false;
    groups[i].found = 0;
  }
}

static uint64_t draw(uint64_t running) {
  take_since(true);
  uint64_t stack = before.faults ? before.stack : running;
  before.faults = 0;
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

static void push_piece(struct group *group, uint16_t piece, int64_t bytes, uint64_t id) {
  struct piece *last = &pieces[group->last];
  if (!piece) {
    group->lost += bytes;
  } else if (group->last && !last->id && !id) {
    last->bytes += bytes;
    give_piece(piece);
  } else {
    pieces[piece] = (struct piece){.id = id, .bytes = bytes, .sampled_bytes = bytes, .before = group->last};
    group->last = piece;
  }
}

static void end_piece(struct piece *piece, int64_t bytes, uint64_t stack) {
  struct live_sample sample = {.id = piece->id, .usable = (uint64_t)piece->sampled_bytes};
  if (!piece->id) return;
  sampler_ended(&sample, (uint64_t)bytes, stack, bytes == piece->sampled_bytes ? 0 : FREE_PART);
}

static void pop_pieces(struct group *group, int64_t bytes, uint64_t stack) {
  int64_t untold = bytes < group->lost ? bytes : group->lost;
  group->lost -= untold;
  bytes -= untold;
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

static bool was_paused(void) { return paused_before || atomic_load(&paused); }

/* A sample for which there is no piece is not followed. */
static void grow(struct group *group, int64_t bytes, uint64_t running) {
  size_t size = (size_t)bytes;
  uint16_t piece = take_piece();
  struct block block = {.address = (uintptr_t)group,
                        .size = size,
                        .usable = size,
                        .source = ALLOC_MMAP,
                        .mapping = true,
                        .unfollowed = !piece};
  bool young = began_ns - group->mapped_ns < YOUNG_NS && !was_paused();
  push_piece(group, piece, bytes, memory_became_resident(&block, !running && young ? group->stack : running));
}

static void shrink(struct group *group, int64_t bytes, uint64_t running) {
  pop_pieces(group, bytes, running);
  memory_left_residence((size_t)bytes, running);
}

static int64_t change_of(const struct group *group) { return group->found - group->counted; }

static bool is_small(int64_t change, int64_t least) { return change < least && change > -least; }

static void settle_group(struct group *group, uint64_t stack, int64_t least) {
  int64_t change = change_of(group);
  if (group->seen && is_small(change, least)) return;
  group->counted += change;
  atomic_fetch_add(&total, change);
  if (change > 0) grow(group, change, stack);
  if (change < 0) shrink(group, -change, stack);
  if (group->seen) return;
  group->used = false;
  atomic_fetch_sub(&group_count, 1);
}

static bool is_settled_now(const struct group *group) { return group->used && !is_new(group) && !group->moved; }

/* Returns the smallest change that is a sample. */
static int64_t least_change(void) {
  int64_t together = 0;
  for (size_t i = 1; i < groups_end; i++) {
    bool counts = is_settled_now(&groups[i]) && is_small(change_of(&groups[i]), LEAST_CHANGE);
    if (counts) together += change_of(&groups[i]);
  }
  return is_small(together, LEAST_TOGETHER) ? LEAST_CHANGE : 1;
}

/* What changed in a pause belongs to no line. */
void residency_settle(uint64_t running) {
  uint64_t stack = draw(running);
  int64_t least = least_change();
  if (was_paused()) stack = 0;
  for (size_t i = 1; i < groups_end; i++) {
    if (is_settled_now(&groups[i])) settle_group(&groups[i], stack, least);
  }
  paused_before = false;
}

void residency_clear_marks(void) {
  for (size_t i = 1; i < groups_end; i++) groups[i].marked = false;
}

void residency_mark(uint16_t group) { groups[group].marked = true; }

void residency_drop_unmarked(uint64_t running) {
  for (size_t i = 1; i < groups_end; i++) {
    if (!groups[i].used || groups[i].marked) continue;
    groups[i].seen = false;
    groups[i].found = 0;
    settle_group(&groups[i], running, LEAST_CHANGE);
  }
}

void residency_note_pause(void) { atomic_store(&paused, true); }

void residency_postfork_child(bool forget) {
  atomic_store(&drawing, false);
  atomic_store(&due_ns, 0);
  before.faults = since.faults = 0;
  for (size_t i = 1; i < used_pieces; i++) pieces[i].id = 0;
  if (!forget) return;
  paused_before = false;
  atomic_store(&paused, false);
  free_pieces = 0;
  used_pieces = 1;
  for (size_t i = 1; i < groups_end; i++) groups[i].used = false;
  atomic_store(&group_count, 0);
  atomic_store(&total, 0);
}
