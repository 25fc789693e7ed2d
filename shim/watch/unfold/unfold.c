/* Records of events become the alloc, free and note records that they stand for, in the recorder, for the conversion.
 *
 * Of a recording of every allocation there are millions. Nothing in the records is trusted: a program that crashes has
 * written to them, and numbers of stacks and types that nobody gave are 0. */
#include "formats/spool/spool.h"
#include "shared/base.h"

#define MOST_EVENTS ((EVENTS_SLOTS - 1) * SPOOL_SLOT_BYTES / sizeof(struct spool_event))
#define NUMBERS 256

/* Records of one kind, and the process of each. `count`: how many there are so far. NULL = they are only counted. */
struct unfolded {
  void *records;
  int32_t *process;
  int64_t count;
};

/* As formats/spool/events.py has them. `invalid`: events that cannot be, or that are lost behind a missing one of a
 * finished record. */
struct unfolding {
  struct unfolded alloc, free, note;
  int64_t invalid;
};

/* What a record says up to an event. */
struct so_far {
  uint32_t thread, collections;
  uint64_t stacks[NUMBERS], types[NUMBERS];
};

/* Where the next record goes; `spare` if it is only counted. */
static inline void *next_record(struct unfolded *of, int32_t process, size_t size, void *spare) {
  int64_t row = of->count++;
  if (!of->records) return spare;
  of->process[row] = process;
  return (char *)of->records + (size_t)row * size;
}

static inline void add_alloc(struct unfolding *into, int32_t process, struct record_alloc record) {
  struct record_alloc spare;
  *(struct record_alloc *)next_record(&into->alloc, process, sizeof record, &spare) = record;
}

/* Returns how many events were written, of which nothing is missing. */
static size_t written(const struct spool_event *events) {
  size_t count = 0;
  while (count < MOST_EVENTS && events[count].kind && events[count].value) count++;
  return count;
}

/* Returns how many events there are behind a missing one. */
static int64_t lost(const struct spool_event *events, size_t count) {
  int64_t behind = 0;
  for (size_t i = count; i < MOST_EVENTS; i++) behind += events[i].kind && events[i].value;
  return behind;
}

/* Is it of no known kind, or a large block of no size? */
static inline bool is_invalid(const struct spool_event *events, size_t i) {
  if (events[i].kind == EVENT_ALLOC_LARGE) return !i || events[i - 1].kind != EVENT_BYTES;
  return events[i].kind > EVENT_BYTES;
}

static inline bool is_timed(uint8_t kind) {
  return kind == EVENT_ALLOC || kind == EVENT_ALLOC_LARGE || kind == EVENT_FREE || kind == EVENT_TYPED;
}

static inline void whole(struct unfolding *into, const struct record_events *head, const struct spool_event *events,
                         size_t count, int32_t process) {
  struct so_far now = {.thread = head->thread, .collections = head->collections};
  for (size_t i = 0; i < count; i++) {
    const struct spool_event *event = &events[i], *bytes = event - 1; /* the head, before the first one */
    int64_t t_ns = (int64_t)((uint64_t)head->t_ns + event->after_ns);
    struct record_alloc alloc = {.thread = now.thread,
                                 .t_ns = t_ns,
                                 .id = event->value,
                                 .interval_bytes = 1,
                                 .stack = now.stacks[event->stack],
                                 .collections = now.collections};
    alloc.flags = (uint16_t)head->flags;
    into->invalid += is_invalid(events, i);
    switch (event->kind) {
    case EVENT_ALLOC:
      alloc.size_bytes = event->more & 1023;
      alloc.usable_bytes = (uint64_t)(event->more >> 10) * 16;
      alloc.source = ALLOC_PYMALLOC;
      add_alloc(into, process, alloc);
      break;
    case EVENT_ALLOC_LARGE:
      if (is_invalid(events, i)) break;
      alloc.size_bytes = bytes->value;
      alloc.usable_bytes = bytes->value + bytes->more;
      alloc.source = bytes->stack & 127;
      if (bytes->stack < 128) alloc.flags &= (uint16_t)~ALLOC_PYTHON;
      add_alloc(into, process, alloc);
      break;
    case EVENT_FREE: {
      struct record_free spare, freed = {.thread = now.thread,
                                         .t_ns = t_ns,
                                         .id = event->value,
                                         .stack = alloc.stack,
                                         .type = now.types[event->more & 255],
                                         .collections = now.collections,
                                         .flags = event->more >> 8};
      *(struct record_free *)next_record(&into->free, process, sizeof freed, &spare) = freed;
      break;
    }
    case EVENT_TYPED: {
      struct record_note spare,
          note = {.thread = now.thread, .id = event->value, .flags = NOTE_TYPE, .type = now.types[event->more & 255]};
      *(struct record_note *)next_record(&into->note, process, sizeof note, &spare) = note;
      break;
    }
    case EVENT_STACK:
      if (event->stack) now.stacks[event->stack] = event->value;
      break;
    case EVENT_TYPE_NAME:
      if (event->more & 255) now.types[event->more & 255] = event->value;
      break;
    case EVENT_THREAD:
      now.thread = (uint32_t)event->value;
      now.collections = (uint32_t)(event->value >> 32);
      break;
    }
  }
}

/* Alloc records with all stacks, threads, times and counts of collections that occur, and nothing else: one for each stack,
 * and for each stay in a thread the first and the last event. */
static inline void briefly(struct unfolding *into, const struct record_events *head, const struct spool_event *events,
                           size_t count, int32_t process) {
  struct record_alloc stack = {.t_ns = head->t_ns}, seen = {.thread = head->thread, .collections = head->collections};
  int64_t first_ns = 0, last_ns = 0;
  bool has_times = false;
  for (size_t i = 0; i < count; i++) {
    if (events[i].kind != EVENT_STACK) continue;
    stack.stack = events[i].value;
    add_alloc(into, process, stack);
  }
  for (size_t i = 0; i <= count; i++) {
    bool is_over = i == count;
    if (!is_over && is_timed(events[i].kind)) {
      last_ns = (int64_t)((uint64_t)head->t_ns + events[i].after_ns);
      first_ns = has_times ? first_ns : last_ns;
      has_times = true;
    }
    if (!is_over) into->invalid += is_invalid(events, i);
    if (!is_over && events[i].kind != EVENT_THREAD) continue;
    if (has_times) {
      seen.t_ns = first_ns;
      add_alloc(into, process, seen);
      seen.t_ns = last_ns;
      add_alloc(into, process, seen);
    }
    if (is_over) break;
    has_times = false;
    seen.thread = (uint32_t)events[i].value;
    seen.collections = (uint32_t)(events[i].value >> 32);
  }
}

/* Adds what `count` records of events of a process stand for, which follow each other at `records`, aligned to 8 bytes.
 * `is_brief`: see above. The caller asks twice: with NULL for the number of records, then with room for these. May be called
 * from any thread. */
EXPORT void scalene_unfold(const void *records, int64_t count, int32_t process, int is_brief, struct unfolding *into) {
  for (int64_t i = 0; i < count; i++) {
    const struct record_events *head =
        (const struct record_events *)((const char *)records + i * EVENTS_SLOTS * SPOOL_SLOT_BYTES);
    const struct spool_event *events = (const struct spool_event *)(head + 1);
    size_t found = written(events);
    if ((head->head & 0xFFFF) == RECORD_EVENTS) into->invalid += lost(events, found);
    if (is_brief)
      briefly(into, head, events, found, process);
    else
      whole(into, head, events, found, process);
  }
}
