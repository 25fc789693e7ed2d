/* Where the code and the data of an interpreter are read: in place, or in a copy of another process's memory. */
#ifndef SCALENE_TRACE_SHARED_INTERPRETER_PLACE_H
#define SCALENE_TRACE_SHARED_INTERPRETER_PLACE_H

#include <link.h>

#include "shared/base.h"

typedef int image_visitor(struct dl_phdr_info *info, size_t size, void *data);

struct interpreter_place {
  int (*visit)(image_visitor *visitor, void *data); /* like dl_iterate_phdr, of images where they are read */
  uintptr_t moved; /* is added to the addresses that code and data contain; 0 = they are read in place */
};

#endif
