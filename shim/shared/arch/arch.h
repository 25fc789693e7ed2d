/* The processor: everything in the shim and the watcher that differs between x86-64 and arm64. No other file asks which
 * one it is. The registers, instructions and other facts are in the file of each processor, under equal names
 * (docs/design/arm64.md). */
#ifndef SCALENE_TRACE_SHARED_ARCH_ARCH_H
#define SCALENE_TRACE_SHARED_ARCH_ARCH_H

#if defined(__x86_64__) && !defined(__ILP32__) && defined(__linux__)
#include "shared/arch/x86_64.h"
#elif defined(__aarch64__) && !defined(__ILP32__) && !defined(__AARCH64EB__) && defined(__linux__)
#include "shared/arch/aarch64.h"
#else
#error "scalene-trace supports Linux on x86-64 and arm64 only: it decodes call instructions and reads registers"
#endif

#endif
