/* Held signals: signals of our number that were sent while the program had it blocked. They stay here, as the kernel
 * would have kept them, until the program unblocks the number or takes the signal with sigwait.
 *
 * The store is a fixed set of slots. The thread that has changed a slot's state from EMPTY or FULL to BUSY owns the
 * slot. There is no lock, because a handler may interrupt a thread that is taking a signal, and a forked child may find
 * a slot BUSY for ever (it clears all slots). If all slots are full, a new signal is dropped, as the kernel drops
 * signals that exceed its queue. */
#include "inside/signals/held.h"

#include <signal.h>

#include "shared/base.h"

#define HELD_SLOTS 32

enum { EMPTY, BUSY, FULL };

struct held_signal {
  _Atomic uint32_t state;
  _Atomic int32_t thread;  /* the thread that it was sent to; 0 = sent to the process */
  _Atomic uint64_t ticket; /* order of arrival */
  siginfo_t info;
};

static struct held_signal slots[HELD_SLOTS];
static _Atomic uint64_t arrivals;
/* Upper bound of the number of full slots. It is usually 0, so that a query costs one load. */
static _Atomic uint32_t held_upper;

static bool move_state(struct held_signal *slot, uint32_t from, uint32_t to) {
  return atomic_compare_exchange_strong(&slot->state, &from, to);
}

static bool is_for(const struct held_signal *slot, int32_t thread) {
  return slot->thread == 0 || slot->thread == thread;
}

static struct held_signal *oldest_for(int32_t thread) {
  struct held_signal *oldest = NULL;
  for (struct held_signal *slot = slots; slot < slots + HELD_SLOTS; slot++)
    if (slot->state == FULL && is_for(slot, thread) && (oldest == NULL || slot->ticket < oldest->ticket)) oldest = slot;
  return oldest;
}

bool held_add(const siginfo_t *info, int32_t thread) {
  for (struct held_signal *slot = slots; slot < slots + HELD_SLOTS; slot++) {
    if (!move_state(slot, EMPTY, BUSY)) continue;
    slot->thread = thread;
    slot->ticket = atomic_fetch_add(&arrivals, 1);
    slot->info = *info;
    atomic_fetch_add(&held_upper, 1);
    atomic_store(&slot->state, FULL);
    return true;
  }
  return false;
}

static void put_back(struct held_signal *slot, uint32_t state) {
  if (state == EMPTY) atomic_fetch_sub(&held_upper, 1);
  atomic_store(&slot->state, state);
}

bool held_any(int32_t thread) { return atomic_load(&held_upper) != 0 && oldest_for(thread) != NULL; }

bool held_take(int32_t thread, siginfo_t *out) {
  if (atomic_load(&held_upper) == 0) return false;
  for (;;) {
    struct held_signal *slot = oldest_for(thread);
    if (slot == NULL) return false;
    if (!move_state(slot, FULL, BUSY)) continue;
    bool still = is_for(slot, thread); /* another thread may have emptied and filled the slot since */
    if (still) *out = slot->info;
    put_back(slot, still ? EMPTY : FULL);
    if (still) return true;
  }
}

void held_discard(void) {
  for (struct held_signal *slot = slots; slot < slots + HELD_SLOTS; slot++)
    if (move_state(slot, FULL, BUSY)) put_back(slot, EMPTY);
}

void held_postfork_child(void) {
  for (struct held_signal *slot = slots; slot < slots + HELD_SLOTS; slot++) atomic_store(&slot->state, EMPTY);
  atomic_store(&held_upper, 0);
}
