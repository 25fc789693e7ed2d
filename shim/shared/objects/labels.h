/* Labels of a request or a job: the value of a context variable of the module scalene_trace.recorder.labelled.
 *
 * A thread state leads to its current context, the context to a trie (HAMT, Hagberg and Bagwell) of its variables, whose
 * nodes never change once they are there. The value is a bytes object that begins with LABELS_MAGIC; the text follows:
 * pairs NAME=VALUE in UTF-8, separated by NUL. A walk takes one step for each piece of memory, so that the shim can make
 * it in place, and the watcher many at once by system calls. */
#ifndef SCALENE_TRACE_OBJECTS_LABELS_H
#define SCALENE_TRACE_OBJECTS_LABELS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

#define LABELS_MAGIC "\x93label1:" /* 8 bytes */
#define LABELS_MAGIC_BYTES 8
#define LABELS_MOST_BYTES 1024 /* of a text */
#define LABELS_NAME 16         /* bytes of the name of a type that matter */
#define LABELS_PIECE 40        /* bytes that a step uses at most */

enum label_state {
  LABEL_CONTEXT, /* the next piece is a field of a context, */
  LABEL_TRIE,    /* of a trie, */
  LABEL_NODE,    /* the head of a node, */
  LABEL_PAIR,    /* a variable and its value, or nothing and a node, */
  LABEL_CHILD,   /* the address of a node, */
  LABEL_VALUE,   /* the head of the value */
  LABEL_FOUND,   /* `at` is the address of the text, `bytes` its length */
  LABEL_NONE,    /* the variable has no value in this context */
  LABEL_UNREAD   /* the memory holds something else */
};
enum label_node { LABEL_NO_NODE, LABEL_BITMAP, LABEL_ARRAY, LABEL_COLLISION };
struct label_walk {
  uintptr_t variable; /* address of the ContextVar */
  uint32_t hash;      /* its hash, as tries use it */
  uint32_t shift;     /* bits of the hash that were used */
  uint32_t pairs;     /* of a collision: pairs that follow */
  uint32_t bytes;
  enum label_state state;
  uintptr_t at; /* address of the next piece */
};

/* Returns the walk from the context at `context` (0 = none); `hash`: what Python's hash() gives for the variable. Walks are
 * not made in free-threaded builds. Context: signal. */
struct label_walk labels_begin(uintptr_t context, uintptr_t variable, uint64_t hash);
/* Returns the number of bytes of the next piece; 0 = the walk has ended. Context: signal. */
static inline size_t labels_wants(const struct label_walk *walk) {
  static const uint8_t sizes[] = {8, 8, 32, 16, 8, 40, 0, 0, 0};
  return sizes[walk->state];
}
/* Returns the kind of node that a type with this name is of: a copy of its first LABELS_NAME bytes. Context: signal. */
enum label_node labels_node_kind(const char *name);
/* Takes a step; `piece` holds the piece's bytes. `kind`: of the node, whose type is the second word of the piece (state
 * LABEL_NODE). Context: signal. */
void labels_step(struct label_walk *walk, const char *piece, enum label_node kind);
/* Returns the hash of a text, and writes the text to the spool, as that of a type, if this process has not; 0 = it was lost.
 * `thread` is the id that the record names. Context: signal. */
uint64_t labels_hash(const char *text, uint32_t bytes, uint32_t thread);

#pragma GCC visibility pop

#endif
