/* Which interpreter is in this process, and where its fields are. */
#ifndef SCALENE_TRACE_PYTHON_PYTHON_H
#define SCALENE_TRACE_PYTHON_PYTHON_H

#include "shared/base.h"
#include "shared/stacks/pylayout.h"

#pragma GCC visibility push(hidden)

extern const struct python_layout *python_layout; /* null = no Python, or unknown */
extern uint32_t python_version;                   /* PY_VERSION_HEX, 0 = no Python in this image */
/* Finds the interpreter among the loaded images. Context: normal. */
void python_init(void);
/* The calling thread's PyThreadState, null if none. Context: signal. */
void *python_thread_state(void);
/* Is the interpreter taking itself apart, or has it? Context: signal. */
bool python_finalizing(void);

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
