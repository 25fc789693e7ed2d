/* Hashes of 64 bits: names of records by their content, and indices of tables of stacks and blocks. */
#ifndef SCALENE_TRACE_STACKS_HASH_H
#define SCALENE_TRACE_STACKS_HASH_H

#include "shared/base.h"

/* Addresses are regular, and a single multiplication keeps them so. This is the finalizer of MurmurHash3 (Appleby).
 * Context: signal. */
static inline uint64_t hash_mixed(uint64_t hash) {
  hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdu;
  hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53u;
  return hash ^ hash >> 33;
}

/* A hash of two numbers in this order. Context: signal. */
static inline uint64_t hash_pair(uint64_t a, uint64_t b) {
  unsigned __int128 product = (unsigned __int128)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xbf58476d1ce4e5b9u);
  return (uint64_t)product ^ (uint64_t)(product >> 64) ^ (a << 7) ^ b;
}

/* Hashes that name a record are never 0, which stands for none. Context: signal. */
static inline uint64_t hash_not_zero(uint64_t hash) { return hash ? hash : 1; }

#endif
