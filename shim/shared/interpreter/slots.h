/* The functions that call the methods of Python classes. */
#ifndef SCALENE_TRACE_SHARED_INTERPRETER_SLOTS_H
#define SCALENE_TRACE_SHARED_INTERPRETER_SLOTS_H

#include "shared/base.h"
#include "shared/interpreter/place.h"

#pragma GCC visibility push(hidden)

/* Where PyTypeObject has these fields, in every version. */
#define TP_DEALLOC 48
#define TP_CALL 128
#define TP_INIT 296
#define TP_NEW 312

/* What these fields contain in a class with the methods __call__, __init__ and __new__. */
struct python_slots {
  uintptr_t call, init, new;
};
/* Finds them in the image that contains `code`, an address in the interpreter's code: its types may have been copied into
 * another image. False = not all of them. Reads the interpreter's data, about a megabyte. Context: normal. */
bool slots_find(const struct interpreter_place *place, uintptr_t code, struct python_slots *out);

#pragma GCC visibility pop

#endif
