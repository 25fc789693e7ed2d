/* Runs each scenario bare and under ticks, and compares the output and the exit status (scenario.h). */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inside/signals/signals.h"
#include "shared/base.h"
#include "tests/signals/scenario.h"

struct scenario {
  const char *name;
  void (*run)(void);
};

#define ENTRY(name) {#name, name},
static const struct scenario scenarios[] = {SCENARIOS(ENTRY)};

static void run_scenario(const struct scenario *scenario, bool installs) {
  under_ticks = installs;
  detect_forks();
  if (installs) {
    assert(signals_install(count_tick) == 0 && signals_number() == N);
    arm();
    ticks_go_on();
  }
  scenario->run();
  ticks_go_on();
  say("done\n");
  _exit(0);
}

struct transcript {
  char text[65536];
  size_t length;
  int status;
};

/* A scenario that hangs may have blocked every signal that would end it. So after 20 seconds without output, it and its
 * children are killed. */
static ssize_t read_or_kill(int fd, char *to, size_t size, pid_t group) {
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  if (poll(&ready, 1, 20000) == 0) kill(-group, SIGKILL);
  return read(fd, to, size);
}

static void record(const struct scenario *scenario, bool installs, struct transcript *transcript) {
  int ends[2];
  assert(pipe(ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    close(ends[0]);
    out = ends[1];
    run_scenario(scenario, installs);
  }
  close(ends[1]);
  ssize_t got;
  transcript->length = 0;
  while ((got = read_or_kill(ends[0], transcript->text + transcript->length,
                             sizeof transcript->text - 1 - transcript->length, child)) > 0)
    transcript->length += (size_t)got;
  transcript->text[transcript->length] = '\0';
  assert(waitpid(child, &transcript->status, 0) == child);
  close(ends[0]);
}

static bool same(const struct scenario *scenario) {
  static struct transcript bare, ticked;
  record(scenario, false, &bare);
  record(scenario, true, &ticked);
  if (bare.status == ticked.status && strcmp(bare.text, ticked.text) == 0) return true;
  printf("%s differs\n--- bare, status %x\n%s\n--- under ticks, status %x\n%s\n", scenario->name, bare.status,
         bare.text, ticked.status, ticked.text);
  return false;
}

int main(int count, char **arguments) {
  bool all_same = true;
  N = SIGRTMAX - 3;
  self_path = arguments[0];
  if (count > 1 && strcmp(arguments[1], "describe") == 0) {
    describe_image();
    return 0;
  }
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
    if (count < 2 || strcmp(arguments[1], scenarios[i].name) == 0) all_same &= same(&scenarios[i]);
  if (all_same) printf("ok\n");
  return all_same ? 0 : 1;
}
