/* What the native stack of a sampled thread says, by the functions that say it in a recorded process. Only the watcher's
 * thread calls these functions. */
#ifndef SCALENE_TRACE_WATCH_NATIVE_SAMPLED_H
#define SCALENE_TRACE_WATCH_NATIVE_SAMPLED_H

#include "shared/base.h"
#include "shared/evidence/evidence.h"
#include "shared/evidence/unwind.h"
#include "shared/interpreter/symbols.h"
#include "watch/attached/ring.h"
#include "watch/native/images.h"
#include "watch/native/instruction.h"

#pragma GCC visibility push(hidden)

/* The interpreter of a process. */
struct sampled_code {
  struct python_symbols *symbols; /* null = unknown */
  uintptr_t interpreter;          /* an address in its code, when it was looked for */
  struct next_places *places;     /* where its bytecode loop keeps the next instruction; null = unknown */
};

/* Derives the evidence of a sample that has registers, and writes the functions on its stack as the thread `thread`'s. All
 * reads are of the process `pid` already. `version`: PY_VERSION_HEX of its Python; 0 = it has none. False = its
 * images or its interpreter cannot be read. */
bool sampled_evidence(struct remote_images *images, struct sampled_code *code, pid_t pid, uint32_t version,
                      const struct ring_sample *sample, uint32_t thread, struct native_evidence *out);
/* The registers of the bytecode loop that the last sample was in, when it made its call. */
const struct unwind_registers *sampled_in_loop(void);
/* Forgets the interpreter. */
void sampled_forget(struct sampled_code *code);

#pragma GCC visibility pop

#endif
