/* The resident pages of mappings (mappings.c). */
#ifndef SCALENE_TRACE_MEMORY_PAGES_H
#define SCALENE_TRACE_MEMORY_PAGES_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

struct touched {
  uint32_t untouched; /* pages of 4 KiB that are not resident */
  uint32_t absent;    /* those of them in shared mappings */
};
/* Looks at the pages of what is mapped. Above EXAMINED_PAGES private pages, or shared ones, these are an estimate from a
 * part of them. Both are 0 if the table cannot be locked. Context: malloc. */
struct touched pages_touched(void);
/* Returns the resident pages of 4 KiB of shared mappings, of which so many were `absent` when pages_touched was called last:
 * what was mapped since then is taken to be touched. Context: malloc. */
uint32_t pages_shared(uint32_t absent);
/* Goes on counting the resident pages of mappings without reserve if it is time, or counts them all `now`. `stack`: the
 * one that runs; 0 = none. Context: signal. */
void pages_look(uint64_t stack, bool now);
/* True if the page belongs to a mapping that counts as far as it is resident. Context: signal. */
bool pages_are_followed(uintptr_t address);
/* Says which stack has touched such a page, for so many page faults. Context: signal. */
void pages_note_fault(uintptr_t address, uint64_t faults, uint64_t stack);
/* Before pages are given back: what was touched since the last count is counted while it is there, also in a program that
 * waited and so had no tick. `go`: the pages go at once. Context: malloc. */
void pages_before_release(uintptr_t start, size_t bytes, bool go);
/* Counts before a fork: what the parent has touched is not the child's growth. Context: malloc. */
void pages_prefork(void);
/* Forgets the count that the parent had begun. Context: malloc. */
void pages_postfork_child(void);

#pragma GCC visibility pop

#endif
