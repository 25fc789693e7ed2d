/* Reads Python objects of another process: the one that stack_aim has chosen. Only the watcher's thread calls these
 * functions. */
#ifndef SCALENE_TRACE_WATCH_READING_REMOTE_H
#define SCALENE_TRACE_WATCH_READING_REMOTE_H

#include "shared/base.h"
#include "shared/stacks/target.h"

#pragma GCC visibility push(hidden)

/* The interpreter whose memory is read, and the thread that the records name. stack_aim sets it. */
extern struct stack_target target;

/* The types of objects that the watcher distinguishes. */
enum kind {
  KIND_OTHER,
  KIND_DICT,
  KIND_SET,
  KIND_STR,
  KIND_INT,
  KIND_REFERENCE,
  KIND_TASK,
  KIND_HOLDER, /* _RunningLoopHolder: holds the running event loop */
  KIND_COROUTINE,
  KIND_GENERATOR,
  KIND_ASYNC_GENERATOR,
  KIND_FRAME,
  KIND_GREENLET,
  KIND_TRIE_BITMAP, /* nodes of the trie of a context's variables */
  KIND_TRIE_ARRAY,
  KIND_TRIE_COLLISION,
  KIND_WRAPPER /* an awaitable that wraps another one, in its first field */
};
#define KINDS 64
/* A cache of the types that were seen in a process. */
struct kinds {
  uint32_t count; /* number of types that were stored; if more than KINDS, the oldest were replaced */
  struct {
    uintptr_t type;
    enum kind kind;
  } known[KINDS];
};

/* Returns the 8-byte word at `address`; 0 = not readable. */
uintptr_t remote_word(uintptr_t address);
/* Reads `size` bytes from each of `count` addresses into `to`, one after the other. Pieces that cannot be read are
 * zero. */
void remote_read_each(char *to, const uintptr_t *from, int count, size_t size);
/* Returns the kind of the objects of a type, whose address is `type`. */
enum kind remote_kind(struct kinds *kinds, uintptr_t type);
/* Returns the address of the first base of a type; 0 = it has none. */
uintptr_t remote_base(uintptr_t type);
/* Returns the basic size of instances of the type in bytes; 0 = unknown or implausible. */
size_t remote_instance_bytes(uintptr_t type);
/* Returns the address of the value under `name`, an ASCII key of at most 32 characters; 0 = none. */
uintptr_t remote_find(struct kinds *kinds, uintptr_t dict, const char *name);
/* Returns the address of the value under the int `number`, which is not negative and less than 2^61 - 1; 0 = none. */
uintptr_t remote_find_number(struct kinds *kinds, uintptr_t dict, uint64_t number);
/* Returns the address of the main interpreter's state; 0 = not found. `runtime` is the address of _PyRuntime. */
uintptr_t remote_main_interpreter(uintptr_t runtime);

#pragma GCC visibility pop

#endif
