/* Where CPython keeps what a stack walk needs: one row per version (x86-64 and other LP64, release builds with a GIL).
 * Offsets in bytes, -1 = does not exist. Measured with offsetof against the headers of 3.10.13, 3.11.7, 3.12.1 and
 * 3.13.0, and checked by tests/test_layout.py against the headers of the interpreters that are installed. 3.14: from its debug
 * offsets where it publishes them, the rest from its headers; not tested. */
#ifndef SCALENE_TRACE_PYLAYOUT_H
#define SCALENE_TRACE_PYLAYOUT_H

#include <stdint.h>

struct python_layout {
  uint32_t version;  /* major << 8 | minor */
  int tstate_frame;  /* PyThreadState: the current frame, or */
  int tstate_cframe; /* the _PyCFrame that holds it, at */
  int cframe_frame;  /* this offset; behind it lies the pointer to the _PyCFrame before */
  int tstate_interp;
  int tstate_next;
  int tstate_thread;  /* thread_id: pthread_self() of the thread */
  int interp_threads; /* PyInterpreterState: the first thread state; -1: not known */
  int tstate_chunk;   /* newest chunk of the frame stack: previous at 0, size at 8; -1: frames are heap objects */
  int interp_gc;      /* PyInterpreterState: gc.collecting (int) */
  int interp_next;    /* PyInterpreterState: next */
  int frame_bytes;    /* how much of a frame to read */
  int frame_code;
  int frame_previous;
  int frame_instruction; /* 3.10: int32 f_lasti in units; later: pointer into the bytecode */
  int frame_owner;       /* int8; -1: frames have no owner */
  int code_bytes;        /* how much of a code object to read, without the bytecode */
  int code_flags;
  int code_first_line;
  int code_file;
  int code_name;
  int code_version; /* uint32 that no other code object of the process has had; -1: there is none */
  int code_line_table;
  int code_bytecode;        /* 3.10: pointer to a bytes object; later: the bytecode itself, inline */
  int code_first_traceable; /* int32 index of the first instruction that is not frame set-up */
  int ascii_data;           /* compact str objects: where the characters begin, ASCII */
  int compact_data;         /* ... and other compact strings */
  int runtime_interpreters; /* _PyRuntime: interpreters.head */
  int interp_modules;       /* PyInterpreterState: the dict of modules; -1: tasks are not looked for */
  int tstate_dict;          /* PyThreadState: its dict; up to 3.12 the running event loop is in it */
  int tstate_loop;          /* ... or the running event loop itself; -1: it is in the dict */
  int generator_frame;      /* generators and coroutines: the frame; 3.10: pointer to it */
  int generator_state;      /* int8: is it suspended? 3.10: of the frame */
  int frame_depth;          /* int32: slots in use from frame_values on */
  int frame_values;         /* where its slots begin; 3.10: pointer to them */
  uintptr_t code_mask;      /* and this onto frame_code: 3.14 tags the pointer */
};

/* The row for PY_VERSION_HEX; null: not known here. `runtime`: the first RUNTIME_BYTES of _PyRuntime. */
#define RUNTIME_BYTES 512
#pragma GCC visibility push(hidden)
const struct python_layout *pylayout_for(uint32_t version, const char *runtime);
#pragma GCC visibility pop

#define OWNER_GENERATOR 1
#define OWNER_NO_CODE 3 /* from here on: entry frames of the C stack, without a code object */
#define STR_LENGTH 16
#define STR_HASH 24
#define STR_STATE 32
#define BYTES_SIZE 16
#define BYTES_DATA 32
#define OBJECT_TYPE 8
#define VAR_SIZE 16

#endif
