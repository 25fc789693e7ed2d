/* The shadow action: the action that the program has set for our signal, as sigaction() would report it without us. */
#undef _FORTIFY_SOURCE
#include "inside/signals/shadow_action.h"

#include <signal.h>

#include "inside/core/next.h"
#include "inside/signals/shadow.h"
#include "inside/signals/signals.h"
#include "shared/base.h"

#define RESTORER_FLAG 0x04000000 /* SA_RESTORER: libc adds it and reports it */
#define REPORTED_FLAGS                                                                                                 \
  (SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER | (int)SA_RESETHAND | 0x800)

static struct sigaction restorer; /* sa_restorer and its flag, as libc reports them */

/* A writer fills a fresh slot and then makes it the current one, so that a handler or another thread always reads a
 * complete action. A slot is used again after ACTIONS writes. */
#define ACTIONS 16
static struct sigaction actions[ACTIONS];
static _Atomic uint32_t action_claimed, action_current;

void shadow_action_read(struct sigaction *out) {
  for (int tries = 0; tries < 4; tries++) {
    uint32_t at = atomic_load(&action_current);
    *out = actions[at % ACTIONS];
    if (atomic_load(&action_claimed) - at < ACTIONS) return;
  }
}

void shadow_action_write(const struct sigaction *action, struct sigaction *before) {
  uint32_t at = atomic_fetch_add(&action_claimed, 1) + 1;
  actions[at % ACTIONS] = *action;
  *before = actions[atomic_exchange(&action_current, at) % ACTIONS];
}

void shadow_action_normalize(struct sigaction *action) {
  const uint64_t unblockable = UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1);
  signals_set_store(&action->sa_mask, signals_set_bits(&action->sa_mask) & ~unblockable);
  action->sa_flags = (action->sa_flags & REPORTED_FLAGS) | restorer.sa_flags;
  action->sa_restorer = restorer.sa_restorer;
}

/* libc fills in these fields, and of the mask only the part that the kernel knows. */
void shadow_action_report(struct sigaction *out, const struct sigaction *action) {
  out->sa_handler = action->sa_handler;
  out->sa_flags = action->sa_flags;
  out->sa_restorer = action->sa_restorer;
  signals_set_store(&out->sa_mask, signals_set_bits(&action->sa_mask));
}

bool shadow_is_function(const struct sigaction *action) {
  return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

void shadow_note_restorer(void) {
  struct sigaction real;
  next.sigaction(signals_number(), NULL, &real);
  restorer.sa_flags = real.sa_flags & RESTORER_FLAG;
  restorer.sa_restorer = restorer.sa_flags != 0 ? real.sa_restorer : NULL;
}
