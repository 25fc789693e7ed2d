/* In which of the two libraries the code runs inside a program, and what of it must last. */
#ifndef SCALENE_TRACE_SEALED_LASTING_H
#define SCALENE_TRACE_SEALED_LASTING_H

/* The library for processes that run already (inside/attached) exports only functions and a text that the recorder uses; calls of
 * malloc are led to it. LASTING marks what must outlive the time between two recordings of one process: calls that come late
 * still use it. */
#ifdef SHIM_ATTACHED
#define IS_ATTACHED 1
#define EXPORT __attribute__((visibility("hidden")))
#define LASTING __attribute__((section("kept")))
#else
#define IS_ATTACHED 0
#define EXPORT __attribute__((visibility("default")))
#define LASTING
#endif

#endif
