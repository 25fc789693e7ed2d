/* Working memory for reading a stack. It is not on the C stack, because signal handlers have little of it. */
#ifndef SCALENE_TRACE_STACKS_SCRATCH_H
#define SCALENE_TRACE_STACKS_SCRATCH_H

#include <sys/uio.h>

#include "shared/base.h"
#include "shared/saferead.h"

#define MAX_FRAMES 512
#define STACK_WORDS 560     /* for reading the native stack */
#define MAX_CODE_BYTES 232  /* of a code object, without its bytecode */
#define MAX_FRAME_BYTES 128 /* of a frame, at most */
#define IDENTITY_PIECES 2   /* of a code object without a version: what is copied to know it again (dictionary.h) */
#define IDENTITY_BYTES 80
struct frame_entry {
  uintptr_t frame;
  uintptr_t code;
  uint64_t hash; /* of the code object; 0 = unknown yet */
  uint64_t node; /* hash of the node: the stack up to this frame */
  int32_t instruction;
  int32_t owner;
};
struct scratch {
  _Atomic uint32_t owner; /* 0 = free */
  uint32_t frames;
  uint32_t walks;  /* number of walks with this scratch: decides which outer frames are verified again */
  bool verify_all; /* all frames are verified in this walk */
  struct frame_entry entry[MAX_FRAMES];
  struct iovec work[SAFE_READ_MANY * IDENTITY_PIECES];
  char copy[MAX_FRAME_BYTES]; /* bytes of the frame that is being read */
  union {
    uint64_t words[STACK_WORDS];
    struct {
      char codes[SAFE_READ_MANY * MAX_CODE_BYTES];
      char identities[SAFE_READ_MANY * IDENTITY_BYTES];
    };
  };
};

#endif
