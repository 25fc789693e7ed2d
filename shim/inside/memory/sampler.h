/* The allocation sampler. */
#ifndef SCALENE_TRACE_MEMORY_SAMPLER_H
#define SCALENE_TRACE_MEMORY_SAMPLER_H

#include "inside/memory/live.h"
#include "inside/memory/memory.h"
#include "shared/base.h"

#pragma GCC visibility push(hidden)

void sampler_init(void);
/* The interval in force, adapted to the rate; 0 = off. Context: malloc. */
int64_t sampler_interval(void);
/* Does it follow the rate? Context: malloc. */
bool sampler_adapts(void);
/* So much was allocated. Context: malloc. */
void sampler_note_volume(int64_t bytes);
/* Bytes up to the next sample, exponential with that mean. Context: malloc. */
int64_t sampler_gap(uint64_t *random, int64_t mean);
/* Writes a sample and follows it; its id. Context: malloc. */
uint64_t sampler_write(const struct block *block, int64_t interval, bool maximum, uint64_t stack, int64_t t_ns);
/* A block that may be followed is about to be freed. Context: malloc. */
void sampler_freed(uintptr_t address);
/* The same for a block that is about to be resized: takes it out, and writes its end once it has moved.
 * Context: malloc. */
bool sampler_take(uintptr_t address, struct live_sample *out);
void sampler_resized(const struct live_sample *sample, bool lives_on);
/* It was not resized. Context: malloc. */
void sampler_put_back(uintptr_t address, const struct live_sample *sample);
/* Writes the end of `bytes` of a sample. Context: malloc. */
void sampler_ended(const struct live_sample *sample, uint64_t bytes, uint64_t stack, uint32_t flags);
/* A footprint sample was taken: growth begins anew. Context: malloc. */
void sampler_begin_growth(void);
/* Draws one of the samples taken since then, or since the last call, that are still alive, by their weight in bytes, or
 * else takes the newest before them that is; false = there is none. Context: malloc. */
bool sampler_draw_survivor(uint64_t *random, uint32_t *thread, uint64_t *stack);
void sampler_postfork_child(void);

#pragma GCC visibility pop

#endif
