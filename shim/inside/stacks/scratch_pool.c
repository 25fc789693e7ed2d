/* Working memory for samples in progress. Only few handlers run at the same moment; if there are more than SCRATCHES,
 * the samples of the others are kept without a stack. */
#include "inside/stacks/scratch_pool.h"

#include "shared/base.h"
#include "shared/loss.h"
#include "shared/stacks/scratch.h"

#define SCRATCHES 16
static struct scratch pool[SCRATCHES];

struct scratch *scratch_take(void) {
  for (int i = 0; i < SCRATCHES; i++) {
    uint32_t free = 0;
    if (!atomic_compare_exchange_strong(&pool[i].owner, &free, 1)) continue;
    pool[i].verify_all = false;
    return &pool[i];
  }
  loss_add(LOSS_scratch_busy);
  return NULL;
}

void scratch_give(struct scratch *scratch) { atomic_store(&scratch->owner, 0); }

void scratch_postfork_child(void) {
  for (int i = 0; i < SCRATCHES; i++) atomic_store(&pool[i].owner, 0);
}
