/* Restricts itself by Landlock to reading below /usr, /lib, /lib64, /bin and /etc, and runs a shell in each way. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/landlock.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int restrict_files(void) {
  static const char *const open_folders[] = {"/usr", "/lib", "/lib64", "/bin", "/etc"};
  struct landlock_ruleset_attr attributes = {
      .handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_EXECUTE};
  int rules = (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
  for (size_t i = 0; i < sizeof open_folders / sizeof *open_folders; i++) {
    struct landlock_path_beneath_attr beneath = {.allowed_access =
                                                     LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE,
                                                 .parent_fd = open(open_folders[i], O_PATH | O_CLOEXEC)};
    if (beneath.parent_fd >= 0) syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
  }
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return rules < 0 || syscall(SYS_landlock_restrict_self, rules, 0);
}

int main(void) {
  char *shell[] = {"sh", "-c", "exit 3", NULL};
  int status = 0;
  pid_t child;
  if (restrict_files()) return 77; /* the kernel lacks Landlock */
  if (posix_spawn(&child, "/bin/sh", NULL, NULL, shell, environ) || waitpid(child, &status, 0) != child) return 8;
  printf("spawn %d\n", WEXITSTATUS(status));
  printf("system %d\n", WEXITSTATUS(system("exit 3")));
  fflush(stdout);
  execv("/bin/sh", shell);
  return 9;
}
