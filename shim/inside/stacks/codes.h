/* Code objects that are known to be the ones that were verified: nothing has been freed or allocated at their addresses
 * since. A stack of such code objects is named without reading them, so without system calls. */
#ifndef SCALENE_TRACE_STACKS_CODES_H
#define SCALENE_TRACE_STACKS_CODES_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* What the allocation hooks do for an address whose free must be reported: `begin` and `end` are called in pairs.
 * And what they know: the id of the block of Python's allocators that begins there, has at least so many bytes and
 * is not freed; 0 = there is none. Context: malloc. */
struct codes_watch {
  void (*begin)(uintptr_t address);
  void (*end)(uintptr_t address);
  uint64_t (*living_block)(uintptr_t address, size_t bytes);
};
/* Code objects are known from now on. The caller reports with codes_changed every block that is allocated from now
 * on, and every free of a watched address. Null = none is known from now on. Context: malloc. */
void codes_follow(const struct codes_watch *watch);
/* True: the hooks see the addresses that Python's allocators give. Otherwise no code object is known. Context:
 * malloc. */
void codes_addresses_seen(bool seen);
/* True if code objects may be known now. Context: malloc. */
bool codes_followed(void);
/* The code object was just verified, by a read. Context: malloc. */
void codes_verified(uintptr_t code);
/* True if the code object is the one that was verified. Context: malloc. */
bool codes_known(uintptr_t code);
/* True if such a block of Python's allocators is alive. Context: malloc. */
bool codes_block_lives(uintptr_t address, size_t bytes);
/* A bit for each address that has been that of a known code object, by CODES_MARK: most blocks are at none of them. */
#define CODES_MARKS ((size_t)1 << 16)
#define CODES_MARK(address) ((address) >> 4 & (CODES_MARKS - 1))
extern _Atomic uint64_t codes_marks[CODES_MARKS / 64];
/* The slow path of codes_changed. Context: malloc. */
void codes_changed_marked(uintptr_t address);
/* A block at this address was allocated, or is freed next. Context: malloc. */
static inline void codes_changed(uintptr_t address) {
  size_t mark = CODES_MARK(address);
  uint64_t marks = atomic_load_explicit(&codes_marks[mark / 64], memory_order_relaxed);
  if (unlikely(marks >> mark % 64 & 1)) codes_changed_marked(address);
}
/* Forgets the code objects in [start, end), where memory is unmapped. Context: malloc. */
void codes_forget_range(uintptr_t start, uintptr_t end);
/* Forgets all code objects, because some change was not observed. Context: malloc. */
void codes_forget(void);
/* Returns a number that is another one after any code object was forgotten. Context: malloc. */
uint64_t codes_generation(void);
/* Forgets all code objects of the parent, whose watches no longer exist. Context: malloc. */
void codes_postfork_child(void);

#pragma GCC visibility pop

#endif
