#include "shared/objects/reads.h"

#include "shared/base.h"
#include "shared/saferead.h"

void reads_add(struct reads *reads, uintptr_t address, size_t size) {
  if (!address || reads->count == READS_MOST || size > READS_BYTES - reads->bytes) return;
  reads->piece[reads->count++] = (struct iovec){(void *)address, size};
  reads->bytes += size;
}

void reads_add_in_page(struct reads *reads, uintptr_t address, size_t size) {
  size_t rest = 4096 - (address & 4095);
  reads_add(reads, address, size < rest ? size : rest);
}

void reads_fetch(struct reads *reads) {
  if (reads->count && safe_read_all(reads->data, reads->piece, reads->count)) return;
  reads->count = 0;
}

const char *reads_fetched(const struct reads *reads, uintptr_t address, size_t size) {
  const char *data = reads->data;
  for (int i = 0; i < reads->count; data += reads->piece[i++].iov_len) {
    uintptr_t offset = address - (uintptr_t)reads->piece[i].iov_base;
    if (offset <= reads->piece[i].iov_len && size <= reads->piece[i].iov_len - offset) return data + offset;
  }
  return NULL;
}

bool reads_get(struct reads *reads, void *to, uintptr_t address, size_t size) {
  const char *data = reads_fetched(reads, address, size);
  if (data) return memcpy(to, data, size), true;
  reads->missed = true;
  return safe_read(to, (void *)address, size);
}

uintptr_t reads_word(struct reads *reads, uintptr_t address) {
  uintptr_t value;
  return reads_get(reads, &value, address, sizeof value) ? value : 0;
}
