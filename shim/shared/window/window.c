/* The window: 32 positions of 64 KiB, each of which holds one chunk of the spool.
 *
 * A position moves by remap_file_pages, which needs neither a descriptor nor a path, so it works after the program has
 * closed all descriptors or changed its root, and under every limit on address space: the size of the mapping stays the
 * same. Where the kernel refuses that, the spool is opened by its path for a moment.
 *
 * A position may move only when nobody will write to its chunk any more. Either the chunk is closed, its cursor is at
 * the end, and every slot belongs to a published record; or its header names another process or offer, because the
 * recorder has drained it, which it does only with finished chunks. A writer that was interrupted before its claim
 * finds the cursor at the end, or claims from the new chunk, which spool.c handles. A writer that was interrupted
 * between claiming and publishing keeps its chunk from being finished.
 *
 * A thread takes a position before it looks at its chunk, so only one thread looks at or moves a position at a time. A
 * signal handler that interrupts it takes another position. */
#include "shared/window/window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "shared/arch/arch.h"
#include "shared/sealed/lasting.h"
#include "shared/sealed/sealed.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define LONGEST_PATH 4096
#define WINDOW_BYTES ((size_t)WINDOW_POSITIONS * SPOOL_CHUNK_BYTES)
#define MAPPED_BYTES (SPOOL_CHUNKS_OFFSET + WINDOW_BYTES)
_Static_assert(SPOOL_CHUNKS_OFFSET % ARCH_MOST_PAGE_BYTES == 0 && SPOOL_CHUNK_BYTES % ARCH_MOST_PAGE_BYTES == 0,
               "chunks begin at a page, however large the kernel's are");

/* States of a position. Any other state is the number of the chunk that it holds. */
enum { UNUSED, TAKEN, FIRST_NUMBER };

struct position {
  _Atomic uint64_t state;
  /* Only for the thread that has taken it: */
  uint64_t state_before;
  uint64_t offer; /* of the chunk that it holds */
  uint32_t process;
};

static LASTING char *base;
static struct position positions[WINDOW_POSITIONS];
static _Atomic uint64_t last_number = FIRST_NUMBER - 1;
static uint32_t chunks; /* that are in the file */
static char spool_path[LONGEST_PATH];
static dev_t spool_device;
static ino_t spool_inode;
static bool only_by_path;

/* ---- opening ---- */

/* A spool that lies in memory is opened by the link to it in the recording's folder, where the program finds other files
 * of the recording. */
static int open_file(struct stat *facts) {
  int fd = (int)syscall(SYS_openat, AT_FDCWD, spool_path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return -1;
  if (!fstat(fd, facts) && S_ISREG(facts->st_mode)) return fd;
  syscall(SYS_close, fd);
  return -1;
}

static char *map_file(int fd, const struct stat *facts) {
  if (facts->st_size < SPOOL_CHUNKS_OFFSET + SPOOL_CHUNK_BYTES) return NULL;
  int flags = base ? MAP_SHARED | MAP_FIXED : MAP_SHARED;
  void *mapped = mmap(base, MAPPED_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (mapped == MAP_FAILED) return NULL;
  madvise(mapped, MAPPED_BYTES, MADV_DONTDUMP);
  spool_device = facts->st_dev;
  spool_inode = facts->st_ino;
  uint64_t fit = ((uint64_t)facts->st_size - SPOOL_CHUNKS_OFFSET) / SPOOL_CHUNK_BYTES;
  chunks = fit < UINT32_MAX ? (uint32_t)fit : UINT32_MAX;
  return mapped;
}

struct spool_header *window_open(const char *path, bool never_remap) {
  struct stat facts;
  if (strlen(path) >= LONGEST_PATH) return NULL;
  strcpy(spool_path, path);
  only_by_path = never_remap;
  int fd = open_file(&facts);
  if (fd < 0) return NULL;
  char *mapped = map_file(fd, &facts);
  syscall(SYS_close, fd);
  if (!mapped) return NULL;
  base = mapped;
  for (int i = 0; i < WINDOW_POSITIONS; i++) atomic_store(&positions[i].state, UNUSED);
  return (struct spool_header *)base;
}

/* In a process that was attached to, other threads run on, and one may hold a pointer into the window. It finds memory of
 * nobody there, at every moment, whose header says that the recording has ended. */
static void vacate(void) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  if (mmap(base, MAPPED_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0) == base) ((struct spool_header *)base)->ended = 1;
}

void window_close(void) {
  if (IS_ATTACHED && base) {
    vacate();
    return;
  }
  if (base) munmap(base, MAPPED_BYTES);
  base = NULL;
}

bool window_has(uint32_t number) { return number < chunks; }

/* ---- which chunk a position holds ---- */

static char *address_of(const struct position *position) {
  return base + SPOOL_CHUNKS_OFFSET + (size_t)(position - positions) * SPOOL_CHUNK_BYTES;
}

uint64_t window_number_of(const struct chunk_header *chunk) {
  if (!chunk) return 0;
  return atomic_load(&positions[((const char *)chunk - base - SPOOL_CHUNKS_OFFSET) / SPOOL_CHUNK_BYTES].state);
}

/* Belongs every slot below the end to a published record? */
static bool is_published(const char *chunk) {
  uint32_t at = 1;
  while (at < SPOOL_CHUNK_SLOTS) {
    const _Atomic uint32_t *slot = (const _Atomic uint32_t *)(chunk + (size_t)at * SPOOL_SLOT_BYTES);
    uint32_t head = atomic_load_explicit(slot, memory_order_acquire);
    if (!(head & 0xffff) || (head & 0xffff) == SPOOL_OPEN_EVENTS || !(head >> 16)) return false;
    at += head >> 16;
  }
  return true;
}

/* Has the recorder drained the chunk of the position? */
static bool is_drained(const struct position *position, struct chunk_header *chunk) {
  return atomic_load((_Atomic uint32_t *)&chunk->process) != position->process ||
         atomic_load((_Atomic uint64_t *)&chunk->offer) != position->offer;
}

static bool is_finished(const struct position *position) {
  struct chunk_header *chunk = (struct chunk_header *)address_of(position);
  if (is_drained(position, chunk)) return true;
  return atomic_load((_Atomic uint32_t *)&chunk->closed) &&
         atomic_load((_Atomic uint32_t *)&chunk->cursor) >= SPOOL_CHUNK_SLOTS && is_published((const char *)chunk);
}

/* ---- taking and giving back ---- */

void window_give_back(struct position *position) { atomic_store(&position->state, position->state_before); }

static bool take(struct position *position) {
  uint64_t state = atomic_load(&position->state);
  if (state == TAKEN || !atomic_compare_exchange_strong(&position->state, &state, TAKEN)) return false;
  position->state_before = state;
  return true;
}

static struct position *take_where(bool (*is_usable)(const struct position *position, uint32_t process),
                                   uint32_t process) {
  for (struct position *each = positions; each < positions + WINDOW_POSITIONS; each++) {
    if (!take(each)) continue;
    if (is_usable(each, process)) return each;
    window_give_back(each);
  }
  return NULL;
}

static bool is_free(const struct position *position, uint32_t process) {
  (void)process;
  return position->state_before == UNUSED || is_finished(position);
}

static bool is_inherited(const struct position *position, uint32_t process) { return position->process != process; }

/* In a forked child, positions may hold chunks of the parent that stay open as long as the parent lives. The child has
 * none of the parent's writers, except one that a signal handler has interrupted to fork; so these are used last. */
struct position *window_take(uint32_t process) {
  struct position *found = take_where(is_free, process);
  return found ? found : take_where(is_inherited, process);
}

void window_keep(struct position *position, uint32_t process, uint64_t offer) {
  position->process = process;
  position->offer = offer;
  atomic_store(&position->state, atomic_fetch_add(&last_number, 1) + 1);
}

/* ---- moving ---- */

/* After mlockall, RLIMIT_MEMLOCK may leave no room for a second copy of the position, so its pages are unlocked first. */
static bool move_pages(char *to, size_t offset) {
  if (only_by_path) return false;
  for (int attempt = 0; attempt < 2; attempt++) {
    if (!syscall(SYS_remap_file_pages, to, (size_t)SPOOL_CHUNK_BYTES, 0L, offset / arch_page_bytes(),
                 (long)MAP_NONBLOCK))
      return true;
    if (errno != EAGAIN) return false;
    syscall(SYS_munlock, to, (size_t)SPOOL_CHUNK_BYTES);
  }
  return false;
}

static bool map_by_path(char *to, size_t offset) {
  struct stat facts;
  int fd = open_file(&facts);
  if (fd < 0) return false;
  bool same = facts.st_dev == spool_device && facts.st_ino == spool_inode;
  bool mapped = same && syscall(SYS_mmap, to, (size_t)SPOOL_CHUNK_BYTES, (long)(PROT_READ | PROT_WRITE),
                                (long)(MAP_SHARED | MAP_FIXED), (long)fd, offset) == (long)to;
  syscall(SYS_close, fd);
  return mapped;
}

/* A kernel before 6.12 that fails after it has removed the old pages leaves a hole, where a mapping of the program's
 * could come to lie. Returns false after filling it, or if it cannot be filled; the position is lost then. */
static bool is_whole(char *to) {
  long found = syscall(SYS_mmap, to, (size_t)SPOOL_CHUNK_BYTES, (long)(PROT_READ | PROT_WRITE),
                       (long)(MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE), -1L, 0L);
  if (found == (long)to) {
    *(struct chunk_header *)to = (struct chunk_header){.cursor = SPOOL_CHUNK_SLOTS, .closed = 1};
    return false;
  }
  if (found == -1) return errno == EEXIST; /* else it is unknown */
  syscall(SYS_munmap, found, (size_t)SPOOL_CHUNK_BYTES);
  return true;
}

static struct chunk_header *move(struct position *position, uint32_t number) {
  char *to = address_of(position);
  size_t offset = SPOOL_CHUNKS_OFFSET + (size_t)number * SPOOL_CHUNK_BYTES;
  if (!window_has(number) || sealed()) {
    window_give_back(position);
    return NULL;
  }
  if (!move_pages(to, offset) && !map_by_path(to, offset)) {
    if (is_whole(to)) window_give_back(position);
    return NULL;
  }
  syscall(SYS_madvise, to, (size_t)SPOOL_CHUNK_BYTES, (long)MADV_DONTDUMP); /* the move has reset it */
  return (struct chunk_header *)to;
}

struct chunk_header *window_move(struct position *position, uint32_t number) {
  uint32_t section = seal_enter();
  struct chunk_header *chunk = move(position, number);
  seal_leave(section);
  return chunk;
}
