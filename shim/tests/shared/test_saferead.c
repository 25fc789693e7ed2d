/* Tests that the watcher's reads prove whose memory they read: only that of a process that has the spool mapped. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "tests/check.h"

#define SECRET 0x7365637265740a0au

struct spool_header *spool;
static uint64_t secret = SECRET; /* in the memory of the child */
static int ready[2], go[2];

static void create_spool(void) {
  char path[] = "/dev/shm/test-saferead-XXXXXX";
  int fd = mkstemp(path);
  check(fd >= 0 && !unlink(path) && !ftruncate(fd, SPOOL_HEADER_BYTES));
  spool = mmap(NULL, SPOOL_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  check(spool != MAP_FAILED);
  close(fd);
}

static void step(void) {
  char byte = 0;
  check(write(ready[1], &byte, 1) == 1);
  check(read(go[0], &byte, 1) == 1);
}

static void wait_for_step(void) {
  char byte;
  check(read(ready[0], &byte, 1) == 1);
}

static void let_continue(void) { check(write(go[1], "", 1) == 1); }

/* Has the spool mapped; then memory of its own at the same place, with the number that is in the spool; then
 * neither. */
static void be_the_child(void) {
  step();
  uint64_t number = spool->challenge;
  check(mmap(spool, SPOOL_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        spool);
  spool->challenge = number;
  step();
  check(!munmap(spool, SPOOL_HEADER_BYTES));
  step();
  _exit(0);
}

/* Reads the secret in each of the three ways, and returns how many got it. */
static int secrets_read(void) {
  uint64_t got[2] = {0, 0}, some = 0, pieces = 0;
  uintptr_t from[2] = {(uintptr_t)&secret, (uintptr_t)&secret};
  struct iovec work[2], to = {&pieces, sizeof pieces}, at = {&secret, sizeof secret};
  int count = safe_read_many(got, from, 2, sizeof secret, work) && got[1] == SECRET;
  count += safe_read_some(&some, &secret, sizeof secret) == sizeof secret && some == SECRET;
  count += safe_read_pieces(&to, &at, 1, sizeof secret) == 1 && pieces == SECRET;
  check(count == 3 || (!got[0] && !got[1] && !some && !pieces)); /* nothing stays of a read without a proof */
  return count;
}

int main(void) {
  create_spool();
  check(!pipe(ready) && !pipe(go));
  pid_t child = fork();
  if (!child) be_the_child();
  secret = 1;
  wait_for_step();
  safe_read_of(child, (uintptr_t)&spool->challenge);
  check(safe_read_proves() && secrets_read() == 3);
  uint64_t first = spool->challenge;
  check(safe_read_proves() && spool->challenge != first);
  let_continue(), wait_for_step();
  check(!safe_read_proves() && secrets_read() == 0);
  let_continue(), wait_for_step();
  check(!safe_read_proves() && secrets_read() == 0);
  safe_read_of(child, 0); /* a recorder without privileges */
  check(safe_read_proves() && secrets_read() == 3);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  return 0;
}
