/* The spool: a file that is shared by every recorded process and the recorder. Layout and protocol:
 * formats/spool/spool.h.
 *
 * Writers are lock-free and re-entrant, because a tick may interrupt the claim of a memory sample. Invariant: every
 * slot below min(cursor, SPOOL_CHUNK_SLOTS) of a chunk belongs to exactly one claim, or to the unusable tail of the
 * chunk. */
#include "shared/spool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/sealed/sealed.h"

struct spool_header *spool;
static size_t mapped_bytes;
static uint32_t mapped_chunks;
static uint32_t own_process;
static int32_t own_pid;
static uint64_t own_pid_namespace;
static _Atomic(struct chunk_header *) current;

static bool header_is_ours(const struct spool_header *header) {
  return header->magic == SPOOL_MAGIC && header->version == SPOOL_VERSION && header->chunk_bytes == SPOOL_CHUNK_BYTES &&
         header->ring_entries == SPOOL_RING;
}

/* Under ulimit -v the program's address space is scarce, so the mapping takes at most a sixteenth of the limit. This
 * process cannot use chunks beyond the mapping; an offer of one is lost and counted. */
static size_t affordable(size_t size) {
  struct rlimit space;
  if (getrlimit(RLIMIT_AS, &space) || space.rlim_cur == RLIM_INFINITY || size <= space.rlim_cur / 16) return size;
  size_t chunks = space.rlim_cur / 16 / SPOOL_CHUNK_BYTES;
  return SPOOL_CHUNKS_OFFSET + (chunks ? chunks : 1) * SPOOL_CHUNK_BYTES;
}

static void *map_file(int fd, size_t size) {
  while (size >= SPOOL_CHUNKS_OFFSET + SPOOL_CHUNK_BYTES) {
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base != MAP_FAILED) {
      mapped_bytes = size;
      mapped_chunks = (uint32_t)((size - SPOOL_CHUNKS_OFFSET) / SPOOL_CHUNK_BYTES);
      return base;
    }
    size = SPOOL_CHUNKS_OFFSET + (size - SPOOL_CHUNKS_OFFSET) / 2 / SPOOL_CHUNK_BYTES * SPOOL_CHUNK_BYTES;
  }
  return NULL;
}

int spool_open(const char *path) {
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return -1;
  struct stat facts;
  struct spool_header *base = NULL;
  if (!fstat(fd, &facts) && S_ISREG(facts.st_mode)) base = map_file(fd, affordable((size_t)facts.st_size));
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
  int saved_errno = errno;
  struct stat namespace;
  own_process = process;
  own_pid = (int32_t)syscall(SYS_getpid);
  own_pid_namespace = stat("/proc/self/ns/pid", &namespace) ? 0 : namespace.st_ino;
  atomic_store(&current, NULL);
  errno = saved_errno;
}

uint32_t spool_process(void) { return own_process; }

uint64_t spool_pid_namespace(void) { return own_pid_namespace; }

/* A handoff is stored at index pid % SPOOL_HANDOFFS, or up to 7 entries further if processes whose pids share that
 * index call exec at the same time. Images that do not load the shim (static or setuid programs) never take theirs, so
 * if all 8 are occupied, one is replaced: that of a process that is gone, else the oldest. */
#define HANDOFF_PLACES 8

static _Atomic uint64_t *handoff_at(pid_t pid, unsigned place) {
  return (_Atomic uint64_t *)&spool->handoffs[((uint32_t)pid + place) % SPOOL_HANDOFFS];
}

static bool is_gone(pid_t pid) {
  int error = errno;
  bool gone = syscall(SYS_kill, pid, 0) != 0 && errno == ESRCH;
  errno = error;
  return gone;
}

/* How little a handoff is needed: 0 = it is our own or free, 1 = its process is gone, else the higher, the newer. */
static uint64_t value_of_handoff(uint64_t handoff, pid_t pid) {
  if (!handoff || (uint32_t)handoff == (uint32_t)pid) return 0;
  return is_gone((pid_t)(uint32_t)handoff) ? 1 : 1 + (handoff >> 32);
}

/* Returns the place that is needed least; `found` is what it holds. */
static unsigned choose_place(pid_t pid, uint64_t *found) {
  uint64_t least = UINT64_MAX;
  unsigned chosen = 0;
  for (unsigned place = 0; place < HANDOFF_PLACES && least > 0; place++) {
    uint64_t handoff = atomic_load(handoff_at(pid, place)), value = value_of_handoff(handoff, pid);
    if (value >= least) continue;
    least = value;
    chosen = place;
    *found = handoff;
  }
  return chosen;
}

void spool_leave_handoff(pid_t pid, uint32_t process) {
  spool_take_handoff(pid);
  for (unsigned attempt = 0; process && attempt < HANDOFF_PLACES; attempt++) {
    uint64_t handoff = 0;
    unsigned place = choose_place(pid, &handoff);
    if (atomic_compare_exchange_strong(handoff_at(pid, place), &handoff, (uint32_t)pid | (uint64_t)process << 32))
      return;
  }
}

uint32_t spool_take_handoff(pid_t pid) {
  for (unsigned place = 0; place < HANDOFF_PLACES; place++) {
    uint64_t handoff = atomic_load(handoff_at(pid, place));
    if ((uint32_t)handoff != (uint32_t)pid) continue;
    if (atomic_compare_exchange_strong(handoff_at(pid, place), &handoff, 0)) return (uint32_t)(handoff >> 32);
  }
  return 0;
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
  uint32_t number = ring[offer % SPOOL_RING];
  if (number >= mapped_chunks) {
    loss_add(LOSS_unmapped_chunk);
    return NULL;
  }
  struct chunk_header *chunk =
      (struct chunk_header *)((char *)spool + SPOOL_CHUNKS_OFFSET + (size_t)number * SPOOL_CHUNK_BYTES);
  chunk->offer = offer;
  chunk->opened_ns = clock_now_ns();
  chunk->pid = own_pid;
  chunk->pid_namespace = own_pid_namespace;
  chunk->closed = 0;
  atomic_store((_Atomic uint32_t *)&chunk->cursor, 1);
  atomic_store_explicit((_Atomic uint32_t *)&chunk->process, own_process, memory_order_release);
  return chunk;
}

/* Closes the chunk and removes its pages from this process's resident set. Their contents stay in the file; a thread
 * that is still writing into the chunk faults them in again. */
static void close_chunk(struct chunk_header *chunk) {
  atomic_store((_Atomic uint32_t *)&chunk->closed, 1);
  uint32_t section = seal_enter();
  if (!sealed()) madvise(chunk, SPOOL_CHUNK_BYTES, MADV_DONTNEED);
  seal_leave(section);
}

/* Replaces the current chunk `full` with a new one, unless another thread has already done so. False = no chunk is
 * available. */
static SLOW_PATH bool next_chunk(struct chunk_header *full) {
  uint64_t offer;
  if (atomic_load(&current) != full) return true;
  if (!take_offer(&offer)) return false;
  struct chunk_header *fresh = open_chunk(offer);
  if (!fresh) return false;
  if (atomic_compare_exchange_strong(&current, &full, fresh)) {
    if (full) close_chunk(full);
  } else {
    atomic_store((_Atomic uint32_t *)&fresh->closed, 1);
  }
  return true;
}

static void *slot_at(struct chunk_header *chunk, uint32_t at) { return (char *)chunk + (size_t)at * SPOOL_SLOT_BYTES; }

/* Claims slots of the chunk. Returns NULL if they do not fit, or if the chunk is no longer the current one: it may
 * belong to another process by now. Slots that were claimed but cannot be used are published as padding; otherwise the
 * chunk would never be finished. */
static void *claim_in(struct chunk_header *chunk, uint32_t slots) {
  _Atomic uint32_t *cursor = (_Atomic uint32_t *)&chunk->cursor;
  if (atomic_load(cursor) >= SPOOL_CHUNK_SLOTS) return NULL;
  uint32_t at = atomic_fetch_add(cursor, slots);
  if (at >= SPOOL_CHUNK_SLOTS) return NULL;
  bool fits = slots <= SPOOL_CHUNK_SLOTS - at;
  if (unlikely(!fits || atomic_load(&current) != chunk)) {
    spool_publish(slot_at(chunk, at), SPOOL_PAD, fits ? slots : SPOOL_CHUNK_SLOTS - at);
    return NULL;
  }
  atomic_store_explicit((_Atomic uint32_t *)slot_at(chunk, at), slots << 16, memory_order_relaxed);
  return slot_at(chunk, at);
}

void *spool_claim(unsigned slots) {
  for (int attempt = 0; spool && slots < SPOOL_CHUNK_SLOTS && attempt < 16; attempt++) {
    struct chunk_header *chunk = atomic_load(&current);
    void *record = chunk ? claim_in(chunk, slots) : NULL;
    if (record) return record;
    if (!next_chunk(chunk)) break;
  }
  loss_add(LOSS_spool_full);
  return NULL;
}

void spool_publish(void *record, unsigned kind, unsigned slots) {
  atomic_store_explicit((_Atomic uint32_t *)record, kind | slots << 16, memory_order_release);
}

/* Closes the current chunk, so that the recorder can drain it. Later records go into a new chunk. */
void spool_finish_chunk(void) {
  struct chunk_header *chunk = atomic_exchange(&current, NULL);
  if (!chunk) return;
  uint32_t at = atomic_fetch_add((_Atomic uint32_t *)&chunk->cursor, SPOOL_CHUNK_SLOTS);
  if (at < SPOOL_CHUNK_SLOTS) spool_publish(slot_at(chunk, at), SPOOL_PAD, SPOOL_CHUNK_SLOTS - at);
  close_chunk(chunk);
}

bool spool_holds(const void *record) {
  const char *chunk = (const char *)atomic_load(&current);
  return chunk && (uintptr_t)((const char *)record - chunk) < SPOOL_CHUNK_BYTES;
}
