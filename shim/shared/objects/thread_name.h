/* Names of threads, as Python's threading module keeps them: the attribute _name of a Thread. */
#ifndef SCALENE_TRACE_OBJECTS_THREAD_NAME_H
#define SCALENE_TRACE_OBJECTS_THREAD_NAME_H

#include "shared/base.h"
#include "shared/objects/instances.h"
#include "shared/stacks/pylayout.h"

#pragma GCC visibility push(hidden)

/* Where a name was found. */
struct thread_name_seen {
  uintptr_t name; /* address of the str; 0 = no name was found yet */
  struct instance_path path;
};

/* Reads the name of the Thread at `object`, and writes it to the spool as that of the thread with the id `thread`, unless
 * `*known` is its hash, which is replaced. `ident`: what Python calls the thread. Nothing is written if the object is not
 * a Thread, or the Thread of another thread. Before its thread has begun, a Thread belongs to none; `may_begin` accepts
 * that. `seen` (may be null) is where the name with the hash `*known` was found: less is read if it is still there. `ended`
 * (null = the calling thread) is called with `whose` after the read: once a thread has ended, another one may have its
 * ident, and a Thread at the same address. Nothing is written then. True = written. Context: signal. */
bool thread_name_update(const struct python_layout *layout, uint32_t thread, uintptr_t object, uint64_t ident,
                        bool may_begin, uint64_t *known, struct thread_name_seen *seen, bool (*ended)(const void *),
                        const void *whose);

#pragma GCC visibility pop

#endif
