/* The loaded images of another process: the one that safe_read_of has chosen. Only the watcher's thread calls these
 * functions. */
#ifndef SCALENE_TRACE_WATCH_NATIVE_IMAGES_H
#define SCALENE_TRACE_WATCH_NATIVE_IMAGES_H

#include <sys/types.h>

#include "shared/base.h"
#include "shared/native/image.h"

#pragma GCC visibility push(hidden)

/* The list of a process; all zero = it was not read yet. */
struct remote_images {
  uint64_t generation; /* number of the list among those of all processes, from 1 */
  struct image_source source;
  const struct image_source *given; /* of an attached process, which has none in its memory; else null */
  uintptr_t last_link;              /* the last entry of the loader's list */
  uintptr_t last_place;             /* where its address is stored: in the entry before */
  int libraries, count;             /* entries that were read; images */
  bool cut;            /* there are more than can be held; the list is read again only if its source changes */
  bool overlaps;       /* an entry that was appended lies where another one is known to be */
  struct image *image; /* sorted by start */
};

/* Reads what is new of the list of the process `pid`. `source`: address of its struct image_source, unless it was given.
 * Costs one read if nothing is new. False = the list cannot be read. */
bool remote_images_refresh(struct remote_images *images, pid_t pid, uintptr_t source);
/* Returns the image that contains `address`; null = none. */
const struct image *remote_images_find(const struct remote_images *images, uintptr_t address);
/* Forgets the list, but not what was given. */
void remote_images_free(struct remote_images *images);

#pragma GCC visibility pop

#endif
