/* The descriptors that carry ticks. */
#ifndef SCALENE_TRACE_CPU_DESCRIPTORS_H
#define SCALENE_TRACE_CPU_DESCRIPTORS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* How many there may be. Context: normal. */
void descriptors_init(void);
/* Where a descriptor is listed; -1 = there are as many as there may be. Context: signal. */
int32_t descriptors_add(int fd);
void descriptors_remove(int32_t slot);
/* A forked child closes its parent's. Context: signal. */
void descriptors_close_inherited(void);

#pragma GCC visibility pop

#endif
