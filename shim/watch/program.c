/* What the recorder asks about the program that it starts. exec.c asks the same in recorded processes. */
#include <fcntl.h>

#include "shared/base.h"
#include "shared/executable.h"

/* Returns the number of the loss (losses.h) that counts the program at `path` (for a script, its interpreter) when it is
 * started with `preload` as LD_PRELOAD; -1 = it can be recorded. */
EXPORT int scalene_unrecorded(const char *path, const char *preload) {
  enum executable_kind kind = executable_kind_at(AT_FDCWD, path);
  bool refuses = kind == EXECUTABLE_RECORDABLE && executable_preload_has_sanitizer(preload);
  return executable_loss(refuses ? EXECUTABLE_REFUSES : kind);
}
