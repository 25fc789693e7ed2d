/* The loader's two locks: of loading, which dlopen, dlsym and dladdr take, and of the list of images, which dl_iterate_phdr
 * takes, and dlopen within the other. They are only ever tried. A thread whose callback of dl_iterate_phdr is Python has the
 * second while it waits for the GIL, and any callback or constructor may wait for a lock that the calling thread has. So no
 * function of ours may wait for them at a stop inside malloc, or with the GIL. */
#ifndef SCALENE_TRACE_ATTACHED_LOADER_H
#define SCALENE_TRACE_ATTACHED_LOADER_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Finds them. They are in a variable of the loader that only libc should use, so they are accepted only if dl_iterate_phdr
 * takes the second one. Returns null, or what is missing: "loader" = another thread has it, ask again; "libc" = they were not
 * found. Context: normal. */
const char *loader_find(void);
enum loader_locks { LIST_LOCK, BOTH_LOCKS };
/* Takes the lock of the list, or both, and that of slots (relocations.h), and blocks all signals of the thread. Then
 * dl_iterate_phdr does not wait, and with both, nor do the others; with the first alone, they must not be called. False = a lock
 * is taken, or unknown, or the thread has it already. Context: malloc. */
bool loader_begin(enum loader_locks locks);
/* Ends that. Context: malloc. */
void loader_end(void);
/* In a forked child, whose parent's thread may have been between begin and end: without this, the child's next dlopen would
 * wait for a thread that does not exist. Context: normal. */
void loader_postfork_child(void);

#pragma GCC visibility pop

#endif
