/* What the ticks of short intervals cost, so that they leave the program its share of the CPU. */
#ifndef SCALENE_TRACE_CPU_COST_H
#define SCALENE_TRACE_CPU_COST_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Returns the shortest mean interval at which the ticks of this process leave the program a third of its CPU time, in ns;
 * 0 = none is known. Context: signal. */
int64_t cost_shortest_mean_ns(void);
/* A handler of a tick begins. Returns the thread's CPU time in ns, for cost_end; 0 = the interval is so long that the cost
 * is not measured. Context: signal. */
int64_t cost_begin(void);
/* It ends; the next tick is due after `period_ns` of CPU time. Context: signal. */
void cost_end(int64_t began_ns, int64_t period_ns);

#pragma GCC visibility pop
#endif
