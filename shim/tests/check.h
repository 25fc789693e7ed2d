/* check(): the assertion of the shim's unit tests. It prints the condition that failed and aborts. */
#ifndef SCALENE_TRACE_TEST_CHECK_H
#define SCALENE_TRACE_TEST_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define check(condition)                                                                                               \
  ((condition) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), abort()))

#endif
