/* Mappings without reserve: allocators inside libraries (jemalloc in polars and DuckDB, mimalloc in Arrow) map more
 * than they use, up to gigabytes at once. Their pages are counted from time to time by mincore, and the difference to
 * the last count is allocated or freed at that moment.
 *
 * A group is one mapping, of which parts may be unmapped. Its growth belongs to a stack whose page faults in the group
 * were observed; without those, to a stack that ran since the last count; or, if that is a thread without Python, to
 * the stack that mapped it not long ago. Samples of a group are ended in the opposite order. */
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
#define PAGE ((int64_t)arch_page_bytes())
#define DRAWS 8
#define LEAST_PART 1048576 /* bytes: growth is divided into at most DRAWS parts, and each has a stack of its own */
#define MOST_PIECES 8192
#define YOUNG_NS 1000000000
#define LEAST_PAUSE_NS 20000000 /* between two counts; the steps of one have a shorter pause */
#define PAUSE_FACTOR 100        /* counts may take one percent of one processor */
#define CLAIM_NS 1000000000     /* a thread that was about to count may have been left by longjmp, or cancelled */
#define MOST_OF_A_CHILD 4194304 /* bytes that were touched since the last count: if there are more, a fork counts */
#define HUGE_PAGE 2097152
#define LEAST_CHANGE 262144    /* bytes: each change is a sample of the footprint */
#define LEAST_TOGETHER 1048576 /* bytes: smaller changes of many groups are samples, too, if they sum up to this */

/* Stacks, each drawn from the same several by their page faults. */
struct drawn {
  uint64_t faults, stacks[DRAWS];
};

struct group {
  bool used, seen; /* seen: by the present count */
  bool moved;      /* since the present or last count began: it may not find all parts, or find one twice */
  bool marked;
  uint16_t last; /* its last piece; 0 = none */
  int64_t mapped_ns;
  uint64_t stack;
  int64_t counted;        /* bytes that count as memory. Invariant: the sum of the bytes of its pieces, and `lost` */
  int64_t found;          /* bytes that the present count has found */
  int64_t lost;           /* bytes of `counted` for which there was no piece */
  int64_t released;       /* bytes that were given back since the last count, and are not taken from `counted` yet */
  int64_t released_found; /* and of these, bytes that the present count has found */
  struct drawn before, since; /* the present or last count began: of stacks whose faults in this group were observed */
  bool touched;               /* before.stacks were drawn once */
  int64_t unexplained;        /* pages that were found, beyond twice those that observed faults explain */
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
static _Atomic int64_t faults_then;         /* of the process, at the end of the last count */
static _Atomic int64_t fault_bytes = 4096;  /* that a fault brings, at most: more with huge pages */
static int64_t released_since, taken_since; /* the last count ended: of all groups */
static _Atomic bool paused;                 /* the recording was paused since the last count began */
static bool paused_before;                  /* or before that, since the last one that ended */
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

bool residency_may_be_due(void) { return clock_now_ns() >= atomic_load_explicit(&due_ns, memory_order_relaxed); }

bool residency_is_due(void) {
  int64_t due = atomic_load_explicit(&due_ns, memory_order_relaxed), now_ns = clock_now_ns();
  return now_ns >= due && atomic_compare_exchange_strong(&due_ns, &due, now_ns + CLAIM_NS);
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
 * Two sources say which stacks have touched pages. Observed page faults (faults.c) are known to be in the group, but
 * not every kernel lets them be observed, and never those of system calls. A tick knows which stack runs, and how many
 * page faults its thread has had since the tick before, wherever they were, beyond the pages of what it has allocated.
 * Of the stacks of a source one is drawn, weighted by their faults, several times for more than one part of the growth.
 * A count takes several steps, and does not find what was touched behind it: so the faults since it began are kept for
 * the next count, too. */

#define MANY_PAGES 4096                   /* several times the mean of the faults that one observed fault stands for */
#define MOST_UNEXPLAINED (2 * MANY_PAGES) /* that are remembered: observed faults must explain half of these again */

static _Atomic bool drawing;
static struct drawn before, since; /* the present or last count began: of stacks that ran in ticks */
static uint64_t random_of_ticks, random_of_groups;

static void add(struct drawn *to, const struct drawn *more, uint64_t *random) {
  if (!more->faults) return;
  if (!*random) *random = random_seed(this_thread.tid);
  to->faults += more->faults;
  for (int i = 0; i < DRAWS; i++) {
    if (random_next(random) % to->faults < more->faults) to->stacks[i] = more->stacks[i];
  }
}

static void set(struct drawn *to, uint64_t faults, uint64_t stack) {
  to->faults = faults;
  for (int i = 0; i < DRAWS; i++) to->stacks[i] = stack;
}

static void add_one(struct drawn *to, uint64_t faults, uint64_t stack, uint64_t *random) {
  struct drawn one;
  set(&one, faults, stack);
  add(to, &one, random);
}

void residency_note_fault(uint16_t group, uint64_t faults, uint64_t stack) {
  add_one(&groups[group].since, faults, stack, &random_of_groups);
}

/* If a tick of another thread is drawing, its stack and those before it wait for the next count. */
static void take_since(bool keep) {
  if (atomic_exchange(&drawing, true)) return;
  add(&before, &since, &random_of_ticks);
  if (!keep) since.faults = 0;
  atomic_store(&drawing, false);
}

void residency_note_running(uint64_t stack) {
  struct rusage usage;
  struct memory_state *m = &this_memory;
  if (getrusage(RUSAGE_THREAD, &usage)) return;
  int64_t now = usage.ru_minflt + 1, more = now - m->faults_seen, allocated = memory_allocated(m);
  int64_t own = (allocated - m->allocated_seen) / PAGE;
  bool known = m->faults_seen && more > 0;
  m->faults_seen = now;
  m->allocated_seen = allocated;
  if (own > 0) more = more > own ? more - own : 1;
  if (!known || atomic_exchange(&drawing, true)) return;
  add_one(&since, (uint64_t)more, stack, &random_of_ticks);
  atomic_store(&drawing, false);
}

static void take_observed(struct group *group, bool keep) {
  add(&group->before, &group->since, &random_of_groups);
  if (!keep) group->since.faults = 0;
}

void residency_begin(void) {
  began_ns = clock_now_ns();
  take_since(false);
  paused_before |= atomic_exchange(&paused, false);
  for (size_t i = 1; i < groups_end; i++) {
    groups[i].seen = groups[i].moved = false;
    groups[i].found = 0;
    take_observed(&groups[i], false);
  }
}

/* Empties `before`; returns what was in it. */
static struct drawn draw(uint64_t running) {
  take_since(true);
  struct drawn drawn = before;
  if (!drawn.faults) set(&drawn, 0, running);
  before.faults = 0;
  return drawn;
}

/* Returns the stacks that have touched the pages by which the group has grown. `ran`: what ticks have drawn.
 *
 * Small growth often has no observed fault, and belongs to the stack of the last one. If the observed ones explain less
 * than half of much growth, while there were enough others, system calls have filled the pages. (With huge pages there
 * are not.) What one call has filled does not count for long: the observed ones decide again soon after it. */
static const uint64_t *stacks_of(struct group *group, int64_t pages, const struct drawn *ran) {
  take_observed(group, true);
  int64_t observed = (int64_t)group->before.faults, rest = group->unexplained + pages - 2 * observed;
  group->touched |= observed > 0;
  group->before.faults = 0;
  group->unexplained = rest < 0 ? 0 : rest > MOST_UNEXPLAINED ? MOST_UNEXPLAINED : rest;
  bool by_calls = group->unexplained > MANY_PAGES && (int64_t)ran->faults > pages / 2;
  return group->touched && !by_calls ? group->before.stacks : ran->stacks;
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

/* Parts that have the same stack are one sample. */
static void grow_in_parts(struct group *group, int64_t bytes, const uint64_t *stacks) {
  int64_t count = bytes / LEAST_PART < 1 ? 1 : bytes / LEAST_PART > DRAWS ? DRAWS : bytes / LEAST_PART;
  int64_t part = bytes / count / PAGE * PAGE, parts[DRAWS] = {0};
  for (int i = 0; i < count; i++) {
    int first = 0;
    while (stacks[first] != stacks[i]) first++;
    parts[first] += i ? part : bytes - (count - 1) * part;
  }
  for (int i = 0; i < count; i++) {
    if (parts[i]) grow(group, parts[i], stacks[i]);
  }
}

static int64_t change_of(const struct group *group) { return group->found - group->counted; }

static bool is_small(int64_t change, int64_t least) { return change < least && change > -least; }

static void settle_group(struct group *group, const struct drawn *ran, int64_t least) {
  int64_t change = change_of(group);
  group->released = group->released_found = 0;
  if (group->seen && is_small(change, least)) return;
  group->counted += change;
  atomic_fetch_add(&total, change);
  if (change > 0) grow_in_parts(group, change, was_paused() ? ran->stacks : stacks_of(group, change / PAGE, ran));
  if (change < 0) shrink(group, -change, ran->stacks[0]);
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

static int64_t faults_of_process(void) {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) ? 0 : usage.ru_minflt;
}

/* What has grown by more than a page for each fault has huge ones. */
static void note_faults(int64_t growth) {
  int64_t now = faults_of_process(), faults = now - atomic_load(&faults_then);
  int64_t each = faults > 0 ? growth / faults : atomic_load(&fault_bytes);
  atomic_store(&fault_bytes, each < PAGE ? PAGE : each > HUGE_PAGE ? HUGE_PAGE : each);
  atomic_store(&faults_then, now);
  released_since = taken_since = 0;
}

/* What changed in a pause belongs to no line. */
void residency_settle(uint64_t running) {
  struct drawn ran = draw(running);
  int64_t least = least_change(), growth = 0;
  if (was_paused()) set(&ran, 0, 0);
  for (size_t i = 1; i < groups_end; i++) {
    if (!is_settled_now(&groups[i])) continue;
    if (change_of(&groups[i]) > 0) growth += change_of(&groups[i]);
    settle_group(&groups[i], &ran, least);
  }
  paused_before = false;
  note_faults(growth);
}

static int64_t touched_since(void) {
  return (faults_of_process() - atomic_load(&faults_then)) * atomic_load(&fault_bytes);
}

/* Pages that were touched since the last count, which has not seen them, may be among those that go. So no more is taken
 * than what was released beyond them: a program that touches and gives back the same pages all the time loses nothing. */
int64_t residency_release(uint16_t number, int64_t bytes, int64_t found) {
  struct group *group = &groups[number];
  group->released += bytes;
  group->released_found += found;
  released_since += bytes;
  int64_t most = group->released < group->counted ? group->released : group->counted;
  if (most < LEAST_CHANGE) return 0;
  int64_t sure = released_since - taken_since - touched_since();
  int64_t taken = most < sure ? most : sure;
  return taken < LEAST_CHANGE ? 0 : taken / PAGE * PAGE;
}

void residency_take(uint16_t number, int64_t bytes, uint64_t stack) {
  struct group *group = &groups[number];
  int64_t found = group->released_found < bytes ? group->released_found : bytes;
  if (found > group->found) found = group->found;
  group->found -= found;
  group->released_found -= found;
  group->released -= bytes;
  taken_since += bytes;
  group->counted -= bytes;
  atomic_fetch_sub(&total, bytes);
  shrink(group, bytes, stack);
}

bool residency_has_faulted(void) { return touched_since() >= MOST_OF_A_CHILD; }

void residency_clear_marks(void) {
  for (size_t i = 1; i < groups_end; i++) groups[i].marked = false;
}

void residency_mark(uint16_t group) { groups[group].marked = true; }

void residency_drop_unmarked(uint64_t running) {
  struct drawn ran;
  set(&ran, 0, running);
  for (size_t i = 1; i < groups_end; i++) {
    if (!groups[i].used || groups[i].marked) continue;
    groups[i].seen = false;
    groups[i].found = 0;
    settle_group(&groups[i], &ran, LEAST_CHANGE);
  }
}

void residency_note_pause(void) { atomic_store(&paused, true); }

void residency_postfork_child(bool forget) {
  atomic_store(&drawing, false);
  atomic_store(&due_ns, 0);
  atomic_store(&faults_then, 0);
  released_since = taken_since = 0;
  before.faults = since.faults = 0;
  for (size_t i = 1; i < groups_end; i++) groups[i].before.faults = groups[i].since.faults = 0;
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
