/* Counters of losses. They are in the spool's header, where the recorder reads them even if the process was killed.
 * Until the spool is open, losses are counted here. */
#include "shared/loss.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/spool.h"

_Static_assert(LOSS_COUNT <= SPOOL_LOSSES, "losses fit the header");
static _Atomic uint64_t early[LOSS_COUNT];

void loss_add(enum loss loss) {
  _Atomic uint64_t *counter = spool ? (_Atomic uint64_t *)&spool->losses[loss] : &early[loss];
  atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

void loss_add_many(enum loss loss, uint64_t count) {
  if (spool) atomic_fetch_add((_Atomic uint64_t *)&spool->losses[loss], count);
}

void loss_flush_early(void) {
  for (int i = 0; i < LOSS_COUNT; i++) {
    uint64_t count = atomic_exchange(&early[i], 0);
    if (count && spool) atomic_fetch_add((_Atomic uint64_t *)&spool->losses[i], count);
  }
}
