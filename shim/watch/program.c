/* What the recorder asks about the program that it starts. Recorded processes decide by the same functions. */
#include <fcntl.h>

#include "shared/base.h"
#include "shared/executable.h"
#include "shared/stacks/pylayout.h"

/* Returns the number of the loss (losses.h) that counts the program at `path` (for a script, its interpreter) when it is
 * started with `preload` as LD_PRELOAD; -1 = it can be recorded. */
EXPORT int scalene_unrecorded(const char *path, const char *preload) {
  enum executable_kind kind = executable_kind_at(AT_FDCWD, path);
  bool refuses = kind == EXECUTABLE_RECORDABLE && executable_preload_has_sanitizer(preload);
  return executable_loss(refuses ? EXECUTABLE_REFUSES : kind);
}

/* Returns how the Python frames of an interpreter are read: -1 = they are not, its layout is unknown; 0 = from memory, or
 * by process_vm_readv; 1 = by process_vm_readv only. `version`: PY_VERSION_HEX; `runtime`: the first RUNTIME_BYTES of
 * _PyRuntime. */
EXPORT int scalene_layout(uint32_t version, const char *runtime) {
  struct python_layout room;
  const struct python_layout *layout = pylayout_for(version, runtime, &room);
  if (!layout) return -1;
  return pylayout_needs_reads(layout);
}

/* Where an interpreter whose frames can be read has its list of interpreters (in _PyRuntime), and an interpreter the next
 * one and its first thread; three offsets in bytes. Returns 0, or -1 = the layout is unknown. */
EXPORT int scalene_layout_of_interpreters(uint32_t version, const char *runtime, int *offsets) {
  struct python_layout room;
  const struct python_layout *layout = pylayout_for(version, runtime, &room);
  if (!layout) return -1;
  offsets[0] = layout->runtime_interpreters;
  offsets[1] = layout->interp_next;
  offsets[2] = layout->interp_threads;
  return 0;
}
