/* Reads of fields at an offset, by copying: the bytes need not be aligned. */
#ifndef SCALENE_TRACE_SHARED_WORDS_H
#define SCALENE_TRACE_SHARED_WORDS_H

#include "shared/base.h"

/* Returns the 8-byte word at `offset`. Context: signal. */
static inline uintptr_t word_at(const void *bytes, int offset) {
  uintptr_t value;
  memcpy(&value, (const char *)bytes + offset, sizeof value);
  return value;
}
/* Returns the int32 at `offset`. Context: signal. */
static inline int32_t int_at(const void *bytes, int offset) {
  int32_t value;
  memcpy(&value, (const char *)bytes + offset, sizeof value);
  return value;
}

#endif
