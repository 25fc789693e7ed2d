/* The allocation sampler: draws the gaps between samples, adapts the interval, and writes samples and their ends. */
#ifndef SCALENE_TRACE_MEMORY_SAMPLER_H
#define SCALENE_TRACE_MEMORY_SAMPLER_H

#include "inside/accounts/live.h"
#include "inside/memory/memory.h"
#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Allocates the table of followed blocks and sets the interval. Called once, by memory_init. Context: normal. */
void sampler_init(void);
/* Returns the mean interval in force, in bytes; 0 = off. Adapts it to the rate of allocation, and adopts a change by
 * the recorder. Called in the slow path, after memory_state.now_ns is set. Context: malloc. */
int64_t sampler_interval(void);
/* True if the interval adapts, is still `mean`, and need not be changed now. Context: malloc. */
bool sampler_is_settled(int64_t mean);
/* True if every allocation is written as an event, and nobody has asked for another interval. Context: malloc. */
bool sampler_is_exact(void);
/* True if the interval adapts to the rate of allocation. Context: malloc. */
bool sampler_adapts(void);
/* If every allocation is recorded and the recorder cannot keep up, waits for it. The thread must not be in the slow
 * path. Context: malloc. */
void sampler_wait_for_room(void);
/* Counts a sample that is due, recorded or not. Context: malloc. */
void sampler_note_due(void);
/* Adds to the volume from which the rate is computed. Context: malloc. */
void sampler_note_volume(int64_t bytes);
/* Draws the bytes up to and including the next sampled one, from a distribution with that mean. Context: malloc. */
int64_t sampler_gap(uint64_t *random, int64_t mean);
/* Writes a sample of the block, of the time memory_state.now_ns, and follows it; returns its id. A mapping is not followed
 * here, and its id is 0 if no record could be written. `state`: the calling thread's in Python, null = none.
 * Context: malloc. */
uint64_t sampler_write(const struct block *block, int64_t interval, bool maximum, uint64_t stack, const void *state);
/* The same, while every allocation is recorded, for what most blocks are: of a pool, and not followed yet. False = it is not
 * one, or its event could not be written; then it is not followed. Context: malloc. */
bool sampler_write_pooled(const struct block *block, uint64_t stack, const void *state);
/* Writes the end of the block's sample, if it is followed. The block is about to be freed. Context: malloc. */
void sampler_freed(uintptr_t address);
/* Stops following a block that is about to be resized; false = it is not followed. Context: malloc. */
bool sampler_take(uintptr_t address, struct live_sample *out);
/* Writes the end of a sample that sampler_take returned. `lives_on`: the block was resized, not freed.
 * Context: malloc. */
void sampler_resized(const struct live_sample *sample, bool lives_on);
/* Follows the block again after resizing it has failed. Context: malloc. */
void sampler_put_back(uintptr_t address, const struct live_sample *sample);
/* Writes the end of `bytes` bytes of a sample. Context: malloc. */
void sampler_ended(const struct live_sample *sample, uint64_t bytes, uint64_t stack, uint32_t flags);
/* Writes the types of the thread's last blocks, if they are alive. The thread ends. Context: malloc. */
void sampler_thread_end(void);
/* Blocks of pymalloc may have been freed without a call of sampler_freed or sampler_take. Context: malloc. */
void sampler_missed_frees(void);
/* Forgets the samples of the parent. Context: malloc. */
void sampler_postfork_child(void);

#pragma GCC visibility pop

#endif
