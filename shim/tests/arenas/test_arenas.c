/* Tests arenas.c with arenas of random pools, at random places: what is noted, and what their headers add up to. */
#include "inside/arenas/arenas.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "formats/spool/spool.h"
#include "shared/objects/pools.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "tests/check.h"

#define ARENAS 40

/* Fills some of the pools of an arena; returns the bytes of their blocks. */
static int64_t fill(uintptr_t base) {
  int64_t bytes = 0;
  uintptr_t pool = (base + POOL_BYTES - 1) / POOL_BYTES * POOL_BYTES;
  for (; pool + POOL_BYTES <= base + ARENA_BYTES; pool += POOL_BYTES) {
    if (random() % 3 == 0) continue; /* never used */
    uint32_t size_class = (uint32_t)random() % 32, most = (POOL_BYTES - POOL_HEADER_BYTES) / ((size_class + 1) * 16);
    uint32_t blocks = random() % 3 ? (uint32_t)random() % (most + 1) : 0;
    memset((void *)pool, 0xa5, POOL_BYTES);
    *(uint32_t *)(pool + POOL_USED) = blocks;
    *(uint32_t *)(pool + POOL_SIZE_CLASS) = size_class;
    bytes += (int64_t)blocks * (size_class + 1) * 16;
  }
  return bytes;
}

struct spool_header *spool;

int main(void) {
  safe_read_init();
  uintptr_t base[ARENAS];
  int64_t bytes[ARENAS], sum = 0;
  check(arenas_used_bytes() == 0 && !arenas_contain(4096));
  for (int i = 0; i < ARENAS; i++) {
    char *room = mmap(NULL, 2 * ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(room != MAP_FAILED);
    base[i] = (uintptr_t)room + (uintptr_t)random() % 256 * 4096; /* pymalloc aligns the pools in it */
    arenas_note(base[i], true);
    sum += bytes[i] = fill(base[i]);
    check(arenas_used_bytes() == sum && sum > 0);
    check(arenas_contain(base[i]) && arenas_contain(base[i] + ARENA_BYTES - 1));
    check(!arenas_contain(base[i] + ARENA_BYTES) && !arenas_contain((uintptr_t)room + 2 * ARENA_BYTES - 1));
  }
  check(!munmap((void *)base[1], ARENA_BYTES)); /* without a word */
  sum -= bytes[1];
  check(arenas_used_bytes() == sum && arenas_contain(base[1]));
  uint32_t *pool = (uint32_t *)((base[3] + POOL_BYTES - 1) / POOL_BYTES * POOL_BYTES);
  if (pool[POOL_SIZE_CLASS / 4] < 32) sum -= (int64_t)pool[POOL_USED / 4] * (pool[POOL_SIZE_CLASS / 4] + 1) * 16;
  pool[POOL_SIZE_CLASS / 4] = 32; /* no class of pymalloc's */
  check(arenas_used_bytes() == sum);
  for (int i = 0; i < ARENAS; i += 2) {
    arenas_note(base[i], false);
    sum -= bytes[i];
    check(arenas_used_bytes() == sum && !arenas_contain(base[i] + 4096));
  }
  puts("ok");
  return 0;
}
