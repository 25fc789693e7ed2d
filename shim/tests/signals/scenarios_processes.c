/* Scenarios: exec and spawn, vfork and fork. */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inside/core/fork.h"
#include "shared/base.h"
#include "tests/signals/scenario.h"

char *self_path;

void describe_image(void) {
  out = 1;
  say_mask();
  say_action(N);
  say_action(SIGUSR1);
  say_pending();
}

static char **describe_arguments(void) {
  static char *arguments[] = {NULL, "describe", NULL};
  arguments[0] = self_path;
  return arguments;
}

static void exec_here(void) {
  execv("/nowhere", describe_arguments());
  say_mask();
  execv(self_path, describe_arguments());
}

static void forked_exec(void) {
  pid_t child = fork();
  if (child == 0) {
    dup2(out, 1);
    execv("/nowhere", describe_arguments());
    execv(self_path, describe_arguments());
    _exit(9);
  }
  end_child(child);
}

static void vforked_exec(void) {
  pid_t child = vfork();
  if (child == 0) {
    dup2(out, 1);
    execv("/nowhere", describe_arguments());
    execv(self_path, describe_arguments());
    _exit(9);
  }
  end_child(child);
}

static void spawned(void) {
  posix_spawn_file_actions_t actions;
  extern char **environ;
  pid_t child;
  assert(posix_spawn_file_actions_init(&actions) == 0 && posix_spawn_file_actions_adddup2(&actions, out, 1) == 0);
  assert(posix_spawn(&child, self_path, &actions, NULL, describe_arguments(), environ) == 0);
  end_child(child);
}

static void by_shell(void) {
  char command[512];
  snprintf(command, sizeof command, "%s describe >&%d", self_path, out);
  say("%d\n", system(command));
}

static void new_images(void) {
  forked_exec();
  vforked_exec();
  spawned();
  by_shell();
  ticks_go_on();
}

void images_inherit(void) {
  new_images();
  block(SIG_BLOCK, everything());
  new_images();
  signal(N, SIG_IGN);
  block(SIG_SETMASK, only(SIGUSR1));
  new_images();
  signal(N, handler);
  block(SIG_SETMASK, only(N));
  new_images();
  say_mask();
  say_action(N);
  raise(N);
  kill(getpid(), N);
  dup2(out, 1);
  exec_here();
}

void a_vfork_child_changes_its_own_state(void) {
  set_action(N, handler, SA_RESTART, nothing());
  block(SIG_BLOCK, only(N));
  pid_t child = vfork();
  if (child == 0) {
    dup2(out, 1);
    block(SIG_SETMASK, everything());
    block(SIG_UNBLOCK, only(N));
    say_mask();
    for (int i = 1; i <= 64; i++) signal(i, SIG_IGN);
    say_action(N);
    execv(self_path, describe_arguments());
    _exit(9);
  }
  end_child(child);
  say_mask();
  say_action(N);
  ticks_go_on();
}

void a_forked_child(void) {
  set_action(N, handler, SA_RESTART, nothing());
  block(SIG_BLOCK, everything());
  raise(N);
  kill(getpid(), N);
  pid_t child = fork();
  if (child == 0) {
    fork_check();
    if (under_ticks) arm();
    say_pending();
    say_mask();
    block(SIG_SETMASK, nothing());
    raise(N);
    say("handled %d\n", handled);
    ticks_go_on();
    _exit(3);
  }
  end_child(child);
  say_pending();
}
