/* A stand-in for CUDA's driver library, for tests: a call that waits as CUDA does by default, by spinning. No GPU is there.
 * Its argument is a whole number, as all arguments of watched functions are: others are not passed on. */
#include <time.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int cuCtxSynchronize(unsigned long for_ms) {
    for (double end = seconds() + (double)for_ms / 1e3; seconds() < end;)
        continue;
    return 0;
}
