/* Anonymous mappings that libraries make with mmap. */
#ifndef SCALENE_TRACE_MEMORY_MAPPINGS_H
#define SCALENE_TRACE_MEMORY_MAPPINGS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Stores the bytes of the mappings that count as memory, and of those that are only reservations. Context: malloc. */
void mappings_sizes(int64_t *mapped, int64_t *reserved);
/* Returns how many pages of 4 KiB are mapped and not resident. Above EXAMINED_PAGES pages it is an estimate from a part
 * of them. Returns 0 if the table cannot be locked. Context: malloc. */
uint32_t mappings_untouched_pages(void);
/* Goes on counting the resident pages of mappings without reserve if it is time, or counts them all `now`. `stack`: the
 * one that runs; 0 = none. Context: signal. */
void mappings_look(uint64_t stack, bool now);
/* True if the page belongs to a mapping that counts as far as it is resident. Context: signal. */
bool mappings_are_resident_part(uintptr_t address);
/* Says which stack has touched such a page, for so many page faults. Context: signal. */
void mappings_note_fault(uintptr_t address, uint64_t faults, uint64_t stack);
/* Counts the resident pages of mappings without reserve. Context: malloc. */
void mappings_prefork(void);
/* Keeps the ranges and forgets their samples, which are the parent's. Returns the bytes of memory that are no longer
 * counted, because the table was inconsistent. Context: malloc. */
int64_t mappings_postfork_child(void);

#pragma GCC visibility pop

#endif
