/* The file of a spool with CHUNKS chunks, for the tests that include this and define CHUNKS and `path`. */
#ifndef SCALENE_TRACE_TESTS_SPOOL_FILE_H
#define SCALENE_TRACE_TESTS_SPOOL_FILE_H

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "shared/spool.h"
#include "tests/check.h"

#define FILE_BYTES (SPOOL_CHUNKS_OFFSET + (size_t)CHUNKS * SPOOL_CHUNK_BYTES)
static struct spool_header *file;

static void make_file(uint32_t offered) {
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  check(fd >= 0 && ftruncate(fd, (off_t)FILE_BYTES) == 0);
  file = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  check(file != MAP_FAILED);
  close(fd);
  *file = (struct spool_header){.magic = SPOOL_MAGIC,
                                .version = SPOOL_VERSION,
                                .chunk_bytes = SPOOL_CHUNK_BYTES,
                                .ring_entries = SPOOL_RING,
                                .chunk_count = CHUNKS,
                                .offered = offered};
  uint32_t *ring = (uint32_t *)((char *)file + SPOOL_HEADER_BYTES);
  for (uint32_t i = 0; i < offered; i++) ring[i] = CHUNKS - 1 - i; /* chunks in any order */
}

static void drop_file(void) {
  spool_close();
  munmap(file, FILE_BYTES);
}

#endif
