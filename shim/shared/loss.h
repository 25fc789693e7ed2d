/* Losses: events that could not be recorded, counted by name, so that the report can say what is missing. The names are
 * in formats/spool/losses.h. */
#ifndef SCALENE_TRACE_SHARED_LOSS_H
#define SCALENE_TRACE_SHARED_LOSS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

enum loss {
#define LOSS(name, severity, text) LOSS_##name,
#include "formats/spool/losses.h"
#undef LOSS
  LOSS_COUNT
};
/* Counts one loss. Context: signal. */
void loss_add(enum loss loss);
/* Counts `count` of them. Context: normal. */
void loss_add_many(enum loss loss, uint64_t count);
/* Adds the losses that were counted before the spool was open to the spool's counters. Context: normal. */
void loss_flush_early(void);

#pragma GCC visibility pop

#endif
