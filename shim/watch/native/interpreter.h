/* The interpreter of an attached process: the functions by which its native stacks are read. Only the watcher's thread calls
 * these functions. */
#ifndef SCALENE_TRACE_WATCH_NATIVE_INTERPRETER_H
#define SCALENE_TRACE_WATCH_NATIVE_INTERPRETER_H

#include <sys/types.h>

#include "shared/base.h"
#include "shared/interpreter/symbols.h"
#include "shared/native/image.h"

#pragma GCC visibility push(hidden)

/* Finds them in a copy of the interpreter's memory. `source`: of its images; `version`: PY_VERSION_HEX. Reads are of the
 * process `pid` before and after. Returns what was found, for the caller to free; null = it cannot be read. Takes some
 * milliseconds. */
struct python_symbols *interpreter_symbols(pid_t pid, const struct image_source *source, uint32_t version);

#pragma GCC visibility pop

#endif
