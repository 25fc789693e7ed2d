/* The layout of CPython's structures as far as a stack walk needs it: one row per version (LP64, release builds), and from
 * 3.13 on another one for its free-threaded build.
 *
 * Walks read these structures from signal handlers and from another process, where Python's API cannot be called.
 * Offsets are in bytes; -1 = the field does not exist. They were measured with offsetof against the headers of 3.10.13,
 * 3.11.7, 3.12.1, 3.13.0, 3.14.10 and 3.15.2, and tests/unit/formats/test_cpython_layout.py checks them against the
 * headers of the interpreters that it finds. 3.14 and 3.15 publish most of their offsets, which differ between patch
 * releases; those replace the ones of our table. */
#ifndef SCALENE_TRACE_PYLAYOUT_H
#define SCALENE_TRACE_PYLAYOUT_H

#include <stdbool.h>
#include <stdint.h>

struct python_layout {
  uint32_t version;  /* major << 8 | minor */
  int tstate_frame;  /* PyThreadState: the current frame */
  int tstate_cframe; /* PyThreadState: the _PyCFrame that holds the current frame, if tstate_frame is -1 */
  int cframe_frame;  /* _PyCFrame: the current frame; the pointer to the previous _PyCFrame follows it */
  int tstate_interp;
  int tstate_next;
  int tstate_thread;  /* thread_id: pthread_self() of the thread */
  int interp_threads; /* PyInterpreterState: the first thread state; -1 = unknown */
  int tstate_chunk;   /* newest chunk of the frame stack: previous at 0, size at 8; -1 = frames are heap objects */
  int interp_gc;      /* PyInterpreterState: gc.collecting (int) */
  int gc_counts;      /* distance from there to the counts of collections; from 3.15 on to a pointer to them */
  int interp_next;    /* PyInterpreterState: next */
  int frame_bytes;    /* number of bytes of a frame to read */
  int frame_code;
  int frame_previous;
  int frame_instruction; /* 3.10: int32 f_lasti in 2-byte units; later: pointer into the bytecode */
  int frame_owner;       /* int8; -1 = frames have no owner (3.10) */
  int code_bytes;        /* number of bytes of a code object to read, without the bytecode */
  int code_flags;
  int code_first_line;
  int code_file;
  int code_name;
  int code_version; /* uint32 that no other code object of the process ever has; -1 = there is none */
  int code_line_table;
  int code_bytecode;        /* 3.10: pointer to a bytes object; later: the bytecode itself, inline */
  int code_first_traceable; /* int32 index of the first instruction that is not frame set-up */
  int ascii_data;           /* offset of the characters in compact ASCII str objects */
  int compact_data;         /* the same in other compact str objects */
  int runtime_interpreters; /* _PyRuntime: interpreters.head */
  int interp_modules;       /* PyInterpreterState: the dict of modules */
  int tstate_dict;          /* PyThreadState: its dict, which holds the running event loop up to 3.12 */
  int tstate_context;       /* PyThreadState: the current context of context variables */
  int tstate_loop;          /* PyThreadState: the running event loop; -1 = it is in the dict */
  int generator_frame;      /* generators and coroutines: the frame; 3.10: a pointer to it */
  int generator_state;      /* int8 that says whether the generator is suspended; 3.10: a field of the frame */
  int frame_depth;          /* int32: number of value slots in use from frame_values on; -1 = see frame_top */
  int frame_top;            /* from 3.14 on: pointer behind the last value slot in use */
  int frame_values;         /* the value slots; 3.10: a pointer to them */
  int frame_locals;         /* the first local variable */
  int type_cached_keys;     /* types of classes: the keys of instances that have no dict of their own */
  int tstate_bytes;         /* from 3.14 on: size of PyThreadState. Fields that are not published follow it, */
  int tstate_tasks;         /* of which this is the head of a list of asyncio tasks; -1 = they are in a set */
  int interp_generation;    /* the same for PyInterpreterState: the last published field before */
  int interp_tasks;         /* its list of the tasks of threads that have ended */
  uintptr_t reference_mask; /* mask for the pointers in frames, which 3.14 tags */
  int object_header;        /* by how many bytes the header of an object is longer; not 0 = a free-threaded build */
  int str_shift;            /* by how many bits the kind and the flags of a str lie further up than in other builds */
  int frame_copy;           /* int32: number of the copy of the bytecode that the frame runs, 0 = the object's own; */
  int code_copies;          /* pointer to the array of these copies; 0 = there are none (both) */
};

/* True if frames are followed by addresses that are right only as long as nothing changes, which safe reads notice. */
static inline bool pylayout_needs_reads(const struct python_layout *layout) {
  return layout->tstate_frame < 0 || layout->object_header;
}

#define RUNTIME_BYTES 1024
#define GC_COUNTS_UNKNOWN 0
/* From 3.15 on, the counts of each generation are a ring of struct gc_generation_stats, to which each collection adds an
 * item with the sums so far. {collections, collected, uncollectable} lie at GC_RING_COUNTS in an item. */
#define GC_RINGS_BYTES 1120
#define GC_RING_ITEM 64
#define GC_RING_COUNTS 16
/* In a free-threaded build from 3.14 on, each thread has its own copies of bytecode. An array of them starts with its
 * length, then their addresses. */
#define COPIES_ADDRESSES 8
#pragma GCC visibility push(hidden)
/* Returns the layout for a PY_VERSION_HEX; null = a version or build that is not supported. `runtime` holds the first
 * RUNTIME_BYTES of _PyRuntime. The layouts from 3.14 on are put into `room`. */
const struct python_layout *pylayout_for(uint32_t version, const char *runtime, struct python_layout *room);
#pragma GCC visibility pop

/* In a free-threaded build these offsets, but the owner's, are larger by object_header. */
#define OWNER_GENERATOR 1
#define OWNER_NO_CODE 3 /* this owner and greater ones: entry frames of the C stack, without a code object */
#define STR_LENGTH 16
#define STR_HASH 24
#define STR_STATE 32
#define BYTES_SIZE 16
#define BYTES_HASH 24 /* -1 = it is not known yet */
#define BYTES_DATA 32
#define OBJECT_TYPE 8
#define VAR_SIZE 16

#endif
