/* The kernel's own clock, where a preloaded library has put one of its own before libc's. */
#ifndef SCALENE_TRACE_CORE_KERNEL_CLOCK_H
#define SCALENE_TRACE_CORE_KERNEL_CLOCK_H

#pragma GCC visibility push(hidden)

/* From now on the shim reads the kernel's clock if the process's clock_gettime is not libc's: libfaketime says another time.
 * Where the recorder does not read the kernel's clock either, nothing changes. Call it when the spool is open. Context: normal. */
void kernel_clock_ensure(void);

#pragma GCC visibility pop

#endif
