/* The tick signal: a real-time signal that we use in a process whose program must not notice it.
 *
 * Our handler is always installed, and the signal is unblocked in every thread. For the program we keep a *shadow*: the
 * shadow action (what sigaction() would report without us) and, for each thread, the shadow block (what its mask would
 * contain). sigexports.c interposes every function that reads or changes one of the two.
 *
 * A signal of our number that is not a tick belongs to the program. It causes the shadow action: the program's handler,
 * the default action, or nothing. While the shadow block is set, it stays pending in held.c.
 *
 * A vfork child runs in its parent's memory, but has its own mask and actions, and gets no ticks. So it has its own
 * shadow block in the state of the thread that it runs on, and its actions are really set.
 *
 * In a sealed process there are no ticks, and calls are forwarded. The thread that seals it gets the program's real
 * action and mask. Other threads cannot be given a mask: those that have blocked our signal get the block with their
 * next change of the mask.
 *
 * Known limits: a handler whose sa_mask contains our signal runs with the signal unblocked; siglongjmp and sigreturn do
 * not restore an older shadow block; foreign signals of our number cannot be read from a signalfd. */
#undef _FORTIFY_SOURCE
#include "inside/signals/signals.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/signals/deadline.h"
#include "inside/signals/held.h"
#include "inside/signals/shadow.h"
#include "inside/signals/shadow_action.h"
#include "shared/base.h"
#include "shared/sealed/sealed.h"
#include "shared/valgrind.h"

#define BELOW_SIGRTMAX 3
#define LISTENERS 64

/* The shadow of one thread. */
struct thread_shadow {
  int32_t owner;       /* thread that `blocked` belongs to; 0 = not set yet */
  int32_t vfork_child; /* vfork child that `vfork_blocked` belongs to; 0 = none yet */
  bool blocked;
  bool vfork_blocked;
  bool block_is_real; /* in a sealed process: the real mask is what the program has asked for */
  bool in_call;       /* in a call that waits with another mask; the first signal that is delivered ends the call, */
  bool after_call;    /* and restores this block */
  uint32_t listener;  /* index of this thread in listeners[], unless another thread has replaced it */
  /* A sigwait for our signal is in progress. A handler that holds a signal for it sets the timeout to 0. The kernel
   * reads the timeout when the wait starts, so a signal that arrives just before still ends the wait at once. */
  volatile bool waiting;
  volatile bool interrupted_by_us;
  struct timespec timeout;
};

static THREAD_LOCAL struct thread_shadow self;
static int number; /* 0 = not installed: interposed calls are only forwarded */
static signals_handler *tick_handler;
static _Atomic int real_flags;
static _Atomic int32_t listeners[LISTENERS]; /* threads that recently had our signal unblocked, or waited for it */
static _Atomic uint32_t listeners_used;

int signals_number(void) { return fork_has_thread_storage() ? number : 0; }

static int32_t current_thread(void) {
  uint32_t section = seal_enter();
  int32_t thread = sealed() ? self.owner : (int32_t)syscall(SYS_gettid);
  seal_leave(section);
  return thread;
}

/* ---- sets ---- */

static uint64_t our_bit(void) { return UINT64_C(1) << (number - 1); }

uint64_t signals_set_bits(const sigset_t *set) {
  uint64_t bits;
  memcpy(&bits, set, sizeof bits);
  return bits;
}

void signals_set_store(sigset_t *set, uint64_t bits) { memcpy(set, &bits, sizeof bits); }

bool signals_strip(sigset_t *to, const sigset_t *from) {
  uint64_t bits = signals_set_bits(from);
  memset(to, 0, sizeof *to);
  signals_set_store(to, bits & ~our_bit());
  return (bits & our_bit()) != 0;
}

void signals_report(sigset_t *set, bool member) {
  uint64_t bits = signals_set_bits(set) & ~our_bit();
  signals_set_store(set, member ? bits | our_bit() : bits);
}

static void change_real_mask(int how) {
  sigset_t ours;
  memset(&ours, 0, sizeof ours);
  signals_set_store(&ours, our_bit());
  next.pthread_sigmask(how, &ours, NULL);
}

/* ---- the real action ---- */

static void on_signal(int signal, siginfo_t *info, void *context);

/* libc's sigfillset leaves out two signals that libc uses itself. Signal 32, of pthread_cancel, must not unwind the
 * thread out of our handler, so it is blocked; signal 33, for setuid, must be delivered. */
static void block_cancellation(sigset_t *mask) { mask->__val[0] |= 1ul << (32 - 1); }

static int install_real(int flags) {
  struct sigaction ours;
  memset(&ours, 0, sizeof ours);
  ours.sa_sigaction = on_signal;
  ours.sa_flags = flags;
  sigfillset(&ours.sa_mask);
  block_cancellation(&ours.sa_mask);
  const int unblocked[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
  for (size_t i = 0; i < sizeof unblocked / sizeof *unblocked; i++) sigdelset(&ours.sa_mask, unblocked[i]);
  atomic_store(&real_flags, flags);
  return next.sigaction(number, &ours, NULL);
}

/* If the program handles our number and wants system calls to end with EINTR, the real action must do that.
 *
 * A thread without an alternate stack takes an SA_ONSTACK signal on its normal one, which the kernel extends. Valgrind
 * (3.19) does not extend it for such a signal, and ends the program. */
static int flags_for(const struct sigaction *shadow) {
  bool handled = shadow_is_function(shadow);
  bool interrupts = handled && !(shadow->sa_flags & SA_RESTART);
  int stack = !under_valgrind() ? SA_ONSTACK : handled ? shadow->sa_flags & SA_ONSTACK : 0;
  return SA_SIGINFO | stack | (interrupts ? 0 : SA_RESTART);
}

static bool real_action_is_ours(struct sigaction *real) {
  return next.sigaction(number, NULL, real) == 0 && real->sa_sigaction == on_signal;
}

/* ---- the shadow block ---- */

static void become_listener(int32_t thread) {
  if (atomic_load(&listeners[self.listener % LISTENERS]) == thread) return;
  self.listener = atomic_fetch_add(&listeners_used, 1);
  atomic_store(&listeners[self.listener % LISTENERS], thread);
}

static bool is_vfork_child(int32_t thread) {
  if (likely(self.owner == thread)) return false;
  if (self.owner != 0) fork_check(); /* a forked child becomes the owner here */
  if (self.owner == 0) self.owner = thread;
  return self.owner != thread;
}

static bool *block_of(int32_t thread) {
  if (!is_vfork_child(thread)) return &self.blocked;
  if (self.vfork_child != thread) {
    self.vfork_blocked = self.blocked;
    self.vfork_child = thread;
  }
  return &self.vfork_blocked;
}

static void send_to(int32_t thread, siginfo_t *info) {
  int error = errno;
  syscall(SYS_rt_tgsigqueueinfo, getpid(), thread, number, info);
  errno = error;
}

/* Sends a held signal again to a thread that has unblocked it. So the handler gets the signal with a real context, and
 * releases the next one. */
static void resend_held(int32_t thread) {
  siginfo_t info;
  if (!sealed() && !is_vfork_child(thread) && !self.blocked && held_take(thread, &info)) send_to(thread, &info);
}

static void block_store(bool blocked) {
  int32_t thread = current_thread();
  *block_of(thread) = blocked;
  if (blocked) return;
  become_listener(thread);
  resend_held(thread);
}

bool signals_shadow_blocked(void) { return number != 0 && *block_of(current_thread()); }

void signals_set_shadow_blocked(bool blocked) {
  if (number != 0) block_store(blocked);
}

bool signals_swap_block(bool blocked) {
  bool before = signals_shadow_blocked();
  block_store(blocked);
  return before;
}

void signals_begin_call(struct signals_call *outer, bool blocked) {
  *outer = (struct signals_call){self.in_call, self.after_call};
  self.after_call = signals_shadow_blocked();
  self.in_call = true;
  block_store(blocked);
}

void signals_end_call(const struct signals_call *outer) {
  bool after = self.after_call;
  self.in_call = outer->in_call;
  self.after_call = outer->after_call;
  block_store(after);
}

bool signals_held(void) {
  int32_t thread = current_thread();
  return !is_vfork_child(thread) && held_any(thread);
}

/* Weak, because only glibc from 2.32 on has it. */
extern int pthread_attr_getsigmask_np(const pthread_attr_t *, sigset_t *) __attribute__((weak));

bool signals_inherited_blocked(const pthread_attr_t *attributes) {
  sigset_t own;
  if (number == 0 || sealed()) return false;
  if (attributes != NULL && pthread_attr_getsigmask_np != NULL && pthread_attr_getsigmask_np(attributes, &own) == 0)
    return (signals_set_bits(&own) & our_bit()) != 0;
  return signals_shadow_blocked();
}

/* ---- signals that are not ticks ---- */

/* A signal of pthread_sigqueue cannot be distinguished from one of sigqueue, so it counts as sent to the process. */
static bool sent_to_thread(const siginfo_t *info) { return info->si_code == SI_TKILL; }

static void fill_nudge(siginfo_t *nudge) {
  memset(nudge, 0, sizeof *nudge);
  nudge->si_signo = number;
  nudge->si_code = SI_QUEUE;
  nudge->si_pid = getpid();
  nudge->si_uid = getuid();
  nudge->si_ptr = listeners;
}

/* A nudge is a signal that one of our threads sends to another to make it check held.c. */
static bool is_nudge(const siginfo_t *info) {
  return info->si_code == SI_QUEUE && info->si_ptr == (void *)listeners && info->si_pid == getpid();
}

static void nudge_listeners(int32_t but_thread) {
  siginfo_t nudge;
  if (sealed()) return;
  fill_nudge(&nudge);
  for (size_t i = 0; i < LISTENERS; i++) {
    int32_t thread = atomic_load(&listeners[i]);
    if (thread != 0 && thread != but_thread) send_to(thread, &nudge);
  }
}

static void end_wait(void) {
  self.interrupted_by_us = true;
  self.timeout.tv_sec = 0;
  self.timeout.tv_nsec = 0;
}

static void keep_pending(const siginfo_t *info, int32_t thread) {
  bool to_thread = sent_to_thread(info);
  held_add(info, to_thread ? thread : 0);
  if (self.waiting) {
    end_wait();
  } else if (!to_thread) {
    nudge_listeners(thread);
  }
}

static void handle_nudge(int32_t thread) {
  if (self.waiting) {
    end_wait();
  } else if (!*block_of(thread)) {
    resend_held(thread);
  }
}

/* Performs the default action, of which the program dies as it would without us. Returns if the kernel does not kill it
 * (process 1 of a container). */
static void default_action(siginfo_t *info) {
  struct sigaction fallback;
  memset(&fallback, 0, sizeof fallback);
  fallback.sa_handler = SIG_DFL;
  next.sigaction(number, &fallback, NULL);
  send_to(current_thread(), info);
  change_real_mask(SIG_UNBLOCK);
  install_real(atomic_load(&real_flags));
}

static void call_function(const struct sigaction *action, siginfo_t *info, void *context) {
  if (action->sa_flags & SA_SIGINFO)
    action->sa_sigaction(number, info, context);
  else
    action->sa_handler(number);
}

/* Calls the program's handler with the mask that the kernel would have set, and then restores the mask of our
 * handler. */
static void call_masked(const struct sigaction *action, siginfo_t *info, void *context) {
  const ucontext_t *interrupted = context;
  sigset_t mask, ours;
  bool *blocked = block_of(current_thread()), before = *blocked;
  bool named = signals_strip(&mask, &action->sa_mask);
  signals_set_store(&mask, signals_set_bits(&mask) | signals_set_bits(&interrupted->uc_sigmask));
  *blocked = before || named || !(action->sa_flags & SA_NODEFER);
  next.pthread_sigmask(SIG_SETMASK, &mask, &ours);
  call_function(action, info, context);
  next.pthread_sigmask(SIG_SETMASK, &ours, NULL);
  *blocked = self.in_call ? self.after_call : before;
}

static void deliver_to_program(siginfo_t *info, void *context) {
  struct sigaction action, before;
  shadow_action_read(&action);
  if (action.sa_handler == SIG_IGN) return;
  if (action.sa_handler == SIG_DFL) {
    default_action(info);
    return;
  }
  if (action.sa_flags & (int)SA_RESETHAND) {
    struct sigaction reset = action;
    reset.sa_handler = SIG_DFL;
    shadow_action_write(&reset, &before);
  }
  call_masked(&action, info, context);
  resend_held(current_thread());
}

/* sigwait also takes an unblocked signal, unless its action is the default or ignores it. */
static bool waits_for_handled(void) {
  struct sigaction action;
  if (!self.waiting) return false;
  shadow_action_read(&action);
  return shadow_is_function(&action);
}

static SLOW_PATH void foreign_signal(siginfo_t *info, void *context) {
  int32_t thread = current_thread();
  if (is_nudge(info))
    handle_nudge(thread);
  else if (*block_of(thread) || waits_for_handled())
    keep_pending(info, thread);
  else
    deliver_to_program(info, context);
}

static void on_signal(int signal, siginfo_t *info, void *context) {
  int error = errno;
  (void)signal;
  if (likely(tick_handler(info, context)))
    self.interrupted_by_us = true;
  else
    foreign_signal(info, context);
  errno = error;
}

/* ---- calls of the program ---- */

/* The kernel keeps the actions of a vfork child. They may be set for real, because the child gets no ticks. */
static int vfork_child_action(const struct sigaction *action, struct sigaction *before) {
  struct sigaction real, shadow;
  int result = next.sigaction(number, action, &real);
  if (result != 0) return result;
  if (real.sa_sigaction == on_signal) {
    shadow_action_read(&shadow);
    real = shadow;
  }
  if (before != NULL) shadow_action_report(before, &real);
  return 0;
}

int signals_shadow_action(const struct sigaction *action, struct sigaction *before) {
  struct sigaction shadow, old;
  if (is_vfork_child(current_thread())) return vfork_child_action(action, before);
  if (action == NULL) {
    shadow_action_read(&old);
  } else {
    shadow = *action;
    shadow_action_normalize(&shadow);
    shadow_action_write(&shadow, &old);
    if (shadow.sa_handler == SIG_IGN) held_discard();
    if (flags_for(&shadow) != atomic_load(&real_flags)) install_real(flags_for(&shadow));
  }
  if (before != NULL) shadow_action_report(before, &old);
  return 0;
}

bool signals_in_vfork_child(void) { return is_vfork_child(current_thread()); }

/* Waits once for the other signals of the set. If a signal is held, or arrives before the kernel reads the timeout, the
 * timeout is 0 and the call only polls. So other signals are still taken first, as the kernel would do (our number is
 * among the highest). */
static int wait_once(const sigset_t *others, siginfo_t *info, const struct timespec *deadline, bool wanted) {
  self.interrupted_by_us = false;
  self.timeout = deadline_left(deadline);
  self.waiting = wanted;
  if (wanted && signals_held()) self.timeout = (struct timespec){0, 0};
  int result = next.sigtimedwait(others, info, &self.timeout);
  self.waiting = false;
  return result;
}

static int report_taken(siginfo_t *to, const siginfo_t *taken) {
  if (to == NULL) return number;
  *to = *taken;
  if (to->si_code == SI_TKILL) to->si_code = SI_USER; /* as libc does */
  return number;
}

static bool has_passed(const struct timespec *deadline) {
  struct timespec left = deadline_left(deadline);
  return left.tv_sec == 0 && left.tv_nsec == 0;
}

int signals_wait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout) {
  struct timespec deadline;
  sigset_t others;
  siginfo_t taken;
  bool wanted = signals_strip(&others, set) && !signals_in_vfork_child();
  deadline_after(&deadline, timeout);
  if (wanted) become_listener(current_thread());
  for (;;) {
    int result = wait_once(&others, info, &deadline, wanted), error = errno;
    if (result >= 0 || (error != EAGAIN && error != EINTR)) return result;
    if (wanted && held_take(current_thread(), &taken)) return report_taken(info, &taken);
    bool again = error == EAGAIN ? !has_passed(&deadline) : self.interrupted_by_us;
    errno = error;
    if (!again) return -1;
  }
}

/* ---- load, start of a thread, fork, exec ---- */

int signals_install(signals_handler *handler) {
  struct sigaction found, before;
  next_ensure();
  int wanted = SIGRTMAX - BELOW_SIGRTMAX;
  if (next.sigaction(wanted, NULL, &found) != 0) return errno;
  shadow_action_write(&found, &before);
  tick_handler = handler;
  number = wanted;
  if (install_real(flags_for(&found)) != 0) {
    number = 0;
    return errno;
  }
  shadow_note_restorer();
  signals_thread_start();
  return 0;
}

void signals_thread_start(void) {
  sigset_t inherited;
  int32_t thread = current_thread();
  if (number == 0 || sealed()) return;
  next.pthread_sigmask(SIG_BLOCK, NULL, &inherited);
  self.owner = thread;
  if ((signals_set_bits(&inherited) & our_bit()) != 0) self.blocked = true;
  if (!self.blocked) become_listener(thread);
  change_real_mask(SIG_UNBLOCK);
}

void signals_postfork_child(void) {
  struct sigaction real, before;
  int32_t thread = current_thread();
  if (number == 0 || sealed()) return;
  held_postfork_child();
  for (size_t i = 0; i < LISTENERS; i++) atomic_store(&listeners[i], 0);
  if (self.vfork_child == thread) self.blocked = self.vfork_blocked;
  self.owner = thread;
  self.vfork_child = 0;
  if (!real_action_is_ours(&real)) {
    shadow_action_write(&real, &before);
    install_real(flags_for(&real));
  }
  if (!self.blocked) become_listener(thread);
}

/* exec keeps SIG_IGN, the mask and pending signals; the kernel resets handlers itself. */
static void ignore_as_shadowed(void) {
  struct sigaction shadow, real;
  shadow_action_read(&shadow);
  if (shadow.sa_handler == SIG_IGN && real_action_is_ours(&real)) next.sigaction(number, &shadow, NULL);
}

/* Blocks our signal for real if the program has blocked it, and sends the signals again that were held. */
static void set_block(void) {
  int32_t thread = current_thread();
  siginfo_t info;
  if (!*block_of(thread)) return;
  change_real_mask(SIG_BLOCK);
  while (!is_vfork_child(thread) && held_take(thread, &info)) send_to(thread, &info);
}

void signals_before_exec(void) {
  if (number == 0 || sealed()) return;
  int error = errno;
  set_block();
  ignore_as_shadowed();
  errno = error;
}

void signals_after_failed_exec(void) {
  struct sigaction shadow;
  if (number == 0 || sealed()) return;
  int error = errno;
  shadow_action_read(&shadow);
  if (shadow.sa_handler == SIG_IGN && !signals_in_vfork_child()) install_real(atomic_load(&real_flags));
  if (signals_shadow_blocked()) change_real_mask(SIG_UNBLOCK);
  errno = error;
}

/* ---- a sealed process ---- */

bool signals_owes_block(void) { return number != 0 && sealed() && self.blocked && !self.block_is_real; }

void signals_paid_block(void) { self.block_is_real = true; }

/* The kernel discards pending signals of a number that is being ignored, so no tick arrives later. A tracer may hold one
 * that has left the queue: the kernel looks at the action again when the thread goes on, and by default would kill. */
void signals_seal(bool traced) {
  struct sigaction shadow, real, ignored;
  if (number == 0 || !real_action_is_ours(&real)) return;
  memset(&ignored, 0, sizeof ignored);
  ignored.sa_handler = SIG_IGN;
  shadow_action_read(&shadow);
  next.sigaction(number, &ignored, NULL);
  if (!traced || shadow.sa_handler != SIG_DFL) next.sigaction(number, &shadow, NULL);
  set_block();
  self.block_is_real = true;
}

void signals_unseal(void) {
  if (number == 0 || !self.block_is_real) return;
  self.block_is_real = false;
  install_real(atomic_load(&real_flags));
  change_real_mask(SIG_UNBLOCK);
}
