/* The kernel's own clock, where a preloaded library has put one of its own before libc's. */
#ifndef SCALENE_TRACE_CORE_KERNEL_CLOCK_H
#define SCALENE_TRACE_CORE_KERNEL_CLOCK_H

#pragma GCC visibility push(hidden)

/* From now on the shim reads the kernel's clock if the process's clock_gettime is not libc's: libfaketime says another time,
 * and the recorder's times are the kernel's. Context: normal. */
void kernel_clock_ensure(void);

#pragma GCC visibility pop

#endif
