/* Mixing the bits of a number, for tables that are indexed by it. */
#ifndef SCALENE_TRACE_ACCOUNTS_HASH_H
#define SCALENE_TRACE_ACCOUNTS_HASH_H

#include "shared/base.h"

/* Addresses are regular, and a single multiplication keeps them so. This is the finalizer of MurmurHash3 (Appleby).
 * Context: signal. */
static inline uint64_t hash_mixed(uint64_t hash) {
  hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdu;
  hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53u;
  return hash ^ hash >> 33;
}

#endif
