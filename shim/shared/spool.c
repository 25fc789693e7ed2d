/* The spool: a file that is shared by every recorded process and the recorder. Layout and protocol:
 * formats/spool/spool.h.
 *
 * Writers are lock-free and re-entrant, because a tick may interrupt the claim of a memory sample. Invariant: every
 * slot below min(cursor, SPOOL_CHUNK_SLOTS) of a chunk belongs to exactly one claim, or to the unusable tail of the
 * chunk. */
#include "shared/spool.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/sealed/sealed.h"
#include "shared/valgrind.h"
#include "shared/window/window.h"

LASTING struct spool_header *spool;
static uint32_t own_process;
static int32_t own_pid;
static uint64_t own_pid_namespace;
static _Atomic(struct chunk_header *) current;
/* An offer that was taken but whose chunk could not be mapped, plus 1, and below it the number of the chunk, because
 * the ring forgets it; 0 = none. It is used at the next attempt. */
static _Atomic uint64_t kept_offer;
#define KEPT_NUMBER_BITS 14
_Static_assert(SPOOL_RING <= 1 << KEPT_NUMBER_BITS, "the number of a chunk fits");
static _Atomic int64_t retry_ns; /* time of that attempt */

static _Atomic uint64_t short_at; /* `offered` + 1 when a thread last waited in vain although there were offers */

#define MOVE_PAUSE_NS 10000000 /* after a chunk could not be mapped */

/* When a thread began to open the next chunk; 0 = no thread does. Otherwise a hundred threads would open one each, when
 * one has become full, and the window has fewer positions. */
static _Atomic int64_t opening_ns;
#define OPENING_NS 10000000 /* a thread that takes longer has left by longjmp, or is not on a CPU: do not wait for it */
#define MOST_YIELDS 1000
#define FEW_YIELDS 32

static bool header_is_ours(const struct spool_header *header) {
  return header->magic == SPOOL_MAGIC && header->version == SPOOL_VERSION && header->chunk_bytes == SPOOL_CHUNK_BYTES &&
         header->ring_entries == SPOOL_RING;
}

void spool_note_late(struct spool_header *of) { atomic_fetch_add((_Atomic uint32_t *)&of->late, 1); }

int spool_open(const char *path) {
  struct spool_header *header = window_open(path, under_valgrind());
  if (!header) return -1;
  bool is_ours = header_is_ours(header);
  if (is_ours && header->ended) spool_note_late(header);
  if (!is_ours || header->ended) {
    window_close();
    return -1;
  }
  spool = header;
  return 0;
}

void spool_close(void) {
  if (!spool) return;
  if (!IS_ATTACHED) spool = NULL; /* else threads that have just found it are not led astray, see window_close */
  window_close();
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
  atomic_store(&kept_offer, 0);
  atomic_store(&retry_ns, 0);
  atomic_store(&opening_ns, 0);
  atomic_store(&short_at, 0);
  errno = saved_errno;
}

void spool_write_for(const struct spool_writer *to, struct spool_writer *from) {
  struct spool_writer next = *to;
  *from = (struct spool_writer){own_process, own_pid, atomic_load(&current)};
  own_process = next.process;
  own_pid = next.pid;
  atomic_store(&current, next.chunk);
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

static void *slot_at(struct chunk_header *chunk, uint32_t at) { return (char *)chunk + (size_t)at * SPOOL_SLOT_BYTES; }

/* ---- taking chunks ---- */

static bool has_offer(void) {
  return atomic_load(&kept_offer) ||
         atomic_load((_Atomic uint64_t *)&spool->taken) <
             atomic_load_explicit((_Atomic uint64_t *)&spool->offered, memory_order_acquire);
}

static bool take_offer(uint64_t *offer, uint32_t *number) {
  const uint32_t *ring = (const uint32_t *)((const char *)spool + SPOOL_HEADER_BYTES);
  uint64_t kept = atomic_load(&kept_offer) ? atomic_exchange(&kept_offer, 0) : 0;
  if (kept) {
    *offer = (kept >> KEPT_NUMBER_BITS) - 1;
    *number = kept & ((1u << KEPT_NUMBER_BITS) - 1);
    return true;
  }
  _Atomic uint64_t *taken = (_Atomic uint64_t *)&spool->taken;
  *offer = atomic_load(taken);
  do {
    if (*offer >= atomic_load_explicit((_Atomic uint64_t *)&spool->offered, memory_order_acquire)) return false;
    *number = ring[*offer % SPOOL_RING];
  } while (!atomic_compare_exchange_weak(taken, offer, *offer + 1));
  return true;
}

/* Moving a position costs system calls even where it fails, so the next attempt is made after a pause. */
static void keep_offer(uint64_t offer, uint32_t number) {
  uint64_t none = 0;
  atomic_compare_exchange_strong(&kept_offer, &none, (offer + 1) << KEPT_NUMBER_BITS | number);
  atomic_store(&retry_ns, clock_now_ns() + MOVE_PAUSE_NS);
}

/* A writer that still holds this address from the chunk before may claim slots as soon as the position has moved. In a
 * chunk that was used before, it finds the cursor at the end. In a new one, the cursor is 0, and the claim pads what it
 * has taken, so the slots that are claimed by then stay claimed. */
static void open_cursor(struct chunk_header *chunk) {
  _Atomic uint32_t *cursor = (_Atomic uint32_t *)&chunk->cursor;
  uint32_t found = atomic_load(cursor);
  while ((found == 0 || found >= SPOOL_CHUNK_SLOTS) && !atomic_compare_exchange_weak(cursor, &found, 1)) {}
}

static void begin_chunk(struct chunk_header *chunk, uint64_t offer) {
  chunk->opened_ns = clock_now_ns();
  chunk->pid = own_pid;
  chunk->pid_namespace = own_pid_namespace;
  atomic_store((_Atomic uint64_t *)&chunk->offer, offer);
  atomic_store((_Atomic uint32_t *)&chunk->closed, 0);
  open_cursor(chunk);
  atomic_store_explicit((_Atomic uint32_t *)&chunk->process, own_process, memory_order_release);
}

/* Takes the next offer and maps its chunk at the position. Null = there is no offer, or the chunk cannot be mapped. */
static struct chunk_header *open_at(struct position *position, enum loss *loss) {
  uint64_t offer;
  uint32_t number;
  if (!take_offer(&offer, &number)) {
    window_give_back(position);
    *loss = LOSS_spool_full;
    return NULL;
  }
  struct chunk_header *chunk = window_move(position, number);
  if (chunk) {
    begin_chunk(chunk, offer);
    window_keep(position, own_process, offer);
    atomic_store(&retry_ns, 0);
  } else if (window_has(number)) { /* else the program has damaged the ring */
    keep_offer(offer, number);
  }
  return chunk;
}

/* Takes a position. Where many threads write at once, each position may have a writer that is not on a CPU between its
 * claim and its publication: those come to their end if they get the CPU. But not all do: a signal handler may have
 * interrupted one to come here. */
static struct position *take_position(void) {
  struct position *position = window_take(own_process);
  for (int i = 0; i < FEW_YIELDS && !position && !sealed(); i++) {
    syscall(SYS_sched_yield);
    position = window_take(own_process);
  }
  return position;
}

/* Returns a new chunk, or null and the loss to count. */
static struct chunk_header *open_chunk(enum loss *loss) {
  int64_t until_ns = atomic_load(&retry_ns);
  *loss = has_offer() ? LOSS_unmapped_chunk : LOSS_spool_full;
  if (*loss == LOSS_spool_full) return NULL;
  if (until_ns) { /* only one thread makes the attempt: each would keep an offer */
    int64_t now_ns = clock_now_ns();
    if (now_ns < until_ns || !atomic_compare_exchange_strong(&retry_ns, &until_ns, now_ns + MOVE_PAUSE_NS)) return NULL;
  }
  struct position *position = take_position();
  return position ? open_at(position, loss) : NULL;
}

/* Closes the chunk. No slot can be claimed in it any more, so it is finished when those that are claimed are
 * published. */
static void close_chunk(struct chunk_header *chunk) {
  uint32_t at = atomic_fetch_add((_Atomic uint32_t *)&chunk->cursor, SPOOL_CHUNK_SLOTS);
  if (at < SPOOL_CHUNK_SLOTS) spool_publish(slot_at(chunk, at), SPOOL_PAD, SPOOL_CHUNK_SLOTS - at);
  atomic_store((_Atomic uint32_t *)&chunk->closed, 1);
}

/* False = another thread opens the next chunk. */
static bool begin_opening(void) {
  int64_t now_ns = clock_now_ns(), since_ns = 0;
  if (atomic_compare_exchange_strong(&opening_ns, &since_ns, now_ns)) return true;
  return now_ns - since_ns > OPENING_NS && atomic_compare_exchange_strong(&opening_ns, &since_ns, now_ns);
}

/* Waits for that thread, but not for long: it may be the one that a signal handler has interrupted to come here. */
static void wait_for_opener(const struct chunk_header *full) {
  for (int i = 0; i < MOST_YIELDS && atomic_load(&opening_ns) && atomic_load(&current) == full; i++) {
    syscall(SYS_sched_yield);
  }
}

/* Opens a chunk and makes it the current one in place of `full`, unless another thread has been faster. */
static bool replace_chunk(struct chunk_header *full, enum loss *loss) {
  struct chunk_header *fresh = open_chunk(loss);
  if (!fresh) return false;
  if (atomic_compare_exchange_strong(&current, &full, fresh)) {
    if (full) close_chunk(full);
  } else {
    close_chunk(fresh);
  }
  return true;
}

/* Replaces the current chunk `full` with a new one, unless another thread does so. False = no chunk is available. */
static SLOW_PATH bool next_chunk(struct chunk_header *full, enum loss *loss) {
  if (atomic_load(&current) != full) return true;
  int saved_errno = errno;
  uint32_t section = seal_enter();
  bool is_opener = begin_opening();
  if (!is_opener && !sealed()) wait_for_opener(full);
  bool replaced = atomic_load(&current) != full || replace_chunk(full, loss);
  if (is_opener) atomic_store(&opening_ns, 0);
  seal_leave(section);
  errno = saved_errno;
  return replaced;
}

/* ---- records ---- */

/* Publishes claimed slots that cannot be used as padding; otherwise the chunk would never be finished. */
static SLOW_PATH void *pad(struct chunk_header *chunk, uint32_t at, uint32_t slots) {
  uint32_t end = slots <= SPOOL_CHUNK_SLOTS - at ? at + slots : SPOOL_CHUNK_SLOTS;
  if (at == 0) at = 1; /* claimed before the chunk was opened: slot 0 is its header */
  if (at < end) spool_publish(slot_at(chunk, at), SPOOL_PAD, end - at);
  return NULL;
}

/* Claims slots of the chunk. Returns NULL if they do not fit, or if the chunk is no longer the current one: its
 * position may hold another chunk by now. */
static void *claim_in(struct chunk_header *chunk, uint32_t slots) {
  _Atomic uint32_t *cursor = (_Atomic uint32_t *)&chunk->cursor;
  if (atomic_load(cursor) >= SPOOL_CHUNK_SLOTS) return NULL;
  uint32_t at = atomic_fetch_add(cursor, slots);
  if (at >= SPOOL_CHUNK_SLOTS) return NULL;
  if (unlikely(at == 0 || slots > SPOOL_CHUNK_SLOTS - at || atomic_load(&current) != chunk))
    return pad(chunk, at, slots);
  atomic_store_explicit((_Atomic uint32_t *)slot_at(chunk, at), slots << 16, memory_order_relaxed);
  return slot_at(chunk, at);
}

void *spool_claim(unsigned slots) {
  enum loss loss = LOSS_spool_full;
  for (int attempt = 0; spool && slots < SPOOL_CHUNK_SLOTS && attempt < 16; attempt++) {
    struct chunk_header *chunk = atomic_load(&current);
    void *record = chunk ? claim_in(chunk, slots) : NULL;
    if (record) return record;
    if (!next_chunk(chunk, &loss)) break;
  }
  loss_add(loss);
  return NULL;
}

#define FEW_SLOTS (SPOOL_CHUNK_SLOTS / 4)
#define FEW_OFFERS 2 /* are left to those that do not wait: ticks, and the watcher */
#define STEP_NS 200000
#define MOST_WAITED_NS 1000000000
#define MOST_WAITED_FOR_OTHERS_NS 100000000
#define MOST_WAITED_FOR_LIVING_NS 10000000000 /* for a recorder that is there, but gets no CPU */

bool spool_has_room(void) {
  if (!spool) return false;
  struct chunk_header *chunk = atomic_load(&current);
  return has_offer() || (chunk && atomic_load((_Atomic uint32_t *)&chunk->cursor) < SPOOL_CHUNK_SLOTS);
}

static bool has_many_offers(void) {
  uint64_t taken = atomic_load((_Atomic uint64_t *)&spool->taken);
  return atomic_load_explicit((_Atomic uint64_t *)&spool->offered, memory_order_acquire) > taken + FEW_OFFERS;
}

bool spool_is_short(void) {
  if (!spool || likely(has_many_offers())) return false;
  struct chunk_header *chunk = atomic_load(&current);
  return !chunk || atomic_load((_Atomic uint32_t *)&chunk->cursor) > SPOOL_CHUNK_SLOTS - FEW_SLOTS;
}

/* A raw system call: the function of libc is a cancellation point, and calls another one, which a filter of the program
 * may kill for (filter_program.c). */
static void sleep_a_step(void) {
  struct timespec step = {0, STEP_NS};
  int saved_errno = errno;
  uint32_t section = seal_enter();
  if (!sealed()) syscall(SYS_nanosleep, &step, NULL);
  seal_leave(section);
  errno = saved_errno;
}

static bool recorder_is_there(void) {
  uint32_t section = seal_enter();
  bool there = !sealed() && !is_gone((pid_t)spool->recorder_pid);
  seal_leave(section);
  return there;
}

/* In another pid namespace than the recorder's, the pid means another process or none: then either limit is right. */
static bool may_still_offer(int64_t waited_ns) {
  return waited_ns < MOST_WAITED_NS || (waited_ns < MOST_WAITED_FOR_LIVING_NS && recorder_is_there());
}

/* Waits for one step and returns true, or notes that waiting is in vain. While there are offers, nothing is lost without a
 * wait, so it is short then. */
static bool wait_a_step(int64_t since_ns, uint64_t offered) {
  int64_t waited_ns = clock_now_ns() - since_ns;
  bool has = has_offer(), waits = has ? waited_ns < MOST_WAITED_FOR_OTHERS_NS : may_still_offer(waited_ns);
  if (waits) {
    sleep_a_step();
  } else {
    atomic_store(has ? &short_at : (_Atomic uint64_t *)&spool->waited_in_vain, offered + 1);
  }
  return waits;
}

/* A recorder that was killed offers nothing any more, and must not keep the program from running. One wait in vain is
 * enough for all processes, also for those that start later. */
SLOW_PATH void spool_wait_for_room(void) {
  const _Atomic uint64_t *in_vain = (const _Atomic uint64_t *)&spool->waited_in_vain;
  int64_t since_ns = clock_now_ns();
  while (recording() && spool_is_short()) {
    uint64_t offered = atomic_load((const _Atomic uint64_t *)&spool->offered);
    if (atomic_load(in_vain) == offered + 1 || (has_offer() && atomic_load(&short_at) == offered + 1)) return;
    if (!wait_a_step(since_ns, offered)) return;
  }
}

void spool_publish(void *record, unsigned kind, unsigned slots) {
  atomic_store_explicit((_Atomic uint32_t *)record, kind | slots << 16, memory_order_release);
}

uint32_t spool_place_of(const void *record) { return (uint32_t)((const char *)record - (const char *)spool); }

/* Another thread may be writing to that place. */
static uint64_t id_of(const struct record_alloc *record) {
  return atomic_load_explicit((const _Atomic uint64_t *)&record->id, memory_order_relaxed);
}

/* The recorder drains a chunk only after it has found it closed. If the chunk is still the current one after the
 * head was replaced, it was not closed before, so the recorder finds the record unfinished until it is published again.
 * Another chunk may have moved to the position, which is why the id is compared before and after. */
struct record_alloc *spool_take_back(uint32_t place, uint64_t id) {
  struct chunk_header *chunk = atomic_load_explicit(&current, memory_order_acquire);
  struct record_alloc *record = (struct record_alloc *)((char *)spool + place);
  uint32_t published = RECORD_ALLOC | 1u << 16;
  if (!chunk || !place || (uintptr_t)record - (uintptr_t)chunk >= SPOOL_CHUNK_BYTES || id_of(record) != id) return NULL;
  if (!atomic_compare_exchange_strong((_Atomic uint32_t *)&record->head, &published, 1u << 16)) return NULL;
  if (likely(atomic_load(&current) == chunk && id_of(record) == id)) return record;
  uint32_t taken = 1u << 16; /* else a child that was forked meanwhile, or another chunk, has written there */
  atomic_compare_exchange_strong((_Atomic uint32_t *)&record->head, &taken, RECORD_ALLOC | 1u << 16);
  return NULL;
}

/* Closes the current chunk, so that the recorder can drain it. Later records go into a new chunk. */
void spool_finish_chunk(void) {
  struct chunk_header *chunk = atomic_exchange(&current, NULL);
  if (chunk) close_chunk(chunk);
}

uint64_t spool_chunk(void) { return window_number_of(atomic_load(&current)); }
