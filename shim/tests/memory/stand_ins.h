/* Stand-ins for the rest of the shim, for tests of memory.c and sampler.c: nothing is mapped, known or full. */
#ifndef SCALENE_TRACE_TESTS_MEMORY_STAND_INS_H
#define SCALENE_TRACE_TESTS_MEMORY_STAND_INS_H

#include "inside/core/fork.h"
#include "inside/core/thread_state.h"
#include "inside/memory/mappings.h"
#include "inside/memory/pages.h"
#include "inside/memory/pyalloc.h"
#include "inside/native/diverted.h"
#include "inside/native/images.h"
#include "inside/python/objects.h"
#include "inside/python/python.h"
#include "inside/stacks/codes.h"
#include "inside/stacks/recent.h"
#include "shared/base.h"
#include "shared/spool.h"

void fork_check(void) {}
void thread_ensure(void) {}
void images_refresh(void) {}
void mappings_sizes(int64_t *mapped, int64_t *reserved) { *mapped = *reserved = 0; }
uint32_t pages_shared(uint32_t absent) { return absent; }
struct touched pages_touched(void) { return (struct touched){0}; }
int64_t mappings_postfork_child(void) { return 0; }
int64_t pyalloc_arena_bytes(void) { return 0; }
void diverted_end(void) {}
void pyalloc_resume(void) {}
void pyalloc_postfork_child(void) {}
int64_t pyalloc_uncounted_bytes(void) { return 0; }
void *python_thread_state(void) { return NULL; }
bool python_finalizing(void) { return false; }
void objects_follow(uint64_t (*living)(uintptr_t address, size_t bytes), uint32_t (*closed)(void),
                    bool (*pooled)(uintptr_t address)) {
  (void)living;
  (void)pooled;
  (void)closed;
}
uint32_t images_closed_count(void) { return 0; }
uint32_t objects_collections(const void *state, bool held) { return held && state != NULL; }
void codes_follow(const struct codes_watch *watch) { (void)watch; }
_Atomic uint64_t codes_marks[CODES_MARKS / 64];
void codes_changed_marked(uintptr_t address) { (void)address; }
void codes_forget(void) {}
void codes_postfork_child(void) {}
void recent_postfork_child(void) {}
bool spool_has_room(void) { return true; }
bool spool_is_short(void) { return false; }
void spool_wait_for_room(void) {}

#endif
