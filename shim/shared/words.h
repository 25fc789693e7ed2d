/* Fields of a copied object, by their offset. */
#ifndef SCALENE_TRACE_SHARED_WORDS_H
#define SCALENE_TRACE_SHARED_WORDS_H

#include "shared/base.h"

static inline uintptr_t word_at(const void *bytes, int offset) {
  uintptr_t value;
  memcpy(&value, (const char *)bytes + offset, sizeof value);
  return value;
}
static inline int32_t int_at(const void *bytes, int offset) {
  int32_t value;
  memcpy(&value, (const char *)bytes + offset, sizeof value);
  return value;
}

#endif
