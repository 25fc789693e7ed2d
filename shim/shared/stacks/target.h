/* The interpreter whose stacks are read. */
#ifndef SCALENE_TRACE_STACKS_TARGET_H
#define SCALENE_TRACE_STACKS_TARGET_H

#include "shared/base.h"
#include "shared/stacks/pylayout.h"

/* Everything that chain.c and dictionary.c need to know about the interpreter whose stacks they read: in the shim that
 * of its own process, in the watcher that of the observed process. */
struct stack_target {
  const struct python_layout *layout;
  uintptr_t code_type; /* PyCode_Type */
  uint64_t salt;       /* distinguishes addresses of different processes; 0 in the shim, which reads only its own */
  uint32_t version;    /* PY_VERSION_HEX */
  uint32_t thread;     /* id of the thread that the records name */
  uint64_t label;      /* hash of the label that stacks get (objects/labels.h); 0 = none */
};

#endif
