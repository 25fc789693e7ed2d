/* Mappings without reserve (MAP_NORESERVE): memory as far as they are resident. */
#ifndef SCALENE_TRACE_MEMORY_RESIDENCY_H
#define SCALENE_TRACE_MEMORY_RESIDENCY_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* All functions are called with the table of ranges locked (ranges.h), except those that say otherwise. */

/* True if there is no room for a new group. Context: malloc. */
bool residency_is_full(void);
/* Returns the number of a new group: the parts of one mapping. `stack`: the one that maps it. 0 = the table is full.
 * Context: malloc. */
uint16_t residency_new_group(uint64_t stack);
/* True if there are groups. Needs no lock. Context: signal. */
bool residency_has_groups(void);
/* True if the resident pages should be counted again. Needs no lock. Context: signal. */
bool residency_may_be_due(void);
/* The same, of one thread only: the caller counts next. Needs no lock. Context: signal. */
bool residency_is_due(void);
/* After residency_is_due: sets when to go on, after a step that took so much CPU time. `ended`: the count is complete, or
 * could not be begun. Needs no lock. Context: signal. */
void residency_put_off(int64_t used_ns, bool ended);
/* What has changed since the last count is charged to nobody, because the recording was paused. Needs no lock. Context:
 * signal. */
void residency_note_pause(void);
/* Says which stack runs in the calling thread; 0 = none. Needs no lock. Context: signal. */
void residency_note_running(uint64_t stack);
/* Says which stack has had so many page faults in the group, of which one was observed. Context: signal. */
void residency_note_fault(uint16_t group, uint64_t faults, uint64_t stack);
/* Begins a count. Context: signal. */
void residency_begin(void);
/* Adds a part of a group that has so many resident bytes. Context: signal. */
void residency_add(uint16_t group, int64_t bytes);
/* Ends the count: what has changed since the last one is allocated or freed now. `running`: the stack that runs, 0 = none.
 * Context: signal. */
void residency_settle(uint64_t running);
/* A part of the group has moved to another address. Context: malloc. */
void residency_moved(uint16_t group);
/* True if it has since the count began, so that its parts must be counted again: between the other two. Context: signal. */
bool residency_has_moved(uint16_t group);
void residency_begin_again(void);
void residency_end_again(void);
/* The group is about to give so many resident bytes back, of which the present count has `found` some. Returns how many
 * bytes are to be taken from it now. Context: malloc. */
int64_t residency_release(uint16_t group, int64_t bytes, int64_t found);
void residency_take(uint16_t group, int64_t bytes, uint64_t stack);
/* True if so much was touched since the last count that a child would grow by it. Needs no lock. Context: signal. */
bool residency_has_faulted(void);
/* Free the groups that are not marked after all marks were cleared: they have no part left. A count goes on beside that.
 * Context: malloc. */
void residency_clear_marks(void);
void residency_mark(uint16_t group);
void residency_drop_unmarked(uint64_t running);
/* Returns the bytes that count as memory. Needs no lock. Context: signal. */
int64_t residency_bytes(void);
/* Keeps the groups and forgets their samples, which are the parent's. `forget`: forgets the groups too, which the table
 * of mappings has lost. Context: malloc. */
void residency_postfork_child(bool forget);

#pragma GCC visibility pop

#endif
