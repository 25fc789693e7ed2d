/* Whose stacks are read, and for whom. */
#ifndef SCALENE_TRACE_STACKS_TARGET_H
#define SCALENE_TRACE_STACKS_TARGET_H

#include "shared/base.h"
#include "shared/stacks/pylayout.h"

/* Everything that chain.c and dictionary.c need to know of the interpreter that they read. In the program it is the
 * program's own, in the watcher that of the process that is being read. */
struct stack_target {
  const struct python_layout *layout;
  uintptr_t code_type; /* PyCode_Type */
  uint64_t salt;       /* tells addresses of several processes apart; 0 in the program, which reads one */
  uint32_t version;    /* PY_VERSION_HEX */
  uint32_t thread;     /* id of the thread that the records name */
};

#endif
