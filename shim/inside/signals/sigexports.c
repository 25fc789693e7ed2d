/* The interposed signal functions: every call by which a program could notice our signal. They remove our signal from
 * the sets that the kernel gets, and add it to what the program gets reported. signals.c keeps the program's own action
 * and block (the shadow).
 *
 * Null pointers that libc and the kernel reject are forwarded unchanged, so that they fail in the same way. */
#undef _FORTIFY_SOURCE
#include "inside/signals/shadow.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <time.h>

#include "inside/core/next.h"
#include "inside/signals/signals.h"
#include "shared/base.h"
#include "shared/sealed/sealed.h"

/* Hides the pointer from the compiler, because <signal.h> promises that it is not null. */
static inline const void *maybe_null(const void *pointer) {
  __asm__("" : "+r"(pointer));
  return pointer;
}

static inline bool is_ours(int signal) {
  next_ensure();
  return unlikely(signal == signals_number()) && signal != 0 && !sealed();
}

static inline bool installed(void) {
  next_ensure();
  return likely(signals_number() != 0) && !sealed();
}

/* ---- actions ---- */

static _Atomic uint64_t masks_with_ours; /* bit n - 1: sa_mask of the handler of signal n contains our signal */

static void note_mask(int signal, bool with_ours) {
  uint64_t bit = UINT64_C(1) << (signal - 1);
  if (with_ours)
    atomic_fetch_or(&masks_with_ours, bit);
  else
    atomic_fetch_and(&masks_with_ours, ~bit);
}

/* sigaction() of another signal: only its mask may contain our signal. */
static int other_action(int signal, const struct sigaction *action, struct sigaction *before) {
  struct sigaction stripped;
  bool with_ours = false, in_vfork_child = action != NULL && signals_in_vfork_child();
  if (action != NULL && !in_vfork_child) {
    stripped = *action;
    with_ours = signals_strip(&stripped.sa_mask, &action->sa_mask);
  }
  int result = next.sigaction(signal, action == NULL || in_vfork_child ? action : &stripped, before);
  if (result != 0) return result;
  if (before != NULL && (atomic_load(&masks_with_ours) >> (signal - 1) & 1)) signals_report(&before->sa_mask, true);
  if (action != NULL && !in_vfork_child) note_mask(signal, with_ours);
  return 0;
}

static int any_action(int signal, const struct sigaction *action, struct sigaction *before) {
  if (!installed()) return next.sigaction(signal, action, before);
  if (is_ours(signal)) return signals_shadow_action(action, before);
  return other_action(signal, action, before);
}

EXPORT int sigaction(int signal, const struct sigaction *action, struct sigaction *before) {
  return any_action(signal, action, before);
}

int __sigaction(int, const struct sigaction *, struct sigaction *);
EXPORT int __sigaction(int signal, const struct sigaction *action, struct sigaction *before) {
  return any_action(signal, action, before);
}

static bool our_handlers_interrupt; /* siginterrupt() was called for our signal */

static sighandler_t shadow_handler(sighandler_t handler, int flags, bool masked) {
  struct sigaction action, before;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = flags;
  if (masked) sigaddset(&action.sa_mask, signals_number());
  return signals_shadow_action(&action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

static sighandler_t bsd_action(int signal, sighandler_t handler) {
  if (!is_ours(signal) || handler == SIG_ERR) return next.signal(signal, handler);
  return shadow_handler(handler, our_handlers_interrupt ? 0 : SA_RESTART, true);
}

EXPORT sighandler_t signal(int signal, sighandler_t handler) { return bsd_action(signal, handler); }
sighandler_t bsd_signal(int, sighandler_t);
EXPORT sighandler_t bsd_signal(int signal, sighandler_t handler) { return bsd_action(signal, handler); }
EXPORT sighandler_t ssignal(int signal, sighandler_t handler) { return bsd_action(signal, handler); }

static sighandler_t sysv_action(int signal, sighandler_t handler) {
  if (!is_ours(signal) || handler == SIG_ERR) return next.__sysv_signal(signal, handler);
  return shadow_handler(handler, (int)SA_RESETHAND | SA_NODEFER, false);
}

EXPORT sighandler_t __sysv_signal(int signal, sighandler_t handler) { return sysv_action(signal, handler); }
EXPORT sighandler_t sysv_signal(int signal, sighandler_t handler) { return sysv_action(signal, handler); }

EXPORT int siginterrupt(int signal, int interrupt) {
  struct sigaction action;
  if (!is_ours(signal)) return next.siginterrupt(signal, interrupt);
  our_handlers_interrupt = interrupt != 0;
  signals_shadow_action(NULL, &action);
  action.sa_flags = interrupt ? action.sa_flags & ~SA_RESTART : action.sa_flags | SA_RESTART;
  return signals_shadow_action(&action, NULL);
}

EXPORT sighandler_t sigset(int signal, sighandler_t handler) {
  struct sigaction before;
  if (!is_ours(signal)) return next.sigset(signal, handler);
  if (handler == SIG_HOLD) {
    signals_shadow_action(NULL, &before);
    return signals_swap_block(true) ? SIG_HOLD : before.sa_handler;
  }
  sighandler_t old = shadow_handler(handler, 0, false);
  if (old == SIG_ERR) return SIG_ERR;
  return signals_swap_block(false) ? SIG_HOLD : old;
}

EXPORT int sighold(int signal) {
  if (!is_ours(signal)) return next.sighold(signal);
  signals_swap_block(true);
  return 0;
}

EXPORT int sigrelse(int signal) {
  if (!is_ours(signal)) return next.sigrelse(signal);
  signals_swap_block(false);
  return 0;
}

EXPORT int sigignore(int signal) {
  if (!is_ours(signal)) return next.sigignore(signal);
  return shadow_handler(SIG_IGN, 0, false) == SIG_ERR ? -1 : 0;
}

/* ---- masks ---- */

typedef int mask_function(int how, const sigset_t *set, sigset_t *before);

static void block_changes(int how, bool names_ours) {
  if (how == SIG_SETMASK || names_ours) signals_swap_block(how == SIG_UNBLOCK ? false : names_ours);
}

static int change_mask(mask_function *real, int how, const sigset_t *set, sigset_t *before) {
  sigset_t stripped;
  bool blocked = signals_shadow_blocked();
  bool names_ours = set != NULL && signals_strip(&stripped, set);
  int result = real(how, set != NULL ? &stripped : NULL, before);
  if (result != 0) return result;
  if (before != NULL) signals_report(before, blocked);
  if (set != NULL) block_changes(how, names_ours);
  return 0;
}

/* For a thread whose block of our signal the kernel does not know: adds it to what the thread blocks now. */
static int pay_block(mask_function *real, int how, const sigset_t *set, sigset_t *before) {
  sigset_t with;
  uint64_t ours = UINT64_C(1) << (signals_number() - 1);
  bool sets = set != NULL && (how != SIG_UNBLOCK || (signals_set_bits(set) & ours));
  if (set != NULL) {
    with = *set;
    if (how == SIG_BLOCK) signals_report(&with, true);
  }
  int result = real(how, set != NULL ? &with : NULL, before);
  if (result != 0) return result;
  if (before != NULL) signals_report(before, true);
  if (sets) signals_paid_block();
  return 0;
}

static int mask_of(mask_function *real, int how, const sigset_t *set, sigset_t *before) {
  if (installed()) return change_mask(real, how, set, before);
  return signals_owes_block() ? pay_block(real, how, set, before) : real(how, set, before);
}

static int any_mask(int how, const sigset_t *set, sigset_t *before) {
  next_ensure();
  return mask_of(next.sigprocmask, how, set, before);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *before) { return any_mask(how, set, before); }

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
  next_ensure();
  return mask_of(next.pthread_sigmask, how, set, before);
}

/* An int has no bit for our signal, so setting the whole mask from one unblocks our signal. sigblock never changes it
 * and needs no wrapper. */
EXPORT int sigsetmask(int mask) {
  bool known = installed();
  int before = next.sigsetmask(mask);
  if (known) signals_swap_block(false);
  return before;
}

/* ---- calls that wait with another mask ---- */

/* State of a call that waits with another mask. While it runs, the shadow block is that of its mask. */
struct mask_for_call {
  sigset_t stripped;
  struct signals_call outer;
};

static int mask_end(const struct mask_for_call *call, int result) {
  int error = errno;
  signals_end_call(&call->outer);
  errno = error;
  return result;
}

/* Returns false if a held signal was delivered at once: the call then ends with EINTR. */
static bool mask_begin(struct mask_for_call *call, const sigset_t *mask) {
  bool blocked = signals_strip(&call->stripped, mask);
  bool delivers = !blocked && signals_held();
  signals_begin_call(&call->outer, blocked);
  if (!delivers) return true;
  errno = EINTR;
  mask_end(call, -1);
  return false;
}

static int suspend_with(const sigset_t *mask) {
  struct mask_for_call call;
  if (!installed() || maybe_null(mask) == NULL) return next.sigsuspend(mask);
  return mask_begin(&call, mask) ? mask_end(&call, next.sigsuspend(&call.stripped)) : -1;
}

EXPORT int sigsuspend(const sigset_t *mask) { return suspend_with(mask); }
int __sigsuspend(const sigset_t *);
EXPORT int __sigsuspend(const sigset_t *mask) { return suspend_with(mask); }

static int pause_without(int signal) {
  sigset_t mask;
  if (any_mask(SIG_BLOCK, NULL, &mask) != 0 || sigdelset(&mask, signal) != 0) return -1;
  return suspend_with(&mask);
}

static int pause_with_bits(unsigned int bits) {
  sigset_t mask;
  memset(&mask, 0, sizeof mask);
  memcpy(&mask, &bits, sizeof bits);
  return suspend_with(&mask);
}

EXPORT int __sigpause(int signal_or_mask, int is_signal) {
  return is_signal ? pause_without(signal_or_mask) : pause_with_bits((unsigned int)signal_or_mask);
}

int __xpg_sigpause(int);
EXPORT int __xpg_sigpause(int signal) { return pause_without(signal); }

/* The symbol sigpause is BSD's function; <signal.h> maps the name to __xpg_sigpause. */
int bsd_sigpause(int) __asm__("sigpause");
EXPORT int bsd_sigpause(int mask) { return pause_with_bits((unsigned int)mask); }

EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask) {
  struct mask_for_call call;
  if (!installed() || mask == NULL) return next.ppoll(fds, count, timeout, mask);
  return mask_begin(&call, mask) ? mask_end(&call, next.ppoll(fds, count, timeout, &call.stripped)) : -1;
}

int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask,
                       size_t bytes) {
  struct mask_for_call call;
  if (!installed() || mask == NULL) return next.__ppoll_chk(fds, count, timeout, mask, bytes);
  return mask_begin(&call, mask) ? mask_end(&call, next.__ppoll_chk(fds, count, timeout, &call.stripped, bytes)) : -1;
}

EXPORT int pselect(int count, fd_set *reads, fd_set *writes, fd_set *excepts, const struct timespec *timeout,
                   const sigset_t *mask) {
  struct mask_for_call call;
  if (!installed() || mask == NULL) return next.pselect(count, reads, writes, excepts, timeout, mask);
  if (!mask_begin(&call, mask)) return -1;
  return mask_end(&call, next.pselect(count, reads, writes, excepts, timeout, &call.stripped));
}

EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int count, int timeout_ms, const sigset_t *mask) {
  struct mask_for_call call;
  if (!installed() || mask == NULL) return next.epoll_pwait(epoll, events, count, timeout_ms, mask);
  if (!mask_begin(&call, mask)) return -1;
  return mask_end(&call, next.epoll_pwait(epoll, events, count, timeout_ms, &call.stripped));
}

EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int count, const struct timespec *timeout,
                        const sigset_t *mask) {
  struct mask_for_call call;
  next_ensure();
  if (next.epoll_pwait2 == NULL) {
    errno = ENOSYS;
    return -1;
  }
  if (!installed() || mask == NULL) return next.epoll_pwait2(epoll, events, count, timeout, mask);
  if (!mask_begin(&call, mask)) return -1;
  return mask_end(&call, next.epoll_pwait2(epoll, events, count, timeout, &call.stripped));
}

/* ---- calls that take signals ---- */

static bool valid_timeout(const struct timespec *timeout) {
  return timeout == NULL || (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 && timeout->tv_nsec < 1000000000);
}

EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout) {
  if (!installed() || maybe_null(set) == NULL || !valid_timeout(timeout)) return next.sigtimedwait(set, info, timeout);
  return signals_wait(set, info, timeout);
}

EXPORT int sigwaitinfo(const sigset_t *set, siginfo_t *info) {
  if (!installed() || maybe_null(set) == NULL) return next.sigwaitinfo(set, info);
  return signals_wait(set, info, NULL);
}

EXPORT int sigwait(const sigset_t *set, int *signal) {
  siginfo_t info;
  int result;
  if (!installed() || maybe_null(set) == NULL || maybe_null(signal) == NULL) return next.sigwait(set, signal);
  do result = signals_wait(set, &info, NULL);
  while (result < 0 && errno == EINTR);
  if (result < 0) return errno;
  *signal = result;
  return 0;
}

EXPORT int sigpending(sigset_t *set) {
  next_ensure();
  int result = next.sigpending(set);
  if (result == 0 && installed()) signals_report(set, signals_shadow_blocked() && signals_held());
  return result;
}

EXPORT int signalfd(int fd, const sigset_t *mask, int flags) {
  sigset_t stripped;
  if (!installed() || maybe_null(mask) == NULL) return next.signalfd(fd, mask, flags);
  signals_strip(&stripped, mask);
  return next.signalfd(fd, &stripped, flags);
}
