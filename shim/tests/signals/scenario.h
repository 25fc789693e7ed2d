/* Helpers for the scenarios of test_signals.c.
 *
 * Every scenario runs twice, each time in its own process: bare (the shim's signal is not installed, all calls are
 * forwarded) and under ticks (it is installed, and a timer fires it every 1 ms). The output and the exit status must be
 * equal, and in the second run, ticks must continue in every thread afterwards. The scenarios use the number of the
 * shim's signal as if it were their own. */
#ifndef SCALENE_TRACE_TEST_SCENARIO_H
#define SCALENE_TRACE_TEST_SCENARIO_H

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "shared/base.h"

#undef assert
#define assert(condition)                                                                                              \
  ((condition) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), abort()))

/* clang-format off */
#define SCENARIOS(each) \
  each(actions_at_start) each(every_signal_default) each(every_signal_handled) \
  each(our_action_reads_back) each(older_calls) each(masks) \
  each(blocked_signals_are_delivered) each(queued_values_keep_their_order) each(ignoring_discards) \
  each(default_kills) each(default_kills_from_outside) each(default_kills_when_unblocked) \
  each(a_handler_once) each(nested_handlers) each(sigwait_family) \
  each(sigwait_sleeps_until_sent) each(sigwait_of_an_unblocked_signal_dies) each(a_thread_waits_for_the_process) \
  each(the_unblocked_thread_handles) each(threads_inherit) each(calls_with_masks) \
  each(sleeps_with_masks_are_ended) each(system_calls_are_interrupted_as_asked) each(signal_descriptors) \
  each(mask_of_another_handler) each(null_pointers) each(images_inherit) \
  each(a_vfork_child_changes_its_own_state) each(a_forked_child) each(cancelled_wait)
/* clang-format on */

#define DECLARE(name) void name(void);
SCENARIOS(DECLARE)
#undef DECLARE

/* Prints the inherited mask, actions and pending signals. An image that a scenario starts calls it. */
void describe_image(void);
extern char *self_path;

sighandler_t bsd_signal(int, sighandler_t);

extern int N;   /* number of the shim's signal */
extern int out; /* file descriptor of a scenario's output */
extern volatile sig_atomic_t handled, handled_value[64], depth, deepest;
extern volatile int handled_code, handled_context;
extern THREAD_LOCAL volatile int ticks;
extern bool under_ticks;

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t set_bits(const sigset_t *set);
sigset_t only(int signal);
sigset_t everything(void);
sigset_t nothing(void);
void handler(int signal);
void info_handler(int signal, siginfo_t *info, void *context);
void nesting_handler(int signal);
void set_action(int signal, void (*function)(int), int flags, sigset_t mask);
void set_info_action(int flags);
const char *name_of(const struct sigaction *action);
void say_action(int signal);
void say_mask(void);
void say_pending(void);
void block(int how, sigset_t set);
void queue(int value);
pthread_t start_thread_with(void (*run)(void), const pthread_attr_t *attributes);
pthread_t start_thread(void (*run)(void));
void end_child(pid_t child);
void wait_for_bytes(int fd);
bool count_tick(siginfo_t *info, void *context);
void arm(void);
void burn(long milliseconds);
void ticks_go_on(void);
void detect_forks(void);

#endif
