/* Scenarios: actions, masks, and signals that are sent. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base.h"
#include "tests/signals/scenario.h"

void actions_at_start(void) {
  for (int signal = -1; signal <= 66; signal++) say_action(signal);
}

void every_signal_default(void) {
  for (int i = 1; i <= 64; i++) say("%d", signal(i, SIG_DFL) == SIG_ERR);
  ticks_go_on();
  actions_at_start();
}

void every_signal_handled(void) {
  const int flags[] = {0, SA_RESTART, SA_NODEFER, SA_ONSTACK | SA_RESTART, 0x40000000 /* an unused flag */};
  for (int i = 1; i <= 64; i++) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags[i % 5], .sa_mask = everything()}, before;
    memset(&before, 0, sizeof before);
    int result = sigaction(i, &action, &before);
    say("%d: %d %s %x\n", i, result, name_of(&before), before.sa_flags);
  }
  ticks_go_on();
  actions_at_start();
  say("handled %d\n", handled);
  raise(N);
  kill(getpid(), N);
  say("handled %d\n", handled);
}

void our_action_reads_back(void) {
  for (int flags = 0; flags < 8; flags++) {
    struct sigaction action = {.sa_handler = handler, .sa_mask = only(SIGKILL + flags)}, before;
    action.sa_flags = (flags & 1 ? SA_RESTART : 0) | (flags & 2 ? SA_NODEFER : 0) | (flags & 4 ? SA_NOCLDSTOP : 0);
    assert(sigaction(N, &action, &before) == 0);
    say_action(N);
    struct sigaction *same_struct = &action;
    assert(sigaction(N, &action, same_struct) == 0);
    say("%s %x %llx\n", name_of(&action), action.sa_flags, (unsigned long long)set_bits(&action.sa_mask));
  }
}

void older_calls(void) {
  say("%d", signal(N, handler) == SIG_DFL);
  say_action(N);
  say("%d %d", siginterrupt(N, 1), siginterrupt(SIGUSR1, 1));
  say_action(N);
  say("%d", bsd_signal(N, SIG_IGN) == handler);
  say_action(N);
  say("%d", ssignal(N, handler) == SIG_IGN);
  say_action(N);
  say("%d", siginterrupt(N, 0));
  say_action(N);
  say("%d", sysv_signal(N, handler) == handler);
  say_action(N);
  say("%d", signal(N, SIG_ERR) == SIG_ERR && errno == EINVAL);
  say("%d", sigset(N, SIG_HOLD) == handler);
  say_mask();
  say("%d", sigset(N, handler) == SIG_HOLD);
  say_mask();
  say_action(N);
  say("%d", sighold(N));
  say_mask();
  say("%d", sigrelse(N));
  say_mask();
  say("%d", sigignore(N));
  say_action(N);
  say("%d %d %d", sighold(99), sigrelse(0), sigset(N, SIG_ERR) == SIG_ERR);
}

void masks(void) {
  sigset_t full = everything(), before = nothing(), ours = only(N);
  say_mask();
  say("%d %llx\n", sigprocmask(SIG_BLOCK, &full, &before), (unsigned long long)set_bits(&before));
  say_mask();
  ticks_go_on();
  say("%d %llx\n", pthread_sigmask(SIG_UNBLOCK, &ours, &before), (unsigned long long)set_bits(&before));
  say_mask();
  sigset_t *same_set = &ours;
  say("%d", pthread_sigmask(SIG_SETMASK, &ours, same_set));
  say(" %llx\n", (unsigned long long)set_bits(&ours));
  say_mask();
  say("%d %d\n", pthread_sigmask(17, &full, &before), pthread_sigmask(17, NULL, &before));
  errno = 0;
  say("%d %d\n", sigprocmask(17, &full, &before), errno);
  say_mask();
  say("%d %d\n", sigblock(1 << (SIGUSR1 - 1)), sigsetmask(1 << (SIGUSR2 - 1)));
  say_mask();
}

void blocked_signals_are_delivered(void) {
  set_info_action(0);
  block(SIG_BLOCK, only(N));
  for (int i = 1; i <= 5; i++) queue(i);
  raise(N);
  kill(getpid(), N);
  ticks_go_on();
  say_pending();
  say("handled %d\n", handled);
  block(SIG_UNBLOCK, only(N));
  say_pending();
  say("handled %d:", handled);
  int sum = 0;
  for (int i = 0; i < handled; i++) sum += handled_value[i] < 6 ? handled_value[i] : 0;
  say(" %d context %d\n", sum, handled_context);
}

void queued_values_keep_their_order(void) {
  set_info_action(0);
  block(SIG_BLOCK, everything());
  for (int i = 1; i <= 20; i++) queue(i);
  block(SIG_SETMASK, nothing());
  for (int i = 0; i < handled; i++) say("%d ", handled_value[i]);
}

void ignoring_discards(void) {
  block(SIG_BLOCK, only(N));
  raise(N);
  kill(getpid(), N);
  signal(N, SIG_IGN);
  say_pending();
  set_action(N, handler, 0, nothing());
  block(SIG_UNBLOCK, only(N));
  say("handled %d\n", handled);
  signal(N, SIG_IGN);
  raise(N);
  say("alive, handled %d\n", handled);
}

void default_kills(void) { raise(N); }

void default_kills_from_outside(void) {
  if (fork() == 0) {
    kill(getppid(), N);
    _exit(0);
  }
  burn(2000);
}

void default_kills_when_unblocked(void) {
  block(SIG_BLOCK, everything());
  kill(getpid(), N);
  say_pending();
  block(SIG_SETMASK, nothing());
  say("not reached\n");
}

void a_handler_once(void) {
  set_action(N, handler, (int)SA_RESETHAND, nothing());
  raise(N);
  say("handled %d\n", handled);
  say_action(N);
  ticks_go_on();
  raise(N);
  say("not reached\n");
}

void nested_handlers(void) {
  set_action(N, nesting_handler, 0, nothing());
  raise(N);
  say("handled %d, deepest %d\n", handled, deepest);
  handled = deepest = 0;
  set_action(N, nesting_handler, SA_NODEFER, nothing());
  raise(N);
  say("handled %d, deepest %d\n", handled, deepest);
  handled = deepest = 0;
  set_action(N, nesting_handler, SA_NODEFER, only(N));
  raise(N);
  say("handled %d, deepest %d\n", handled, deepest);
}
