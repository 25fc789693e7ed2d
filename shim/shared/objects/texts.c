#include "shared/objects/texts.h"

#include "shared/base.h"
#include "shared/stacks/pylayout.h"
#include "shared/words.h"

#define COMPACT 32
#define ASCII 64

struct text text_of(const struct python_layout *layout, const char *head) {
  uint32_t state = (uint32_t)word_at(head, STR_STATE);
  uintptr_t length = word_at(head, STR_LENGTH);
  int data = state & ASCII ? layout->ascii_data : layout->compact_data;
  uint32_t kind = state >> 2 & 7;
  bool compact = state & COMPACT;
  return (struct text){length < TEXT_MOST_CHARACTERS ? (uint32_t)length : TEXT_MOST_CHARACTERS, compact ? kind : 0,
                       data, compact ? 0 : kind, layout->compact_data};
}

uint32_t text_character(const char *data, uint32_t kind, uint32_t index) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < kind; i++) value |= (uint32_t)(unsigned char)data[index * kind + i] << 8 * i;
  return value;
}

size_t text_put_utf8(char *to, uint32_t c) {
  if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = '?';
  if (c < 0x80) return to[0] = (char)c, 1;
  if (c < 0x800) return to[0] = (char)(0xc0 | c >> 6), to[1] = (char)(0x80 | (c & 63)), 2;
  if (c < 0x10000) {
    to[0] = (char)(0xe0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 63)), to[2] = (char)(0x80 | (c & 63));
    return 3;
  }
  to[0] = (char)(0xf0 | c >> 18), to[1] = (char)(0x80 | (c >> 12 & 63));
  to[2] = (char)(0x80 | (c >> 6 & 63)), to[3] = (char)(0x80 | (c & 63));
  return 4;
}
