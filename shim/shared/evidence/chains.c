/* Writes native stacks to the spool, and caches which of their functions were written.
 *
 * A frame counts by the function that it belongs to, not by the instruction, so the number of records grows with the kinds
 * of stack and not with the ticks. Hashes depend on the content only: they are equal in all processes. */
#include "shared/evidence/chains.h"

#include "formats/spool/spool.h"
#include "shared/evidence/unwind.h"
#include "shared/base.h"
#include "shared/evidence/access.h"
#include "shared/native/records.h"

#define CACHED_CHAINS 32768
static _Atomic uint64_t written[CACHED_CHAINS];

/* If the function is unknown, a return address still says which call it made. For the interrupted instruction of such a
 * function there is no address, because each tick would add a record; the tick itself has it. */
static struct record_native node_of(const struct native_frame *frame, uint64_t parent, bool gap) {
  struct image image;
  bool exact = frame->flags & NATIVE_EXACT;
  if (!image_access.find(frame->pc - !exact, &image)) return native_node(parent, 0, 0, gap);
  uintptr_t address = frame->function ? frame->function : exact ? image.bias : frame->pc - 1;
  return native_node(parent, image.id, address - image.bias, gap);
}

static bool write_node(const struct record_native *node, uint32_t thread) {
  _Atomic uint64_t *known = &written[node->hash % CACHED_CHAINS];
  if (atomic_load_explicit(known, memory_order_relaxed) == node->hash) return true;
  if (!native_write_node(node, thread)) return false;
  atomic_store_explicit(known, node->hash, memory_order_relaxed);
  return true;
}

uint64_t native_chain(const struct native_frame *frame, int count, bool cut, uint32_t thread) {
  uint64_t parent = 0;
  for (int i = count - 1; i >= 0; i--) {
    bool gap = i == count - 1 ? cut : frame[i + 1].flags & NATIVE_AFTER_GAP;
    struct record_native node = node_of(&frame[i], parent, gap);
    if (!write_node(&node, thread)) return 0;
    parent = node.hash;
  }
  return parent;
}
