/* filters.c: what dlsym gives the program, and when a filter ends the recording. */
#include <dlfcn.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/attached/attached.h"
#include "inside/python/python.h"
#include "shared/loss.h"
#include "shared/spool.h"
#include "tests/check.h"

typedef void *dlsym_function(void *, const char *);
extern dlsym_function *attached_real_dlsym;

static struct spool_header header;
struct spool_header *spool;
static int ends, losses;
void attached_leave(bool has_gil) {
  (void)has_gil;
  ends++;
}
bool python_holds_gil(void) { return true; }
void loss_add(enum loss loss) { losses += loss == LOSS_attached_memory_ended; }

static int others_prctl(void) { return 7; }
static dlsym_function *real;
static void *find_others(void *handle, const char *name) {
  return strcmp(name, "prctl") == 0 ? (void *)&others_prctl : real(handle, name);
}

static bool is_ours(void *handle, const char *name) {
  void *found = dlsym(handle, name);
  return found == (void *)&attached_prctl || found == (void *)&syscall;
}

static void test_ours_in_place_of_libcs(void) {
  check(!is_ours(RTLD_DEFAULT, "prctl"));
  spool = &header;
  check(is_ours(RTLD_DEFAULT, "prctl") && is_ours(RTLD_DEFAULT, "syscall"));
  check(!is_ours(RTLD_NEXT, "prctl") && !is_ours(RTLD_DEFAULT, "getpid") && !is_ours(RTLD_DEFAULT, "no function"));
}

/* A library that is looked into has a function of that name of its own. */
static void test_a_function_of_the_same_name(void) {
  real = attached_real_dlsym;
  attached_real_dlsym = find_others;
  check(dlsym(RTLD_DEFAULT, "prctl") == (void *)&others_prctl && is_ours(RTLD_DEFAULT, "syscall"));
  attached_real_dlsym = real;
}

static void test_a_filter_ends_the_recording(void) {
  char name[16];
  uint32_t action = SECCOMP_RET_ALLOW;
  check(!attached_prctl(PR_GET_NAME, name) && !syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) && !ends);
  check(attached_prctl(PR_SET_SECCOMP, 99, NULL) && ends == 1 && losses == 1);
  check(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 99, &action) && ends == 2 && losses == 2);
  check(syscall(SYS_prctl, PR_SET_SECCOMP, 99, NULL) && ends == 3);
}

int main(void) {
  filters_watch();
  test_ours_in_place_of_libcs();
  test_a_function_of_the_same_name();
  test_a_filter_ends_the_recording();
  puts("ok");
  return 0;
}
