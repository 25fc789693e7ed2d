/* A stand-in for CUDA's driver library, for tests: a call that waits as CUDA does by default, by spinning. No GPU is there. */
#include <time.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int cuCtxSynchronize(double for_seconds) {
    for (double end = seconds() + for_seconds; seconds() < end;)
        continue;
    return 0;
}
