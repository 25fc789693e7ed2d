/* Writes allocations and frees as events, while every one of them is recorded: 16 bytes each (record_events). */
#ifndef SCALENE_TRACE_EVENTS_EVENTS_H
#define SCALENE_TRACE_EVENTS_EVENTS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* What an event says of its moment. */
struct event_context {
  uint32_t thread, collections;
  int64_t t_ns;
};

/* Write an event. False = nothing was written, so the caller writes a record of its own: another thread is writing one,
 * there is no room, or the event does not hold it. Context: malloc. */
bool events_allocated(struct event_context now, uint64_t id, uint64_t stack, size_t size, size_t usable,
                      uint16_t source, bool python);
bool events_freed(struct event_context now, uint64_t id, uint64_t stack, uint64_t type, uint32_t flags);
bool events_typed(struct event_context now, uint64_t id, uint64_t type);
/* The flags of each allocation of interval 1, as in an alloc record. Context: signal. */
void events_set_flags(uint32_t flags);
/* Ends the current record, so that its chunk can be finished. Context: signal. */
void events_end(void);
/* Forgets the parent's record. Context: signal. */
void events_postfork_child(void);

#pragma GCC visibility pop

#endif
