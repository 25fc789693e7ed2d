/* Which native code a thread waits in: the functions on its stack, from the system call out to the first one in a library
 * and its callers. Only the watcher's thread calls these functions. */
#ifndef SCALENE_TRACE_WATCH_NATIVE_WAITING_H
#define SCALENE_TRACE_WATCH_NATIVE_WAITING_H

#include "shared/base.h"
#include "watch/native/images.h"

#pragma GCC visibility push(hidden)

/* Unwinds the stack of a blocked thread of the process that safe_read_of has chosen, and writes records of the functions
 * that are new. `sp`, `pc`: its registers. Returns the hash of the innermost function's record; 0 = it, or a caller,
 * is in no image that is known, or no chunk is available. The caller must verify that the thread did not run in the meantime. */
uint64_t waiting_read(const struct remote_images *images, uintptr_t sp, uintptr_t pc);

#pragma GCC visibility pop

#endif
