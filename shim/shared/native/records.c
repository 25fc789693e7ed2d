/* Writes images and functions on native stacks into the spool: the shim those of ticks and allocations, the watcher those
 * of waits. */
#include "shared/native/records.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/native/image.h"
#include "shared/spool.h"
#include "shared/stacks/hash.h"

bool native_write_image(const struct image *image, const char *path, uint32_t thread) {
  size_t length = strlen(path);
  unsigned slots = (unsigned)(1 + (length + SPOOL_SLOT_BYTES - 1) / SPOOL_SLOT_BYTES);
  struct record_module *record = spool_claim(slots);
  if (!record) return false;
  record->thread = thread;
  record->t_ns = clock_now_ns();
  record->start = image->start;
  record->end = image->end;
  record->bias = image->bias;
  record->path_bytes = (uint32_t)length;
  record->pc_class = image->pc_class;
  record->image = image->id;
  memcpy(record + 1, path, length);
  spool_publish(record, RECORD_MODULE, slots);
  return true;
}

struct record_native native_node(uint64_t parent, uint64_t image, uint64_t address, bool gap) {
  struct record_native node = {.parent = parent, .image = image, .address = address, .flags = gap ? NATIVE_GAP : 0};
  uint64_t hash = hash_pair(hash_pair(parent, image), address);
  node.hash = hash_not_zero(hash_pair(hash, node.flags));
  return node;
}

bool native_write_node(const struct record_native *node, uint32_t thread) {
  struct record_native *record = spool_claim(1);
  if (!record) return false;
  memcpy((char *)record + sizeof record->head, (const char *)node + sizeof node->head,
         sizeof *node - sizeof node->head);
  record->thread = thread;
  spool_publish(record, RECORD_NATIVE, 1);
  return true;
}
