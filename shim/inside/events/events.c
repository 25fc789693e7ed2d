/* Allocations and frees as events of 16 bytes, while every one of them is recorded.
 *
 * The process has one record of events at a time, which is published before the first event and changes its kind after
 * the last one. One thread writes to it at a time. Threads inside Python's allocators take turns anyway, since they hold
 * the GIL; whoever finds another one writing does not wait, and writes a record of its own as if there were no events.
 *
 * A stack and a type have a number in the record, given by an event before the first one that needs it. So a record can
 * be read without any other, and an event needs one byte instead of a hash of eight. */
#include "inside/events/events.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/spool.h"
#include "shared/stacks/hash.h"

#define NUMBERED 256 /* places for hashes whose numbers are remembered */
#define MOST_NUMBERS 255
#define MOST_AT_ONCE 5 /* events that belong together: thread, stack, type, bytes, and the event itself */

struct numbered {
  uint64_t hash;
  uint32_t record; /* in which it has the number */
  uint32_t number;
};

/* Only for the thread that has set `busy`. */
static _Atomic bool busy;
static struct record_events *_Atomic current;
static struct spool_event *next_event, *end_events;
static uint32_t records; /* that were begun */
static uint32_t last_stack, last_type;
static struct numbered stacks[NUMBERED], types[NUMBERED];
static uint64_t context; /* thread | collections << 32, as the last event has it */
static int64_t base_ns;
static _Atomic uint32_t alloc_flags;

void events_set_flags(uint32_t flags) { atomic_store(&alloc_flags, flags); }

static bool enter(void) { return !atomic_load_explicit(&busy, memory_order_relaxed) && !atomic_exchange(&busy, true); }

static void leave(void) { atomic_store_explicit(&busy, false, memory_order_release); }

/* The value is written first: a reader takes an event whose kind and value are not 0. */
static void put(uint8_t kind, uint8_t stack, uint16_t more, int64_t after_ns, uint64_t value) {
  struct spool_event head = {.after_ns = (uint32_t)after_ns, .kind = kind, .stack = stack, .more = more};
  uint64_t word;
  __builtin_memcpy(&word, &head, sizeof word);
  atomic_store_explicit((_Atomic uint64_t *)&next_event->value, value, memory_order_relaxed);
  atomic_store_explicit((_Atomic uint64_t *)next_event, word, memory_order_release);
  next_event++;
}

static void end_record(void) {
  struct record_events *record = atomic_exchange(&current, NULL);
  if (record) spool_publish(record, RECORD_EVENTS, EVENTS_SLOTS);
}

static SLOW_PATH bool begin_record(struct event_context now) {
  end_record();
  if (!spool_has_room()) return false; /* the record that the caller writes instead counts as lost, once */
  struct record_events *record = spool_claim(EVENTS_SLOTS);
  if (!record) return false;
  record->thread = now.thread;
  record->t_ns = base_ns = now.t_ns;
  record->collections = now.collections;
  record->flags = atomic_load(&alloc_flags);
  memset(record->reserved, 0, sizeof record->reserved);
  context = now.thread | (uint64_t)now.collections << 32;
  next_event = (struct spool_event *)(record + 1);
  end_events = (struct spool_event *)((char *)record + (size_t)EVENTS_SLOTS * SPOOL_SLOT_BYTES);
  records++;
  last_stack = last_type = 0;
  spool_publish(record, SPOOL_OPEN_EVENTS, EVENTS_SLOTS);
  atomic_store(&current, record);
  return true;
}

/* Makes room for one event and what belongs to it. A clock that was set back, or an event that another thread has begun
 * before the record, needs a new record too. */
static inline bool make_room(struct event_context now) {
  bool fits = atomic_load_explicit(&current, memory_order_relaxed) && end_events - next_event >= MOST_AT_ONCE &&
              (uint64_t)(now.t_ns - base_ns) <= UINT32_MAX && last_stack < MOST_NUMBERS && last_type < MOST_NUMBERS;
  if (unlikely(!fits) && !begin_record(now)) return false;
  uint64_t wanted = now.thread | (uint64_t)now.collections << 32;
  if (unlikely(wanted != context)) {
    if (!wanted) return false;
    put(EVENT_THREAD, 0, 0, 0, context = wanted);
  }
  return true;
}

/* Returns the number of a stack or a type in the record, after an event that says which one it is. */
static inline uint32_t number_of(struct numbered *known, uint64_t hash, uint32_t *last, uint8_t kind) {
  struct numbered *place = &known[hash % NUMBERED];
  if (!hash) return 0;
  if (likely(place->hash == hash && place->record == records)) return place->number;
  *place = (struct numbered){hash, records, ++*last};
  put(kind, (uint8_t)*last, (uint16_t)*last, 0, hash);
  return *last;
}

bool events_allocated(struct event_context now, uint64_t id, uint64_t stack, size_t size, size_t usable,
                      uint16_t source, bool python) {
  bool is_small = source == ALLOC_PYMALLOC && python && size < 1024 && usable < 1024 && usable % 16 == 0;
  if (!is_small && (!size || size >> 48 || usable < size || usable - size > UINT16_MAX || source > 127)) return false;
  if (!enter()) return false;
  bool written = make_room(now);
  if (written) {
    uint8_t number = (uint8_t)number_of(stacks, stack, &last_stack, EVENT_STACK);
    if (!is_small) put(EVENT_BYTES, (uint8_t)(source | python << 7), (uint16_t)(usable - size), 0, size);
    uint16_t more = is_small ? (uint16_t)(size | usable / 16 << 10) : 0;
    put(is_small ? EVENT_ALLOC : EVENT_ALLOC_LARGE, number, more, now.t_ns - base_ns, id);
  }
  leave();
  return written;
}

bool events_freed(struct event_context now, uint64_t id, uint64_t stack, uint64_t type, uint32_t flags) {
  if (!id || flags > UINT8_MAX || !enter()) return false;
  bool written = make_room(now);
  if (written) {
    uint8_t number = (uint8_t)number_of(stacks, stack, &last_stack, EVENT_STACK);
    uint32_t of_type = number_of(types, type, &last_type, EVENT_TYPE_NAME);
    put(EVENT_FREE, number, (uint16_t)(of_type | flags << 8), now.t_ns - base_ns, id);
  }
  leave();
  return written;
}

bool events_typed(struct event_context now, uint64_t id, uint64_t type) {
  if (!id || !type || !enter()) return false;
  bool written = make_room(now);
  if (written) {
    uint32_t of_type = number_of(types, type, &last_type, EVENT_TYPE_NAME);
    put(EVENT_TYPED, 0, (uint16_t)of_type, now.t_ns - base_ns, id);
  }
  leave();
  return written;
}

/* If a thread is writing, it goes on writing to the record, which stays open: its process ends. */
void events_end(void) {
  if (!enter()) return;
  end_record();
  leave();
}

void events_postfork_child(void) {
  atomic_store(&current, NULL);
  atomic_store(&busy, false);
}
