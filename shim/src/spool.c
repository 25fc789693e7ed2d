/* The spool: a file shared by every recorded process and the recorder. Layout and protocol: formats/spool.h.
 *
 * Writers are lock-free and re-entrant: a tick may land inside a memory sample's claim. Invariant: every line below
 * min(cursor, SPOOL_CHUNK_LINES) of a chunk was claimed by exactly one claim, or is the unusable tail of the chunk. */
#include "shim.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct spool_header *spool;
static size_t mapped_bytes;
static uint32_t mapped_slots;
static uint32_t own_process;
static _Atomic(struct chunk_header *) current;

static bool header_is_ours(const struct spool_header *header) {
  return header->magic == SPOOL_MAGIC && header->version == SPOOL_VERSION && header->chunk_bytes == SPOOL_CHUNK_BYTES &&
         header->ring_entries == SPOOL_RING;
}

/* A process under ulimit -v maps as much as it can; a chunk beyond that is lost to it. */
static void *map_file(int fd, size_t size) {
  while (size >= SPOOL_CHUNKS_OFFSET + SPOOL_CHUNK_BYTES) {
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base != MAP_FAILED) {
      mapped_bytes = size;
      mapped_slots = (uint32_t)((size - SPOOL_CHUNKS_OFFSET) / SPOOL_CHUNK_BYTES);
      return base;
    }
    size = SPOOL_CHUNKS_OFFSET + (size - SPOOL_CHUNKS_OFFSET) / 2 / SPOOL_CHUNK_BYTES * SPOOL_CHUNK_BYTES;
  }
  return NULL;
}

int spool_open(const char *path) {
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -1;
  struct stat facts;
  struct spool_header *base = NULL;
  if (!fstat(fd, &facts) && S_ISREG(facts.st_mode)) base = map_file(fd, (size_t)facts.st_size);
  close(fd);
  if (!base) return -1;
  if (!header_is_ours(base) || base->ended) {
    munmap(base, mapped_bytes);
    return -1;
  }
  madvise(base, mapped_bytes, MADV_DONTDUMP);
  spool = base;
  return 0;
}

void spool_close(void) {
  if (!spool) return;
  void *base = spool;
  spool = NULL;
  munmap(base, mapped_bytes);
}

uint32_t spool_new_process(void) { return atomic_fetch_add((_Atomic uint32_t *)&spool->processes, 1) + 1; }

uint32_t spool_new_thread(void) { return atomic_fetch_add((_Atomic uint32_t *)&spool->threads, 1) + 1; }

void spool_begin_process(uint32_t process) {
  own_process = process;
  atomic_store(&current, NULL);
}

uint32_t spool_process(void) { return own_process; }

static _Atomic uint64_t *word_of(pid_t pid) { return (_Atomic uint64_t *)&spool->execs[(uint32_t)pid % SPOOL_EXECS]; }

void spool_leave_word(pid_t pid, uint32_t process) {
  atomic_store(word_of(pid), process ? (uint32_t)pid | (uint64_t)process << 32 : 0);
}

uint32_t spool_take_word(pid_t pid) {
  uint64_t word = atomic_load(word_of(pid));
  if ((uint32_t)word != (uint32_t)pid || !atomic_compare_exchange_strong(word_of(pid), &word, 0)) return 0;
  return (uint32_t)(word >> 32);
}

static bool take_offer(uint64_t *offer) {
  _Atomic uint64_t *taken = (_Atomic uint64_t *)&spool->taken;
  *offer = atomic_load(taken);
  do {
    if (*offer >= atomic_load_explicit((_Atomic uint64_t *)&spool->offered, memory_order_acquire)) return false;
  } while (!atomic_compare_exchange_weak(taken, offer, *offer + 1));
  return true;
}

static struct chunk_header *open_chunk(uint64_t offer) {
  const uint32_t *ring = (const uint32_t *)((const char *)spool + SPOOL_HEADER_BYTES);
  uint32_t slot = ring[offer % SPOOL_RING];
  if (slot >= mapped_slots) {
    loss_add(LOSS_unmapped_chunk);
    return NULL;
  }
  struct chunk_header *chunk =
      (struct chunk_header *)((char *)spool + SPOOL_CHUNKS_OFFSET + (size_t)slot * SPOOL_CHUNK_BYTES);
  chunk->offer = offer;
  chunk->opened_ns = clock_now_ns();
  chunk->closed = 0;
  chunk->cursor = 1;
  atomic_store_explicit((_Atomic uint32_t *)&chunk->process, own_process, memory_order_release);
  return chunk;
}

/* Puts a fresh chunk in the place of `full`, unless somebody else has already. */
static SLOW_PATH bool next_chunk(struct chunk_header *full) {
  uint64_t offer;
  if (atomic_load(&current) != full) return true;
  if (!take_offer(&offer)) return false;
  struct chunk_header *fresh = open_chunk(offer);
  if (!fresh) return false;
  if (atomic_compare_exchange_strong(&current, &full, fresh)) {
    if (full) atomic_store((_Atomic uint32_t *)&full->closed, 1);
  } else {
    atomic_store((_Atomic uint32_t *)&fresh->closed, 1);
  }
  return true;
}

void *spool_claim(unsigned lines) {
  for (int attempt = 0; spool && lines < SPOOL_CHUNK_LINES && attempt < 16; attempt++) {
    struct chunk_header *chunk = atomic_load(&current);
    if (chunk && atomic_load((_Atomic uint32_t *)&chunk->cursor) < SPOOL_CHUNK_LINES) {
      uint32_t at = atomic_fetch_add((_Atomic uint32_t *)&chunk->cursor, lines);
      if (at + lines <= SPOOL_CHUNK_LINES) {
        void *record = (char *)chunk + (size_t)at * SPOOL_LINE_BYTES;
        atomic_store_explicit((_Atomic uint32_t *)record, lines << 16, memory_order_relaxed);
        return record;
      }
    }
    if (!next_chunk(chunk)) break;
  }
  loss_add(LOSS_spool_full);
  return NULL;
}

void spool_publish(void *record, unsigned kind, unsigned lines) {
  atomic_store_explicit((_Atomic uint32_t *)record, kind | lines << 16, memory_order_release);
}
