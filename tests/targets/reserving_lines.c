/* A library with an allocator of its own: it hands out parts of one mapping without reserve, and touches them. */
#include <stddef.h>
#include <sys/mman.h>

#define MAPPED ((size_t)1 << 30)

static char *area;
static size_t used;

/* Returns 0; 1 = there is no room. */
int take(size_t bytes) {
  if (!area) area = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED || bytes > MAPPED - used) return 1;
  for (size_t i = 0; i < bytes; i += 4096) area[used + i] = 1;
  used += bytes;
  return 0;
}

/* Touches that many bytes of another mapping, and gives them back. */
void touch(size_t bytes) {
  static char *given;
  if (!given) given = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  for (size_t i = 0; i < bytes; i += 4096) given[i] = 1;
  madvise(given, bytes, MADV_DONTNEED);
}
