/* The offsets that 3.14.10 and 3.15.2 publish at the start of _PyRuntime, as far as pylayout.c uses them. */
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
#define PUBLISHED_VERSION_315 0x030f02f0
static const int published_315[][2] = {
    {40, 936}, {64, 7264}, {72, 7336}, {88, 7400},  {96, 7592}, {160, 7944}, {176, 888}, {192, 8},
    {200, 16}, {208, 72},  {240, 176}, {256, 256},  {320, 8},   {328, 0},    {336, 56},  {344, 80},
    {352, 74}, {360, 64},  {384, 112}, {400, 128},  {408, 136}, {416, 68},   {448, 208}, {536, 888},
    {736, 40}, {744, 56},  {760, 112}, {776, 1120}, {784, 104}, {808, 72},   {816, 67}};

static inline void published_put(char *runtime, int at, uint64_t value) { memcpy(runtime + at, &value, sizeof value); }

static inline void published_fill_with(char *runtime, uint64_t version, const int (*table)[2], size_t count) {
  memset(runtime, 0, RUNTIME_BYTES);
  memcpy(runtime, "xdebugpy", 8);
  published_put(runtime, 8, version);
  published_put(runtime, 24, PUBLISHED_RUNTIME_BYTES);
  published_put(runtime, 48, PUBLISHED_INTERPRETER_BYTES);
  for (size_t i = 0; i < count; i++) published_put(runtime, table[i][0], (uint64_t)table[i][1]);
}

static inline void published_fill(char runtime[RUNTIME_BYTES]) {
  published_fill_with(runtime, PUBLISHED_VERSION, published_314, PUBLISHED);
}

static inline void published_fill_315(char runtime[RUNTIME_BYTES]) {
  published_fill_with(runtime, PUBLISHED_VERSION_315, published_315, sizeof published_315 / sizeof *published_315);
}

/* What free-threaded builds of 3.14 and 3.15 publish otherwise. */
static const int published_free_threaded_314[][2] = {{16, 1},    {88, 7408}, {96, 7712}, {160, 8024}, {288, 78},
                                                     {304, 72},  {320, 128}, {336, 144}, {344, 152},  {352, 84},
                                                     {384, 232}, {392, 224}, {640, 56},  {680, 88},   {688, 83}};
static const int published_free_threaded_315[][2] = {{16, 1},    {160, 7952}, {352, 78}, {368, 72},  {384, 128},
                                                     {400, 144}, {408, 152},  {416, 84}, {448, 232}, {456, 224},
                                                     {536, 904}, {736, 56},   {744, 72}, {808, 88},  {816, 83}};

static inline void published_fill_free_threaded(char runtime[RUNTIME_BYTES], bool is_315) {
  if (is_315) published_fill_315(runtime);
  if (!is_315) published_fill(runtime);
  const int (*table)[2] = is_315 ? published_free_threaded_315 : published_free_threaded_314;
  size_t count = is_315 ? sizeof published_free_threaded_315 / sizeof *published_free_threaded_315
                        : sizeof published_free_threaded_314 / sizeof *published_free_threaded_314;
  for (size_t i = 0; i < count; i++) published_put(runtime, table[i][0], (uint64_t)table[i][1]);
}

#endif
