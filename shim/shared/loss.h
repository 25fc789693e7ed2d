/* Losses: what could not be recorded, counted by name. */
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
/* Moves what was counted before the spool was open into it. Context: normal. */
void loss_flush_early(void);

#pragma GCC visibility pop

#endif
