/* The stacks of tasks, and a cache of those of known places. */
#include "watch/reading/places.h"

#include "shared/base.h"
#include "shared/loss.h"
#include "shared/stacks/chain.h"
#include "shared/stacks/scratch.h"
#include "watch/reading/remote.h"

#define STEPS 65536
#define PLACES 8192
#define AGAIN 64 /* a known stack is verified again at each 64th use */

static struct scratch scratch;
static struct step steps[STEPS];
static int32_t step_count;
static struct {
  uint64_t place, stack;
  uint32_t uses;
} places[PLACES];

void places_clear(void) { step_count = 0; }

int32_t places_index(const struct step *step) { return (int32_t)(step - steps); }

struct step *places_step(int32_t index) { return &steps[index]; }

enum chain_frame places_add(uintptr_t address, const char *frame, struct step **out) {
  if (step_count >= STEPS) return CHAIN_BROKEN;
  struct step *step = &steps[step_count];
  enum chain_frame kind = chain_read(&target, address, frame, &step->entry);
  if (kind != CHAIN_FRAME) return kind;
  step->outer = -1;
  step_count++;
  *out = step;
  return kind;
}

static bool intern(int32_t innermost, bool truncated, uint64_t *stack) {
  scratch.frames = 0;
  for (int32_t at = innermost; at >= 0 && scratch.frames < MAX_FRAMES; at = steps[at].outer)
    scratch.entry[scratch.frames++] = steps[at].entry;
  if (!chain_verify(&target, &scratch)) return false;
  if (truncated) loss_add(LOSS_deep_stack);
  *stack = scratch.frames ? chain_intern(&target, &scratch, truncated) : 0;
  return true;
}

void places_stack(uint64_t place, int32_t innermost, bool truncated, uint64_t *stack) {
  size_t at = place % PLACES;
  if (places[at].place == place && ++places[at].uses % AGAIN) {
    *stack = places[at].stack;
    return;
  }
  places[at].place = 0;
  if (!intern(innermost, truncated, stack)) {
    loss_add(LOSS_tasks_torn);
    return;
  }
  if (!*stack) return;
  places[at].stack = *stack;
  places[at].place = place;
}
