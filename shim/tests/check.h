/* What every unit test of the shim uses. */
#ifndef SCALENE_TRACE_TEST_CHECK_H
#define SCALENE_TRACE_TEST_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define check(condition)                                                                                               \
  ((condition) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), abort()))

#endif
