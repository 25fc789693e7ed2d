/* The Python interpreter of this process: its version, its layout and the addresses of its symbols. */
#ifndef SCALENE_TRACE_PYTHON_PYTHON_H
#define SCALENE_TRACE_PYTHON_PYTHON_H

#include "shared/base.h"
#include "shared/stacks/pylayout.h"

#pragma GCC visibility push(hidden)

extern const struct python_layout *python_layout; /* null = no Python, or an unsupported version or build */
extern uint32_t python_version;                   /* PY_VERSION_HEX; 0 = no Python in this image */
extern bool python_at_load;                       /* it was found when the shim was loaded, so it is never unloaded */
/* Finds the interpreter among the loaded images and sets the variables of this header. Context: normal. */
void python_init(void);
struct elf_image;
/* The same for an interpreter that was loaded later, in this image. Context: normal. */
void python_find_in(const struct elf_image *image);
/* Forgets that interpreter after it was unloaded. Threads may still use `python_layout`. Context: signal. */
void python_forget(void);
/* Returns the address of a symbol of the interpreter; null = there is none. Context: normal. */
void *python_symbol(const char *name);
/* Returns the calling thread's PyThreadState; null = it has none, or it may have been freed. Context: signal. */
void *python_thread_state(void);
/* True if the calling thread holds the GIL, as far as the interpreter knows: once there were sub-interpreters, it takes
 * every thread for one that does. Context: signal. */
bool python_holds_gil(void);
/* True once the interpreter has begun to finalize, and after that; the first such answer is told to the recorder.
 * Context: signal. */
bool python_finalizing(void);

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

/* True if the calling thread has a Python thread state, even if the version is not supported. Context: signal. */
bool python_thread_known(void);
/* True if the process has only the interpreter of this thread state, which is the calling thread's, and no other one was
 * noticed before. Then a thread inside one of Python's allocators is the only one that frees objects. Context: malloc. */
bool python_is_alone(const char *state);
/* True on 3.10 and 3.11 if there is more than one interpreter: the GIL-state lookup may then return a thread state of
 * the wrong one. Context: signal. */
bool python_sub_interpreters(void);

#pragma GCC visibility pop

#endif
