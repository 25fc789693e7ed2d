/* Python objects of another process: the one that stack_aim aimed at. */
#ifndef SCALENE_TRACE_WATCH_READING_REMOTE_H
#define SCALENE_TRACE_WATCH_READING_REMOTE_H

#include "shared/base.h"
#include "shared/stacks/target.h"

#pragma GCC visibility push(hidden)

/* The process whose memory is read, and the thread that the records name: set by stack_aim. */
extern struct stack_target target;

enum kind {
  KIND_OTHER,
  KIND_DICT,
  KIND_SET,
  KIND_STR,
  KIND_INT,
  KIND_REFERENCE,
  KIND_TASK,
  KIND_HOLDER, /* of the running event loop */
  KIND_COROUTINE,
  KIND_GENERATOR,
  KIND_ASYNC_GENERATOR,
  KIND_WRAPPER /* stands for the object that it holds first */
};
#define KINDS 64
/* The types that were met in a process. */
struct kinds {
  uint32_t count; /* more than KINDS: some were replaced */
  struct {
    uintptr_t type;
    enum kind kind;
  } known[KINDS];
};

uintptr_t remote_word(uintptr_t address); /* 0 = not readable */
/* `size` bytes from each of `count` addresses, one behind the other; zeros where they cannot be read. */
void remote_read_each(char *to, const uintptr_t *from, int count, size_t size);
enum kind remote_kind(struct kinds *kinds, uintptr_t type);
size_t remote_instance_bytes(uintptr_t type);
/* The value of a key that is a str of at most 32 characters; 0 = none. */
uintptr_t remote_find(struct kinds *kinds, uintptr_t dict, const char *name);
uintptr_t remote_first_attribute(struct kinds *kinds, uintptr_t object);
uintptr_t remote_main_interpreter(uintptr_t runtime);

#pragma GCC visibility pop

#endif
