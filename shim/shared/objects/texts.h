/* The text of a str object of Python. */
#ifndef SCALENE_TRACE_OBJECTS_TEXTS_H
#define SCALENE_TRACE_OBJECTS_TEXTS_H

#include "shared/base.h"
#include "shared/stacks/pylayout.h"

#pragma GCC visibility push(hidden)

#define TEXT_MOST_CHARACTERS 200 /* of a longer text, so many are read */
#define TEXT_HEAD 40             /* bytes of the object's header */
#define TEXT_MOST_BYTES (4 * TEXT_MOST_CHARACTERS)
struct text {
  uint32_t length; /* characters */
  uint32_t kind;   /* bytes per character: 1, 2 or 4 in a valid text; 0 = not a compact str */
  int data;        /* offset of the characters in the object */
  uint32_t
      kind_apart; /* the same as kind if the characters are apart, as those of subclasses of str; 0 = they are not */
  int address;    /* offset of their address then */
};

/* Interprets the first TEXT_HEAD bytes of a str object. Context: signal. */
struct text text_of(const struct python_layout *layout, const char *head);
/* Returns the character at `index`. Context: signal. */
uint32_t text_character(const char *data, uint32_t kind, uint32_t index);
/* Writes the character as UTF-8 and returns its bytes, at most 4. A code point that UTF-8 cannot represent becomes "?".
 * Context: signal. */
size_t text_put_utf8(char *to, uint32_t character);

#pragma GCC visibility pop

#endif
