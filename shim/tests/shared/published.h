/* The offsets that 3.14.10 publishes at the start of _PyRuntime, as far as pylayout.c uses them. */
#ifndef SCALENE_TRACE_TESTS_SHARED_PUBLISHED_H
#define SCALENE_TRACE_TESTS_SHARED_PUBLISHED_H

#include "shared/base.h"
#include "shared/stacks/pylayout.h"

#define PUBLISHED_VERSION 0x030e0af0
#define PUBLISHED_RUNTIME_BYTES 200000
#define PUBLISHED_INTERPRETER_BYTES 150000
/* Position in the table, and offset. */
static const int published_314[][2] = {
    {40, 808},  {64, 7272}, {72, 7344}, {88, 7408}, {96, 7688}, {160, 7992}, {176, 832}, {192, 8},  {200, 16},
    {208, 72},  {216, 152}, {232, 232}, {256, 8},   {264, 0},   {272, 56},   {280, 80},  {288, 74}, {296, 64},
    {320, 112}, {336, 128}, {344, 136}, {352, 68},  {384, 208}, {640, 40},   {656, 192}, {680, 72}, {688, 67}};
#define PUBLISHED (sizeof published_314 / sizeof *published_314)

static inline void published_put(char *runtime, int at, uint64_t value) { memcpy(runtime + at, &value, sizeof value); }

static inline void published_fill(char runtime[RUNTIME_BYTES]) {
  memset(runtime, 0, RUNTIME_BYTES);
  memcpy(runtime, "xdebugpy", 8);
  published_put(runtime, 8, PUBLISHED_VERSION);
  published_put(runtime, 24, PUBLISHED_RUNTIME_BYTES);
  published_put(runtime, 48, PUBLISHED_INTERPRETER_BYTES);
  for (size_t i = 0; i < PUBLISHED; i++) published_put(runtime, published_314[i][0], (uint64_t)published_314[i][1]);
}

#endif
