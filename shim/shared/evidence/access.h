/* The loaded images of the process whose native stacks are unwound: in the shim its own, in the watcher those of an attached
 * process. */
#ifndef SCALENE_TRACE_SHARED_EVIDENCE_ACCESS_H
#define SCALENE_TRACE_SHARED_EVIDENCE_ACCESS_H

#include "shared/base.h"
#include "shared/native/image.h"

#pragma GCC visibility push(hidden)

/* Context of all functions: signal. */
struct image_access {
  /* Finds the executable segment that contains `address`; false = none. */
  bool (*find)(uintptr_t address, struct image *out);
  /* Returns the number of the list's current state, from 1. It changes with each read of the list. */
  uint64_t (*generation)(void);
  /* True if the instruction before `address`, which lies in `image`, is a call; */
  bool (*follows_call)(uintptr_t address, const struct image *image);
  /* the same for code outside of all images. */
  bool (*follows_call_elsewhere)(uintptr_t address);
  /* Where the call before `after`, which lies in `image`, leads, if it names its target; else 0. */
  uintptr_t (*called_directly)(uintptr_t after, const struct image *image);
};
/* Until it is set, there are no images. */
extern struct image_access image_access;

#pragma GCC visibility pop

#endif
