/* Page faults of the calling thread: a perf event that says which page was touched, once in so many faults. */
#ifndef SCALENE_TRACE_CPU_FAULTS_H
#define SCALENE_TRACE_CPU_FAULTS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* A fault for which the event has fired, and how many it stands for. */
struct fault {
  uintptr_t address;
  uint64_t count;
};

/* Opens the event unless that was tried before, and goes on with it after a pause. Called at each tick. Context: signal. */
void faults_watch(void);
/* Stores the fault that the signal is about; false if it is unknown. Context: signal. */
bool faults_take(struct fault *out);
/* Enables the event for one more fault. Context: signal. */
void faults_go_on(void);
/* Closes the event. Context: signal. */
void faults_ignore(void);
/* A forked child has none of its parent's events. Context: signal. */
void faults_postfork_child(void);

#pragma GCC visibility pop

#endif
