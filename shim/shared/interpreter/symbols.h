/* The functions and types of an interpreter by which native stacks are read. */
#ifndef SCALENE_TRACE_SHARED_INTERPRETER_SYMBOLS_H
#define SCALENE_TRACE_SHARED_INTERPRETER_SYMBOLS_H

#include "shared/base.h"
#include "shared/interpreter/place.h"

#pragma GCC visibility push(hidden)

struct address_range {
  uintptr_t start, end;
  uint32_t flag; /* TICK_* flags of a return address in this range */
};

/* The flag of a range that runs at the end of a call, whatever was called (3.10). */
#define CALL_ENDS (TICK_PYFRAME | TICK_TYPE_CALL)
#define MAX_CALL_RANGES 32
#define OWN_SLOTS 3  /* the first of `own` */
#define OWN_MAKING 6 /* the first of `own` that make an instance or call one */
#define MAX_OWN 8
#define MAX_BUILTINS 128
struct python_symbols {
  struct address_range eval;      /* _PyEval_EvalFrameDefault */
  struct address_range eval_part; /* what the compiler has put elsewhere of it */
  struct address_range call[MAX_CALL_RANGES];
  int calls;
  uintptr_t type_call;             /* through which types are called */
  uintptr_t bound_call;            /* through which bound methods of Python functions are called; 0 = not found */
  uintptr_t own[MAX_OWN];          /* what the call of an object calls on behalf of Python code; 0 = not found */
  bool slots_known;                /* `own` is complete: what else an object calls through a pointer is written in C */
  uintptr_t builtin[MAX_BUILTINS]; /* through which C functions and types written in C are called */
  int builtins;
  uintptr_t code_type;       /* PyCode_Type */
  uintptr_t type_type;       /* PyType_Type */
  struct address_range data; /* the segment that contains it; empty if the interpreter may be unloaded */
  uintptr_t runtime;         /* _PyRuntime */
  size_t runtime_bytes;
};
extern struct python_symbols python_symbols;

/* True if an address is in the bytecode loop. Context: signal. */
static inline bool python_in_loop(uintptr_t address) {
  const struct address_range *eval = &python_symbols.eval, *part = &python_symbols.eval_part;
  return address - eval->start < eval->end - eval->start || address - part->start < part->end - part->start;
}

/* An interpreter of which symbols are looked for. */
struct interpreter {
  struct interpreter_place place;
  uint32_t version; /* PY_VERSION_HEX */
  /* Returns the range of what it exports under a name, where it is read; 0, 0 = nothing. */
  struct address_range (*symbol)(const char *name);
  const char *path; /* its file, for the static functions of 3.10; null = do not look for them. Its load bias, */
  uintptr_t bias;   /* where it is read */
};
/* Finds everything but `data`. All addresses are those where the interpreter is read. Context: normal. */
void symbols_find(const struct interpreter *from, struct python_symbols *out);

#pragma GCC visibility pop

#endif
