/* Stand-ins for the rest of the shim, for tests of images.c and of what builds on it. */
#ifndef SCALENE_TRACE_TESTS_NATIVE_STAND_INS_H
#define SCALENE_TRACE_TESTS_NATIVE_STAND_INS_H

#include "formats/spool/spool.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/python/late.h"
#include "inside/python/python.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/spool.h"

struct spool_header *spool;
struct next_functions next;
THREAD_LOCAL struct thread_state this_thread;
THREAD_LOCAL struct thread_stack this_stack;
struct python_symbols python_symbols;
bool python_at_load = true;
bool late_before_close(void) { return false; }
void late_after_close(void) {}
void *spool_claim(unsigned slots) { return (void)slots, NULL; }
void spool_publish(void *record, unsigned kind, unsigned slots) { (void)record, (void)kind, (void)slots; }
void next_resolve(void) {}
void loss_add(enum loss loss) { (void)loss; }

#endif
