/* A shadow of pymalloc's heap: 24 bytes for each 16 bytes of it, in which a block begins or not.
 *
 * Small objects that are allocated one after the other lie side by side, and so do their entries, where a hash table has
 * a cache miss for each. The shadow of a cell of 1 MiB is mapped when the first block in it is followed, and the kernel
 * gives it pages as they are written to. Their contents are kept after the blocks are gone. */
#include "inside/accounts/shadow.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base.h"
#include "shared/sealed/sealed.h"

#define LEAF_BYTES (SHADOW_LEAF_CELLS * sizeof(_Atomic uintptr_t))
_Atomic uintptr_t shadow_root[SHADOW_LEAVES];
static _Atomic bool in_use, refused;
static _Atomic bool is_inherited; /* the kernel does not empty cells in forked children itself (before Linux 4.14) */

/* System calls of our own, as in live.c: this runs inside the program's malloc. */
static void *map_zeros(size_t bytes) {
  long memory = syscall(SYS_mmap, NULL, bytes, (long)(PROT_READ | PROT_WRITE),
                        (long)(MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE), -1L, 0L);
  if (memory == -1) return NULL;
  syscall(SYS_madvise, memory, bytes, (long)MADV_DONTDUMP);
  /* After mlockall(MCL_FUTURE), this would take of what the program may lock, and would be filled with pages. */
  if (!syscall(SYS_munlock, memory, bytes)) syscall(SYS_madvise, memory, bytes, (long)MADV_DONTNEED);
  return (void *)memory;
}

/* Under a limit on memory (ulimit -v) the table of live.c is used, which needs less. The program may set one at any time, so
 * that is asked for each cell. */
static bool has_limit(void) {
  struct rlimit space, data;
  if (getrlimit(RLIMIT_AS, &space) || getrlimit(RLIMIT_DATA, &data)) return true;
  return space.rlim_cur != RLIM_INFINITY || data.rlim_cur != RLIM_INFINITY;
}

/* Returns the memory that `place` points to, which it makes if there is none yet. `wipes`: it is empty in forked children. */
static void *make(_Atomic uintptr_t *place, size_t bytes, bool wipes) {
  uintptr_t there = atomic_load(place), made = there ? 0 : (uintptr_t)map_zeros(bytes);
  if (!made) return (void *)there;
  if (wipes && syscall(SYS_madvise, made, bytes, (long)MADV_WIPEONFORK)) atomic_store(&is_inherited, true);
  if (atomic_compare_exchange_strong(place, &there, made)) return (void *)made;
  syscall(SYS_munmap, made, bytes);
  return (void *)there;
}

static struct shadow_cell *make_in(uintptr_t number) {
  atomic_store(&in_use, true);
  _Atomic uintptr_t *leaf = has_limit() ? NULL : make(&shadow_root[number / SHADOW_LEAF_CELLS], LEAF_BYTES, false);
  struct shadow_cell *cell = leaf ? make(&leaf[number % SHADOW_LEAF_CELLS], sizeof *cell, true) : NULL;
  if (!cell) atomic_store(&refused, true); /* asking again would cost system calls each time */
  return cell;
}

SLOW_PATH struct shadow_cell *shadow_make_cell(uintptr_t number) {
  if (number / SHADOW_LEAF_CELLS >= SHADOW_LEAVES || atomic_load(&refused)) return NULL;
  int saved_errno = errno;
  uint32_t section = seal_enter();
  struct shadow_cell *cell = sealed() ? NULL : make_in(number);
  seal_leave(section);
  errno = saved_errno;
  return cell;
}

void shadow_forget(uintptr_t start, uintptr_t end, void (*each)(uintptr_t piece)) {
  if (!atomic_load_explicit(&in_use, memory_order_relaxed)) return;
  for (uintptr_t at = start & ~(uintptr_t)(PIECE_BYTES - 1); at < end; at += PIECE_BYTES) {
    struct shadow_cell *cell = shadow_cell_of(at);
    if (cell && atomic_exchange(&cell->piece[at % SHADOW_CELL_BYTES / PIECE_BYTES], 0)) each(at);
  }
}

static void for_each_cell(void (*act)(struct shadow_cell *cell)) {
  for (uintptr_t i = 0; atomic_load(&in_use) && i < SHADOW_LEAVES; i++) {
    _Atomic uintptr_t *leaf = (void *)atomic_load(&shadow_root[i]);
    for (uintptr_t at = 0; leaf && at < SHADOW_LEAF_CELLS; at++) {
      uintptr_t cell = atomic_load_explicit(&leaf[at], memory_order_relaxed);
      if (cell) act((void *)cell);
    }
  }
}

/* Fresh pages of zeros are cheaper than clearing copies of the parent's. */
static void empty(struct shadow_cell *cell) { syscall(SYS_madvise, cell, sizeof *cell, (long)MADV_DONTNEED); }

void shadow_postfork_child(void) {
  if (atomic_load(&is_inherited)) for_each_cell(empty);
}

static void unmap(struct shadow_cell *cell) { syscall(SYS_munmap, cell, sizeof *cell); }

void shadow_release(void) {
  for_each_cell(unmap);
  for (uintptr_t i = 0; atomic_load(&in_use) && i < SHADOW_LEAVES; i++) {
    uintptr_t leaf = atomic_exchange(&shadow_root[i], 0);
    if (leaf) syscall(SYS_munmap, leaf, LEAF_BYTES);
  }
}
