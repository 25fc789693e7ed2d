/* rights.c: each other user is announced before the process becomes that user, and the program notices nothing. */
#include "inside/processes/rights.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/next.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/sealed/sealed.h"
#include "shared/spool.h"
#include "tests/check.h"

static struct spool_header header = {.features = FEATURE_RIGHTS};
struct spool_header *spool = &header;
struct next_functions next;
static char folder[] = "/tmp/test-rights-XXXXXX", spool_path[64], path[64];
static long rows_at_call = -1; /* when libc's function was called */

void loss_add(enum loss loss) { header.losses[loss]++; }

/* ---- what libc would do ---- */

static long rows(void) {
  struct stat about;
  return stat(path, &about) ? -1 : about.st_size / (long)sizeof(struct rights_row);
}
static int refuse(void) {
  rows_at_call = rows();
  errno = EAGAIN;
  return -1;
}
static int refuse_one(uid_t user) { return (void)user, refuse(); }
static int refuse_two(uid_t real, uid_t effective) { return (void)real, (void)effective, refuse(); }
static int refuse_three(uid_t real, uid_t effective, uid_t saved) {
  return (void)real, (void)effective, (void)saved, refuse();
}
void next_resolve(void) {
  next.setuid = next.seteuid = next.setfsuid = refuse_one;
  next.setreuid = refuse_two;
  next.setresuid = refuse_three;
  next.resolved = true;
}

/* ---- the tests ---- */

static void announces(int result, long expected, uid_t user) {
  struct rights_row last = {0, 0};
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  check(result == -1 && errno == EAGAIN);
  check(rows_at_call == expected && rows() == expected);
  check(pread(fd, &last, sizeof last, (expected - 1) * (long)sizeof last) == sizeof last);
  check(last.user == user && last.group == getegid());
  close(fd);
}

static void create(void) { close(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)); }

static void every_way_is_announced_first(void) {
  uid_t keep = (uid_t)-1, own = geteuid();
  create();
  announces(setuid(own + 1), 1, own + 1);
  announces(seteuid(own + 2), 2, own + 2);
  announces(setreuid(own + 3, keep), 3, own + 3);
  announces(setreuid(keep, own + 4), 4, own + 4);
  announces(setresuid(keep, own + 5, keep), 5, own + 5);
  announces(setresuid(own, own, own + 6), 6, own + 6);
  announces(setresuid(own + 7, own + 8, own + 9), 9, own + 9);
  announces(setfsuid(own + 10), 10, own + 10);
}

static void a_user_that_is_known_is_not_announced_again(void) {
  uid_t keep = (uid_t)-1, own = geteuid();
  create();
  announces(setuid(own + 1), 1, own + 1);
  for (int i = 0; i < 3; i++) announces(seteuid(own + 1), 1, own + 1);
  announces(setuid(own), 1, own + 1);
  announces(setresuid(keep, own, keep), 1, own + 1);
  announces(setfsuid(keep), 1, own + 1);
}

static void a_file_out_of_reach_is_a_loss_of_root(void) {
  uint64_t expected = geteuid() == 0 ? 1 : 0;
  check(unlink(path) == 0 && setuid(geteuid() + 20) == -1 && errno == EAGAIN);
  check(header.losses[LOSS_rights_unannounced] == expected);
  check(mkfifo(path, 0600) == 0 && setuid(geteuid() + 21) == -1 && errno == EAGAIN); /* does not wait for a reader */
  check(header.losses[LOSS_rights_unannounced] == 2 * expected);
  check(unlink(path) == 0);
}

static void users_are_announced_until_the_trace_is_written(void) {
  create();
  header.ended = 1;
  check(setuid(geteuid() + 30) == -1 && rows() == 1);
  uint64_t before = header.losses[LOSS_rights_unannounced];
  seal_process(true);
  check(setuid(geteuid() + 31) == -1 && rows() == 1 && header.losses[LOSS_rights_unannounced] == before + 1);
  seal_process(false);
  spool = NULL;
  check(setuid(geteuid() + 32) == -1 && rows() == 1);
}

int main(void) {
  check(mkdtemp(folder) != NULL);
  snprintf(spool_path, sizeof spool_path, "%s/spool", folder);
  snprintf(path, sizeof path, "%s/rights", folder);
  create();
  check(setuid(geteuid() + 1) == -1 && rows() == 0); /* before the recording begins */
  header.features = 0;
  rights_init(spool_path);
  check(setuid(geteuid() + 1) == -1 && rows() == 0); /* the recorder has no more rights than its user */
  header.features = FEATURE_RIGHTS;
  rights_init(spool_path);
  every_way_is_announced_first();
  a_user_that_is_known_is_not_announced_again();
  a_file_out_of_reach_is_a_loss_of_root();
  users_are_announced_until_the_trace_is_written();
  check(unlink(path) == 0 && rmdir(folder) == 0);
  return 0;
}
