/* The shim in a process that was started without it. The library is loaded late, by a script that the interpreter runs where
 * a debugger may ask it to (PEP 768), or where it makes calls that are pending, so that its thread holds the GIL and is
 * outside of malloc, the loader and handlers.
 * It records memory only. It is never unloaded: a call may return to it at any time. docs/design/attach-memory.md gives the
 * reasons. */
#ifndef SCALENE_TRACE_ATTACHED_ATTACHED_H
#define SCALENE_TRACE_ATTACHED_ATTACHED_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Begins a recording into the spool at `path`; null = it is only checked whether that is possible. Returns what is missing, null =
 * nothing. The caller has the GIL. Context: normal. */
const char *attached_start(const char *path);
/* Ends it, as attached_leave, with what the calling thread has not written yet. Returns why that was not done, null = it was.
 * The caller has the GIL. Context: normal. */
const char *attached_stop(void);
/* Ends the recording of this process: gives up the spool and puts back slots, and with the GIL, Python's allocators (else
 * the next stop in them does). If a thread has the loader's lock for long, slots go on to lead here, and calls are
 * forwarded. Does nothing if none is under way. Context: normal. */
void attached_leave(bool has_gil);
/* True while a recording is under way that is not about to end. Context: malloc. */
bool attached_is_on(void);

/* ---- slots.c: the slots through which images call malloc and mmap. The caller has the list's lock (loader.h). ---- */

/* Leads them here, in all images. The caller has both locks, so that none is just being loaded. Context: malloc. */
void slots_lead_here(void);
/* Leads them back. Context: malloc. */
void slots_lead_back(void);
/* Takes both locks, if they are free, and leads slots of images here that were loaded since. Does nothing if the last time was
 * not long ago. Context: malloc. */
void slots_refresh(int64_t now_ns);
/* True if malloc is libc's for the program, and not one of another library. Context: normal. */
bool slots_are_libcs(void);

/* ---- older.c: memory from before ---- */

#define MOST_ARENAS (1u << 20)

/* Finds the arenas of pymalloc and notes each of them; false = their table was not found. The caller has the GIL.
 * Context: normal. */
bool older_arenas(void);
/* Returns the bytes that libc's malloc has given out; 0 = that is unknown, which is counted. Context: normal. */
int64_t older_native_bytes(void);

/* ---- arena_tree.c ---- */

/* Notes the arenas of pymalloc of CPython 3.10 and 3.11; false = the tree of them was not found. `blocks`: addresses of some
 * that pymalloc has given. The caller has the GIL. Context: normal. */
bool arena_tree_note(const uintptr_t *blocks, int count);

/* ---- pristine.c: the variables of the library as they were when it was loaded ---- */

/* Keeps them; false = there is no memory. Context: normal. */
bool pristine_keep(void);
/* Restores all but those that are LASTING. No thread may be in a section, or in a function of ours that uses others.
 * Context: normal. */
void pristine_restore(void);

/* ---- filters.c ---- */

/* Prepares the functions of that file. Context: normal. */
void filters_watch(void);
int attached_prctl(int option, ...);
long syscall(long number, ...);

#pragma GCC visibility pop

#endif
