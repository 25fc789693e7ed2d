/* The Python interpreter of this process: its version, its layout and the addresses of its symbols. */
#ifndef SCALENE_TRACE_PYTHON_PYTHON_H
#define SCALENE_TRACE_PYTHON_PYTHON_H

#include "shared/base.h"
#include "shared/interpreter/symbols.h"
#include "shared/stacks/pylayout.h"

#pragma GCC visibility push(hidden)

extern const struct python_layout *python_layout; /* null = no Python, or an unsupported version or build */
extern uint32_t python_version;                   /* PY_VERSION_HEX; 0 = no Python in this image */
extern bool python_at_load;                       /* it was found when the shim was loaded, so it is never unloaded */
/* Finds the interpreter among the loaded images and sets the variables of this header. Context: normal. */
void python_init(void);
struct elf_image;
/* The same for an interpreter that was loaded later, in this image. Context: normal. */
void python_find_in(const struct elf_image *image);
/* Forgets that interpreter after it was unloaded. Threads may still use `python_layout`. Context: signal. */
void python_forget(void);
/* Returns the address of a symbol of the interpreter; null = there is none. Context: normal. */
void *python_symbol(const char *name);
/* Returns the calling thread's PyThreadState; null = it has none, or it may have been freed. Context: signal. */
void *python_thread_state(void);
/* True if the calling thread holds the GIL, as far as the interpreter knows: once there were sub-interpreters, it takes
 * every thread for one that does. Context: signal. */
bool python_holds_gil(void);
/* True once the interpreter has begun to finalize, until the program has started it again. The first answer after each of
 * the two is also written for the recorder. Context: signal. */
bool python_finalizing(void);

/* True if the calling thread has a Python thread state, even if the version is not supported. Context: signal. */
bool python_thread_known(void);
/* True if the process has only the interpreter of this thread state, which is the calling thread's, and no other one was
 * noticed before. Then a thread inside one of Python's allocators is the only one that frees objects. Context: malloc. */
bool python_is_alone(const char *state);
/* True on 3.10 and 3.11 if there is more than one interpreter: the GIL-state lookup may then return a thread state of
 * the wrong one. Context: signal. */
bool python_sub_interpreters(void);

#pragma GCC visibility pop

#endif
