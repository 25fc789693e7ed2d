/* Bounded reads of the unwind tables of an image. Tables may be damaged, and those of a library that was loaded after
 * the start may be unmapped at any moment: such tables are copied in pieces, since each safe read is a system call. */
#include "shared/native/cursor.h"

#include "shared/base.h"
#include "shared/saferead.h"

void cursor_begin(struct cursor *cursor, uintptr_t at, uintptr_t end, uintptr_t low, uintptr_t high, bool plain) {
  cursor->at = at;
  cursor->end = end;
  cursor->plain = plain;
  cursor->failed = at < low || at > end || end > high;
  cursor->copied = 0;
  cursor->copied_from = 0;
}

/* Copies the bytes from the cursor on. */
static bool fill(struct cursor *cursor, size_t size) {
  size_t left = cursor->end - cursor->at;
  cursor->copied_from = cursor->at;
  cursor->copied =
      (uint32_t)safe_read_some(cursor->copy, (void *)cursor->at, left < CURSOR_BYTES ? left : CURSOR_BYTES);
  return cursor->copied >= size;
}

/* Returns the next `size` (at most 8) bytes and moves on. */
static const uint8_t *take(struct cursor *cursor, size_t size) {
  static const uint8_t nothing[8];
  if (cursor->failed || size > cursor->end - cursor->at) {
    cursor->failed = true;
    return nothing;
  }
  uintptr_t at = cursor->at;
  if (cursor->plain) {
    cursor->at += size;
    return (const uint8_t *)at;
  }
  bool here = at >= cursor->copied_from && at - cursor->copied_from + size <= cursor->copied;
  if (!here && !fill(cursor, size)) {
    cursor->failed = true;
    return nothing;
  }
  cursor->at += size;
  return cursor->copy + (at - cursor->copied_from);
}

uint8_t cursor_u8(struct cursor *cursor) { return *take(cursor, 1); }

uint16_t cursor_u16(struct cursor *cursor) {
  uint16_t value;
  memcpy(&value, take(cursor, sizeof value), sizeof value);
  return value;
}

uint32_t cursor_u32(struct cursor *cursor) {
  uint32_t value;
  memcpy(&value, take(cursor, sizeof value), sizeof value);
  return value;
}

uint64_t cursor_u64(struct cursor *cursor) {
  uint64_t value;
  memcpy(&value, take(cursor, sizeof value), sizeof value);
  return value;
}

/* Returns the bits of a LEB128 number; `bits` = how many were read, `sign` = the last one is set. */
static uint64_t leb(struct cursor *cursor, unsigned *bits, bool *sign) {
  uint64_t value = 0;
  uint8_t byte = 0x80;
  for (*bits = 0; byte & 0x80; *bits += 7) {
    byte = cursor_u8(cursor);
    if (*bits >= 70) cursor->failed = true;
    if (cursor->failed) return 0;
    if (*bits < 64) value |= (uint64_t)(byte & 0x7f) << *bits;
  }
  *sign = byte & 0x40;
  return value;
}

uint64_t cursor_uleb(struct cursor *cursor) {
  unsigned bits;
  bool sign = false;
  return leb(cursor, &bits, &sign);
}

int64_t cursor_sleb(struct cursor *cursor) {
  unsigned bits;
  bool sign = false;
  uint64_t value = leb(cursor, &bits, &sign);
  if (sign && bits < 64) value |= ~UINT64_C(0) << bits;
  return (int64_t)value;
}

void cursor_skip(struct cursor *cursor, uint64_t size) {
  if (size > cursor->end - cursor->at) cursor->failed = true;
  if (!cursor->failed) cursor->at += size;
}
