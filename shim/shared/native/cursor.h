/* Bounded reads of the unwind tables of an image. */
#ifndef SCALENE_TRACE_SHARED_NATIVE_CURSOR_H
#define SCALENE_TRACE_SHARED_NATIVE_CURSOR_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

#define CURSOR_BYTES 128

/* A place in the tables. Nothing outside of [at, end) is read. */
struct cursor {
  uintptr_t at, end; /* addresses: the next byte, and the end of what may be read */
  bool plain;        /* the tables are never unmapped, so they are read in place; else copied by safe reads */
  bool failed;       /* a read went beyond `end` or into unmapped memory; values are 0 since then */
  uint32_t copied;   /* number of valid bytes in `copy` */
  uintptr_t copied_from;
  uint8_t copy[CURSOR_BYTES];
};

/* Begins at `at`. Fails at once if [at, end) does not lie in [low, high). Context: signal. */
void cursor_begin(struct cursor *cursor, uintptr_t at, uintptr_t end, uintptr_t low, uintptr_t high, bool plain);
/* The next values, in little endian. Context: signal. */
uint8_t cursor_u8(struct cursor *cursor);
uint16_t cursor_u16(struct cursor *cursor);
uint32_t cursor_u32(struct cursor *cursor);
uint64_t cursor_u64(struct cursor *cursor);
/* Unsigned and signed LEB128 numbers of at most ten bytes. Context: signal. */
uint64_t cursor_uleb(struct cursor *cursor);
int64_t cursor_sleb(struct cursor *cursor);
/* Moves on by `size` bytes. Context: signal. */
void cursor_skip(struct cursor *cursor, uint64_t size);

#pragma GCC visibility pop

#endif
