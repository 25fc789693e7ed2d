/* The allocation sampler: every byte has the same chance to be sampled, 1 in the interval, so a block of b bytes is
 * sampled with the probability 1 - exp(-b / interval) (PyPy allocation-sampling paper, 2026; tcmalloc, jemalloc).
 *
 * Each thread draws exponential gaps, one for each of its two streams (native, Python), and the countdown of memory.c,
 * whose comparison is needed anyway, stops at the next sample. With `auto` the interval follows the volume. Up to KEPT
 * it becomes coarser as soon as more than BUDGET_SAMPLES are due within half a second, and finer if the volume of
 * half a second would yield at most half of the budget with the finer interval. Beyond KEPT it becomes coarser only if
 * the stops themselves would cost time; there, budget.c thins the samples that are due. That causes no bias: every
 * sample carries the interval that it was drawn with, and a gap may be drawn again at any time, because the rest of an
 * exponential gap is again exponential. */
#include "inside/memory/sampler.h"

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/thread_state.h"
#include "inside/accounts/budget.h"
#include "inside/accounts/growth.h"
#include "inside/accounts/live.h"
#include "inside/core/quick_clock.h"
#include "inside/events/events.h"
#include "inside/memory/memory.h"
#include "inside/native/own.h"
#include "inside/native/images.h"
#include "inside/python/objects.h"
#include "inside/python/python.h"
#include "inside/stacks/codes.h"
#include "inside/stacks/frames.h"
#include "inside/stacks/recent.h"
#include "inside/stacks/scratch_pool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/random.h"
#include "shared/spool.h"

#define STOPS 120000 /* samples that may be due in a window of the budget */
#define KEPT ((int64_t)128 << 10)
#define FINEST ((int64_t)4 << 10)
#define COARSEST ((int64_t)1 << 40)
#define SLOTS ((size_t)1 << 16)
#define SLOTS_FINE ((size_t)1 << 22) /* for intervals below FINEST */
#define NEVER INT64_MAX

static _Atomic int64_t interval; /* mean bytes between samples; 0 = off */
static _Atomic bool adapts;
static _Atomic uint64_t control_seen; /* the alloc_control that the interval was set by; 0 = none */
static _Atomic int64_t window_began_ns;
static _Atomic int64_t in_window;     /* samples that were due in the current window */
static _Atomic int64_t volume_so_far; /* bytes allocated in the current window */
static _Atomic uint64_t last_id;
static _Atomic int thinning;

static bool table_allocated;

/* Returns the interval that the recorder has set: by alloc_control, or at the start of the recording. */
static int64_t wanted_interval(uint64_t control, bool *adapt) {
  uint64_t wanted = control ? control & (CONTROL_ALLOC_AUTO - 1) : spool->alloc_interval_bytes;
  *adapt = control ? (control & CONTROL_ALLOC_AUTO) != 0 : (spool->features & FEATURE_ALLOC_AUTO) != 0;
  return wanted < (uint64_t)COARSEST ? (int64_t)wanted : COARSEST;
}

/* While every allocation is recorded, code objects are known: sampler_write sees what is allocated, and watched
 * frees come to sampler_freed. Other allocators than pymalloc may give the program other addresses than we see
 * (pyalloc.h). */
static const struct codes_watch code_watch = {live_watch, live_unwatch, live_python_block};

static uint32_t base_code(int64_t base);

static void follow_codes(int64_t wanted, bool adapt) {
  bool exact = wanted == 1 && !adapt;
  events_set_flags(ALLOC_PYTHON | base_code(1) << ALLOC_BASE_SHIFT);
  codes_follow(exact ? &code_watch : NULL);
  objects_follow(exact ? live_python_block : NULL, exact && !IS_ATTACHED ? images_closed_count : NULL,
                 exact ? live_in_pool : NULL);
}

static void set_interval(int64_t wanted, bool adapt, int64_t now_ns) {
  follow_codes(wanted, adapt);
  atomic_store(&adapts, adapt);
  atomic_store(&in_window, 0);
  atomic_store(&volume_so_far, 0);
  atomic_store(&window_began_ns, now_ns);
  atomic_store(&interval, wanted);
}

/* The table is allocated even if nothing is sampled yet. Its untouched pages use no memory. */
void sampler_init(void) {
  uint64_t control = spool->alloc_control;
  bool adapt;
  int64_t wanted = wanted_interval(control, &adapt);
  atomic_store(&interval, 0);
  atomic_store(&last_id, (uint64_t)memory_session << 40); /* a free that comes late ends no block of this recording */
  atomic_store(&control_seen, control);
  table_allocated = live_init(wanted && !adapt && wanted < FINEST ? SLOTS_FINE : SLOTS);
  if (table_allocated) {
    set_interval(wanted, adapt, clock_now_ns());
  } else if (wanted) {
    loss_add(LOSS_alloc_table_full);
  }
}

/* Adopts a change by the recorder. Streams draw their gaps anew when they see another interval. */
static SLOW_PATH void follow_control(uint64_t control) {
  uint64_t seen = atomic_load(&control_seen);
  bool adapt;
  if (!table_allocated || seen == control || !atomic_compare_exchange_strong(&control_seen, &seen, control)) return;
  int64_t wanted = wanted_interval(control, &adapt);
  set_interval(wanted, adapt, this_memory.now_ns);
}

/* ---- gaps ---- */

/* Returns -ln(u) for u uniform in (0, 1], with an error below 1e-13: for the mantissa by the series of artanh, for the
 * exponent exactly. */
static double exponential(uint64_t random) {
  union {
    double value;
    uint64_t bits;
  } u = {.value = (double)((random >> 11) + 1) * 0x1p-53};
  int exponent = (int)(u.bits >> 52) - 1023;
  u.bits = (u.bits & 0xfffffffffffffu) | (uint64_t)1023 << 52;
  if (u.value > 1.4142135623730951) {
    u.value /= 2;
    exponent++;
  }
  double t = (u.value - 1) / (u.value + 1), square = t * t, series = 0;
  for (int k = 17; k >= 1; k -= 2) series = series * square + 1.0 / k;
  return -(2 * t * series + exponent * 0.6931471805599453);
}

/* The distribution is geometric, so that probabilities are exact for whole bytes. */
int64_t sampler_gap(uint64_t *random, int64_t mean) {
  if (mean <= 1) return 1;
  double gap = exponential(random_next(random)) * (double)mean;
  return gap < 0x1p60 ? (int64_t)gap + 1 : (int64_t)1 << 60;
}

/* ---- the interval ---- */

static bool is_exact(void) {
  return atomic_load_explicit(&interval, memory_order_relaxed) == 1 &&
         !atomic_load_explicit(&adapts, memory_order_relaxed);
}

static bool has_events(void) { return spool && spool->features & FEATURE_EVENTS; }

static struct event_context context_at(int64_t t_ns, bool python, const void *state) {
  return (struct event_context){this_thread.id, objects_collections(state, python), t_ns};
}

bool sampler_is_exact(void) {
  return is_exact() && has_events() &&
         spool->alloc_control == atomic_load_explicit(&control_seen, memory_order_relaxed);
}

/* Figures that are exact are worth a wait. */
void sampler_wait_for_room(void) {
  if (is_exact() && unlikely(spool_is_short()) && !spool->paused) spool_wait_for_room();
}

void sampler_note_due(void) { atomic_fetch_add_explicit(&in_window, 1, memory_order_relaxed); }

bool sampler_adapts(void) { return atomic_load_explicit(&adapts, memory_order_relaxed); }

void sampler_note_volume(int64_t bytes) { atomic_fetch_add_explicit(&volume_so_far, bytes, memory_order_relaxed); }

static double bytes_per_window(int64_t volume, int64_t elapsed_ns) {
  return (double)volume * BUDGET_WINDOW_NS / (double)(elapsed_ns > 0 ? elapsed_ns : 1);
}

/* Returns how many samples may be due in a window with that interval. */
static int64_t allowed(int64_t mean) { return mean < KEPT ? BUDGET_SAMPLES : STOPS; }

static int64_t enough(int64_t mean) { return mean < KEPT ? BUDGET_SAMPLES / 2 : STOPS / 4 * 3; }

/* Halves the interval while the rate (in bytes per window) would yield at most half of the budget, or three quarters of
 * the stops. */
static int64_t refined(int64_t now, double rate) {
  while (now > FINEST && rate / (double)(now / 2) <= (double)enough(now / 2)) now /= 2;
  return now;
}

/* Doubles the interval, or quadruples it if the rate would still exceed the budget. It does no more at once, so that
 * what a burst holds at its peak is sampled precisely too. */
static int64_t coarsened(int64_t now, double rate) {
  int64_t wanted = rate / (double)(now * 2) > (double)allowed(now) ? now * 4 : now * 2;
  return now < KEPT && wanted > KEPT ? KEPT : wanted;
}

bool sampler_is_settled(int64_t mean) {
  if (!adapts || mean <= 0 || mean != atomic_load_explicit(&interval, memory_order_relaxed)) return false;
  if (spool->alloc_control != atomic_load_explicit(&control_seen, memory_order_relaxed)) return false;
  if (atomic_load_explicit(&in_window, memory_order_relaxed) > allowed(mean)) return false;
  return clock_now_ns() - atomic_load_explicit(&window_began_ns, memory_order_relaxed) < BUDGET_WINDOW_NS;
}

int64_t sampler_interval(void) {
  uint64_t control = spool->alloc_control;
  if (unlikely(control != atomic_load_explicit(&control_seen, memory_order_relaxed))) follow_control(control);
  int64_t now = atomic_load_explicit(&interval, memory_order_relaxed);
  if (!adapts || !now) return now;
  int64_t began = atomic_load(&window_began_ns), due = atomic_load(&in_window), t_ns = this_memory.now_ns;
  int64_t wanted = now;
  if (now < COARSEST && due > allowed(now)) {
    wanted = coarsened(now, bytes_per_window(atomic_load(&volume_so_far), t_ns - began));
  } else if (t_ns - began >= BUDGET_WINDOW_NS) {
    wanted = refined(now, bytes_per_window(atomic_load(&volume_so_far), t_ns - began));
  } else {
    return now;
  }
  if (!atomic_compare_exchange_strong(&window_began_ns, &began, t_ns)) return now;
  atomic_store(&in_window, 0);
  atomic_store(&volume_so_far, 0);
  return atomic_compare_exchange_strong(&interval, &now, wanted) ? wanted : now;
}

/* ---- a crowded table ---- */

/* With twice the interval i, a sample of b bytes would have been taken with a smaller probability. Of the samples that
 * were taken, this fraction is kept: (1 - exp(-b / 2i)) / (1 - exp(-b / i)) = 1 / (1 + exp(-b / 2i)). */
static bool keep_thinned(struct live_sample *sample) {
  static uint64_t random; /* only one thread thins at a time */
  if (sample->interval <= 0) return true;
  uint64_t draw = random_next(&random);
  double odds = exponential(~draw) - exponential(draw); /* ln(u / (1 - u)), logistic */
  bool kept = odds < (double)sample->usable / (2.0 * (double)sample->interval);
  struct record_note *record = spool_claim(1);
  if (!record) return true;
  sample->interval *= 2;
  *record = (struct record_note){.head = record->head,
                                 .thread = this_thread.id,
                                 .id = sample->id,
                                 .interval_bytes = (uint64_t)sample->interval,
                                 .flags = kept ? NOTE_THINNED : NOTE_THINNED | NOTE_DROPPED};
  spool_publish(record, RECORD_NOTE, 1);
  return kept;
}

static void thin_if_crowded(void) {
  if (!adapts || likely(!live_is_crowded()) || atomic_exchange(&thinning, 1)) return;
  loss_add(LOSS_alloc_thinned);
  live_thin(keep_thinned);
  atomic_store(&thinning, 0);
}

/* ---- records ---- */

/* The type of an object is stored in it only some time after the allocation, so it is read at the thread's next
 * sample. If every allocation is recorded, it is read some samples later: most temporaries have been freed by then,
 * and their types are in the records of their frees. `held`: the thread is inside one of Python's allocators, so it
 * holds the GIL, and if there is only one interpreter, no other thread can free the block while it is read. */
static void write_type(uintptr_t block, uint64_t id, bool held, const void *state) {
  uint64_t usable = 0;
  if (!live_find(block, id, &usable)) return;
  uint64_t type = objects_type(block, usable, held ? BLOCK_STAYS : BLOCK_MAY_GO, state);
  if (!type || !live_set_type(block, id, type)) return; /* the block was freed in the meantime */
  if (has_events() && is_exact()) {
    struct event_context now = context_at(this_memory.now_ns, held, state);
    if (events_typed(now, id, type)) return;
  }
  struct record_note *record = spool_claim(1);
  if (!record) return;
  *record =
      (struct record_note){.head = record->head, .thread = this_thread.id, .id = id, .type = type, .flags = NOTE_TYPE};
  spool_publish(record, RECORD_NOTE, 1);
}

static void write_type_at(struct memory_state *m, uint32_t place, bool held, const void *state) {
  uintptr_t block = m->untyped[place].block;
  m->untyped[place].block = 0;
  if (block) write_type(block, m->untyped[place].id, held, state);
}

/* Where a block waits for its type to be read: as long as every allocation is recorded, until the thread has written
 * MOST_UNTYPED more. */
static uint32_t untyped_place(uint64_t id, bool exact) { return exact ? (uint32_t)(id % MOST_UNTYPED) : 0; }

/* Once the block is freed, there is nothing to read; a search for it would go through all levels of the table. */
static void forget_untyped(uint64_t id) {
  struct memory_state *m = &this_memory;
  if (m->untyped[id % MOST_UNTYPED].id == id) m->untyped[id % MOST_UNTYPED].block = 0;
  if (m->untyped[0].id == id) m->untyped[0].block = 0;
}

void sampler_thread_end(void) {
  const void *state = python_thread_state();
  for (uint32_t place = 0; place < MOST_UNTYPED; place++) write_type_at(&this_memory, place, false, state);
}

/* Returns the interval of a site that has had few samples. */
static int64_t base_interval(void) {
  int64_t now = atomic_load_explicit(&interval, memory_order_relaxed), low = adapts ? budget_floor() : 0;
  return now < low ? low : now;
}

/* Returns the base interval as ALLOC_BASE_SHIFT describes it. A carry of the mantissa makes the next exponent. */
static uint32_t base_code(int64_t base) {
  if (base <= 0) return 0;
  unsigned exponent = 63 - (unsigned)__builtin_clzll((uint64_t)base);
  uint64_t above = (uint64_t)base - ((uint64_t)1 << exponent);
  uint64_t unit = exponent > 7 ? (uint64_t)1 << (exponent - 7) : 1;
  uint64_t mantissa = exponent > 7 ? (above + unit - 1) / unit : above << (7 - exponent);
  return (uint32_t)(((uint64_t)exponent + 1) * 128 + mantissa);
}

static void fill_alloc(struct record_alloc *record, const struct block *block, const struct live_sample *sample,
                       uint32_t flags, int64_t t_ns, const void *state) {
  record->thread = this_thread.id;
  record->t_ns = t_ns;
  record->stack = sample->stack;
  atomic_store_explicit((_Atomic uint64_t *)&record->id, sample->id, memory_order_relaxed); /* spool_take_back */
  record->size_bytes = block->size;
  record->usable_bytes = block->usable;
  record->interval_bytes = (uint64_t)sample->interval;
  record->collections = objects_collections(state, block->python);
  record->source = block->source;
  record->flags = (uint16_t)(flags | base_code(base_interval()) << ALLOC_BASE_SHIFT);
  spool_publish(record, RECORD_ALLOC, 1);
}

/* Returns the bytes that a sample adds to the account of its stack. A block of at least the threshold is a footprint
 * sample of its own. */
static int64_t stands_for(const struct live_sample *sample) {
  int64_t bytes = (int64_t)sample->usable;
  if (!sample->interval || sample->usable >= spool->memory_threshold_bytes) return 0;
  return bytes > sample->interval ? bytes : sample->interval;
}

/* Whether a block of pymalloc may have ended without our seeing it. */
static _Atomic bool frees_missed;

void sampler_missed_frees(void) { atomic_store(&frees_missed, true); }

/* A free that bypassed the shim leaves its sample in the table. The address has been allocated again, so end that
 * sample. All frees of pymalloc's blocks are seen, except in the cases that sampler_missed_frees is called for, so
 * these need no search, which would go through all levels. */
static void end_stale(uintptr_t address, int source) {
  struct live_sample stale;
  bool seen = source == ALLOC_PYMALLOC && !atomic_load_explicit(&frees_missed, memory_order_relaxed);
  if (seen && !live_pooled(address)) return;
  if (!live_filter[LIVE_FILTER_CELL(address)] || !live_take(address, &stale)) return;
  growth_freed(stale.stack, stands_for(&stale));
  sampler_ended(&stale, stale.usable, 0, 0);
}

/* Writes the native stack of a sample, before the sample itself: a note that comes first waits for its sample, while
 * one that follows a sample without a known life would be dropped. */
static void write_native(uint64_t id) {
  struct scratch *scratch = spool->features & FEATURE_NATIVE_ALLOC ? scratch_take() : NULL;
  if (!scratch) return;
  images_refresh();
  uint64_t native = evidence_of_caller(scratch);
  scratch_give(scratch);
  struct record_note *record = native ? spool_claim(1) : NULL;
  if (!record) return;
  *record = (struct record_note){
      .head = record->head, .thread = this_thread.id, .id = id, .native = native, .flags = NOTE_NATIVE};
  spool_publish(record, RECORD_NOTE, 1);
}

/* Writes the event of an allocation whose block is followed by now. False = it follows it no more. */
static inline bool write_event(const struct block *block, const struct live_sample *sample, int64_t t_ns,
                               const void *state) {
  struct event_context now = context_at(t_ns, block->python, state);
  struct live_sample gone;
  if (likely(
          events_allocated(now, sample->id, sample->stack, block->size, block->usable, block->source, block->python)))
    return true;
  live_take(block->address, &gone);
  return false;
}

static bool follow(const struct block *block, const struct live_sample *sample) {
  return (block->source == ALLOC_PYMALLOC && live_add_pooled(block->address, sample)) ||
         live_add(block->address, sample);
}

/* Writes an allocation and begins to follow its block, unless mappings.c does. False = it could not be written. */
static bool write_alloc(const struct block *block, struct live_sample *sample, bool exact, uint32_t *with, int64_t t_ns,
                        const void *state) {
  uint32_t flags = *with;
  bool plain = !block->mapping && !(flags & (ALLOC_MAXIMUM | ALLOC_UNFOLLOWED));
  if (sample->interval == 1 && plain && exact && has_events() && follow(block, sample) &&
      write_event(block, sample, t_ns, state))
    return true;
  struct record_alloc *record = spool_claim(1);
  if (!record) return false;
  if (sample->interval == 1) sample->place = spool_place_of(record);
  if (!block->mapping && !live_add(block->address, sample)) {
    flags |= ALLOC_UNFOLLOWED;
    loss_add(LOSS_alloc_table_full);
  }
  fill_alloc(record, block, sample, *with = flags, t_ns, state);
  return true;
}

/* A thread takes several ids at once. */
static uint64_t next_id(struct memory_state *m) {
  if (unlikely(!m->ids_left)) {
    m->last_id = atomic_fetch_add(&last_id, IDS_AT_ONCE);
    m->ids_left = IDS_AT_ONCE;
  }
  m->ids_left--;
  return ++m->last_id;
}

/* The block is followed from now on, and its type is read later. */
static inline void begin_life(struct memory_state *m, uint32_t place, const struct block *block,
                              const struct live_sample *sample) {
  growth_allocated(sample->stack, this_thread.id, stands_for(sample));
  if (!block->python) return;
  m->untyped[place].block = block->address;
  m->untyped[place].id = sample->id;
}

/* The types of small objects are read as sampler_write reads them, and nothing else has to be done for their blocks. */
bool sampler_write_pooled(const struct block *block, uint64_t stack, const void *state) {
  struct memory_state *m = &this_memory;
  bool plain = block->source == ALLOC_PYMALLOC && block->python && !(spool->features & FEATURE_NATIVE_ALLOC) &&
               likely(!atomic_load_explicit(&frees_missed, memory_order_relaxed));
  if (!plain) return false;
  struct live_sample sample = {.id = next_id(m), .usable = block->usable, .interval = 1, .stack = stack};
  uint32_t place = untyped_place(sample.id, true);
  write_type_at(m, place, true, state);
  codes_changed(block->address);
  if (!live_add_pooled(block->address, &sample) || !write_event(block, &sample, m->now_ns, state)) return false;
  begin_life(m, place, block, &sample);
  return true;
}

uint64_t sampler_write(const struct block *block, int64_t mean, bool maximum, uint64_t stack, const void *state) {
  struct memory_state *m = &this_memory;
  int64_t t_ns = m->now_ns;
  uint64_t id = next_id(m);
  bool exact = is_exact();
  uint32_t place = untyped_place(id, exact);
  uint32_t flags = (block->python ? ALLOC_PYTHON : 0) | (maximum ? ALLOC_MAXIMUM : 0);
  struct live_sample sample = {
      .id = id, .usable = block->usable, .interval = mean, .stack = stack, .python = block->python};
  if (!m->stack_is_known) {
    write_type_at(m, place, block->python, state);
    write_native(id);
  }
  if (block->unfollowed) {
    flags |= ALLOC_UNFOLLOWED;
    loss_add(LOSS_alloc_table_full);
  }
  codes_changed(block->address);
  if (!block->mapping) {
    end_stale(block->address, block->source);
    thin_if_crowded();
  }
  if (!write_alloc(block, &sample, exact, &flags, t_ns, state)) return block->mapping ? 0 : id;
  if (!block->mapping && !(flags & ALLOC_UNFOLLOWED)) begin_life(m, place, block, &sample);
  return id;
}

/* Turns the alloc record of a block into one that has its end too, if the same thread has written it a short time ago:
 * half the bytes for a temporary. */
static bool end_briefly(const struct live_sample *sample, const struct record_free *end) {
  struct record_alloc *record = sample->place ? spool_take_back(sample->place, sample->id) : NULL;
  if (!record) return false;
  int64_t lifetime_ns = end->t_ns - record->t_ns;
  uint64_t size = record->size_bytes, usable = record->usable_bytes;
  uint16_t source = record->source, flags = record->flags;
  bool fits = record->thread == end->thread && record->collections == end->collections && lifetime_ns >= 0 &&
              lifetime_ns <= UINT32_MAX && size <= UINT16_MAX && usable <= UINT16_MAX && end->bytes == usable;
  if (fits) {
    struct record_brief *brief = (struct record_brief *)record;
    brief->free_stack = end->stack;
    brief->type = end->type;
    brief->lifetime_ns = (uint32_t)lifetime_ns;
    brief->collections = end->collections;
    brief->size_bytes = (uint16_t)size;
    brief->usable_bytes = (uint16_t)usable;
    brief->flags = flags;
    brief->source = (uint8_t)source;
    brief->free_flags = (uint8_t)end->flags;
  }
  spool_publish(record, fits ? RECORD_BRIEF : RECORD_ALLOC, 1);
  return fits;
}

static void write_end(const struct live_sample *sample, uint64_t bytes, uint64_t stack, uint32_t flags,
                      const void *state) {
  if (python_finalizing()) flags |= FREE_FINALIZING;
  struct record_free end = {.thread = this_thread.id,
                            .t_ns = quick_clock_ns(),
                            .stack = stack,
                            .id = sample->id,
                            .bytes = bytes,
                            .type = sample->type,
                            .collections = objects_collections(state, sample->python),
                            .flags = flags};
  if (end_briefly(sample, &end)) return;
  if (sample->interval == 1 && has_events() && !(flags & FREE_PART)) {
    struct event_context now = {end.thread, end.collections, end.t_ns};
    if (events_freed(now, sample->id, stack, end.type, flags)) return;
  }
  struct record_free *record = spool_claim(1);
  if (!record) return;
  end.head = record->head;
  *record = end;
  spool_publish(record, RECORD_FREE, 1);
}

void sampler_ended(const struct live_sample *sample, uint64_t bytes, uint64_t stack, uint32_t flags) {
  write_end(sample, bytes, stack, flags, python_thread_state());
}

/* `state`: the calling thread's, once a sample was taken. */
static bool take(uintptr_t address, struct live_sample *out, void **state) {
  int saved_errno = errno;
  fork_check();
  uint32_t section = IS_ATTACHED ? seal_enter() : 0;
  bool records = recording(), taken = records && live_take(address, out);
  if (unlikely(!records)) sampler_missed_frees();
  if (taken) {
    if (IS_ATTACHED) thread_ensure();
    *state = python_thread_state();
    growth_freed(out->stack, stands_for(out));
    if (out->python) forget_untyped(out->id);
    if (out->python && !out->type) out->type = objects_type(address, out->usable, BLOCK_OWNED, *state);
  }
  if (IS_ATTACHED) seal_leave(section);
  errno = saved_errno;
  return taken;
}

APART bool sampler_take(uintptr_t address, struct live_sample *out) {
  void *state;
  return take(address, out, &state);
}

APART void sampler_freed(uintptr_t address) {
  struct live_sample sample;
  void *state;
  uint32_t section = IS_ATTACHED ? seal_enter() : 0;
  sampler_wait_for_room();
  if (take(address, &sample, &state)) {
    int saved_errno = errno;
    write_end(&sample, sample.usable, frames_of(state), 0, state);
    errno = saved_errno;
  }
  codes_changed(address); /* last: the walk may have verified the code object that is about to be freed */
  if (IS_ATTACHED) seal_leave(section);
}

void sampler_resized(const struct live_sample *sample, bool lives_on) {
  int saved_errno = errno;
  uint32_t section = IS_ATTACHED ? seal_enter() : 0;
  if (!IS_ATTACHED || recording()) sampler_ended(sample, sample->usable, frames_current(), lives_on ? FREE_RESIZED : 0);
  if (IS_ATTACHED) seal_leave(section);
  errno = saved_errno;
}

void sampler_put_back(uintptr_t address, const struct live_sample *sample) {
  uint32_t section = IS_ATTACHED ? seal_enter() : 0;
  if (!IS_ATTACHED || recording()) {
    bool added = (sample->pooled && live_add_pooled(address, sample)) || live_add(address, sample);
    if (!added) loss_add(LOSS_alloc_table_full);
    growth_allocated(sample->stack, this_thread.id, stands_for(sample));
  }
  if (IS_ATTACHED) seal_leave(section);
}

void sampler_postfork_child(void) {
  live_postfork_child();
  events_postfork_child();
  codes_postfork_child();
  recent_postfork_child();
  growth_postfork_child();
  budget_postfork_child();
  for (int i = 0; i < MOST_UNTYPED; i++) this_memory.untyped[i].block = 0;
  atomic_store(&thinning, 0);
}
