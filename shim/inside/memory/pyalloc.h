/* Python's allocators: counts the blocks that pymalloc serves from its own pools. */
#ifndef SCALENE_TRACE_MEMORY_PYALLOC_H
#define SCALENE_TRACE_MEMORY_PYALLOC_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Wraps Python's allocators. Called before Py_Initialize, when the interpreter was found. Context: normal. */
void pyalloc_init(void);
/* Wraps them again if the interpreter is about to start a second time. Context: normal. */
void pyalloc_start_again(void);
/* Counts the loss python_malloc if Python has never asked for an arena. Called at exit. Context: normal. */
void pyalloc_end(void);
/* Returns the bytes of the arenas that are mapped now. Context: malloc. */
int64_t pyalloc_arena_bytes(void);
/* Returns what is not in the footprint while that is put off: what the pools hold, or the arenas as a whole if they are many.
 * Context: signal. */
int64_t pyalloc_uncounted_bytes(void);
/* Forgets a thread of the parent that was wrapping the allocators. Context: signal. */
void pyalloc_postfork_child(void);
/* Wraps Python's allocators if that was put off until a recording that began paused is resumed. Wraps them again if
 * they are pymalloc's own afterwards. The calling thread may be at any instruction. Context: signal. */
void pyalloc_resume(void);

/* ---- in a process that was attached to ----
 *
 * All of these write what Python keeps of its allocators directly, word by word: our functions are right with any mixture. */

/* An arena from before. Context: normal. */
void pyalloc_older_arena(uintptr_t base);
/* True if pymalloc's own functions are Python's allocators, so that they can be wrapped. The caller has the GIL.
 * Context: normal. */
bool pyalloc_can_wrap(void);
/* Finds where Python keeps them; false = that is unknown. The caller has the GIL. Context: normal. */
bool pyalloc_find_places(void);
/* Wraps them; their places were found. Context: normal. */
void pyalloc_wrap(void);
/* Puts back what was there before. False = the program has put another allocator around ours: it must be called again when
 * that is gone. The caller has the GIL. Context: normal, and at stops inside Python's allocators. */
bool pyalloc_unwrap(void);

#pragma GCC visibility pop

#endif
