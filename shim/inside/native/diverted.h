/* Calls of functions of libc that go past the shim until a recording that began paused is resumed. */
#ifndef SCALENE_TRACE_NATIVE_DIVERTED_H
#define SCALENE_TRACE_NATIVE_DIVERTED_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* A function that the shim exports, and the one of libc that it forwards to; 0 = there is none. */
struct diversion {
  const char *name;
  uintptr_t libcs;
};
/* Makes the images that are loaded now call libc's functions directly. They are those that the program was started with,
 * which are never unloaded. Call it before there are other threads. Context: normal. */
void diverted_begin(const struct diversion *diversions, int count);
/* Leads them to the shim again. Does nothing if they do. Context: signal. */
void diverted_end(void);

#pragma GCC visibility pop

#endif
