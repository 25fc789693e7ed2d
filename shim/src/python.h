/* What python.c knows of the interpreter, for frames.c, images.c and dictionary.c. */
#ifndef SCALENE_TRACE_PYTHON_H
#define SCALENE_TRACE_PYTHON_H

#include "pylayout.h"
#include "shim.h"

#pragma GCC visibility push(hidden)

struct address_range {
  uintptr_t start, end;
  uint32_t flag; /* TICK_* that a return address inside stands for */
};

#define MAX_CALL_RANGES 32
struct python_symbols {
  struct address_range eval; /* _PyEval_EvalFrameDefault */
  struct address_range call[MAX_CALL_RANGES];
  int calls;
  uintptr_t code_type; /* PyCode_Type */
  uintptr_t type_type; /* PyType_Type */
  uintptr_t runtime;   /* _PyRuntime, */
  size_t runtime_bytes;
};
extern struct python_symbols python_symbols;

/* The calling thread has a Python thread state, of whatever version. Context: signal. */
bool python_thread_known(void);
/* 3.10 and 3.11: more than one interpreter, so that the GIL-state lookup may find the wrong one. Context: signal. */
bool python_sub_interpreters(void);

#pragma GCC visibility pop

#endif
