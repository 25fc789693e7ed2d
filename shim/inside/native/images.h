/* The loaded images (executable and libraries). */
#ifndef SCALENE_TRACE_NATIVE_IMAGES_H
#define SCALENE_TRACE_NATIVE_IMAGES_H

#include "shared/base.h"
#include "shared/native/image.h"

#pragma GCC visibility push(hidden)

/* Reads the list of loaded libraries for the first time. Context: normal. */
void images_init(void);
/* Reads the list again if libraries were loaded or closed. Costs only a few reads of memory otherwise.
 * Context: signal. */
void images_refresh(void);
/* Returns what the watcher needs to read the list, which never moves. Context: signal. */
const struct image_source *images_source(void);
/* Reads the list again because the interpreter was found: it has a class of its own. Context: normal. */
void images_interpreter_found(void);
/* Ends a refresh and calls of dlclose that another thread of the parent had begun. Context: signal. */
void images_postfork_child(void);
/* Finds the executable segment that contains `address`; false = none. Context: signal. */
bool images_find(uintptr_t address, struct image *out);
/* Returns the number of the list's current state, from 1. It changes with each read of the list. Context: signal. */
uint64_t images_generation(void);
/* True if the instruction before `address`, which lies in `image`, is a call. Context: signal. */
bool images_follows_call(uintptr_t address, const struct image *image);
/* The same for code outside of all images. Context: signal. */
bool images_follows_call_elsewhere(uintptr_t address);
/* Returns how many calls of dlclose have ended, or UINT32_MAX while one is in progress. Context: signal. */
uint32_t images_closed_count(void);

#pragma GCC visibility pop

#endif
