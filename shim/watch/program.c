/* What the recorder asks about the program that it starts: exec.c asks the same in recorded processes. */
#include <fcntl.h>

#include "shared/base.h"
#include "shared/executable.h"

/* Returns the kind of the program at `path`; for a script, that of its interpreter. */
EXPORT int scalene_executable_kind(const char *path) { return (int)executable_kind_at(AT_FDCWD, path, true); }

/* Returns 1 if the shim cannot be listed beside what a value of LD_PRELOAD lists. */
EXPORT int scalene_preload_is_first(const char *preload) { return executable_preload_is_first(preload); }
