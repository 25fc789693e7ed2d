/* The records of a spool: what the shim and the watcher write into its chunks. spool.h includes this file and says how
 * records are written and read. */
#ifndef SCALENE_TRACE_SPOOL_RECORDS_H
#define SCALENE_TRACE_SPOOL_RECORDS_H

#include <stdint.h>

/* The head of a record is kind | slots << 16, where slots is the length of the record in slots. */
#define RECORD_PROCESS_START 1
#define RECORD_PROCESS_END 2
#define RECORD_THREAD_START 3
#define RECORD_THREAD_END 4
#define RECORD_TICK 5
#define RECORD_MEMORY 6
#define RECORD_NODE 7
#define RECORD_CODE 8
#define RECORD_MODULE 9
#define RECORD_ALLOC 10
#define RECORD_FREE 11
#define RECORD_NOTE 12
#define RECORD_TYPE 13
#define RECORD_COPY 14
#define RECORD_GC 15
#define RECORD_HEAP 16
#define SPOOL_PAD 17 /* not a record: claimed slots that hold no data */
#define RECORD_WAIT 18
#define RECORD_TASK 19
#define RECORD_DEVICE_CALL 20
#define RECORD_DEVICE_BLOCK 21
#define RECORD_NATIVE 22
#define RECORD_REAPED 23
#define RECORD_THREAD_NAME 24
#define RECORD_BRIEF 25
#define RECORD_EVENTS 26
#define SPOOL_OPEN_EVENTS 27 /* a record_events to which its process may still add events */

#define CAUSE_ROOT 1      /* the command that scalene-record started */
#define CAUSE_FORK 2      /* fork, _Fork or clone; the parent is recorded too */
#define CAUSE_EXEC 3      /* a new image in the same process */
#define CAUSE_SPAWN 4     /* a new process, first seen in this image (vfork + exec, posix_spawn) */
#define START_OF_PYTHON 5 /* no start: the process has loaded an interpreter, and its start record names none */
#define START_OF_MEMORY 6 /* no start: memory of an attached process is recorded from now on; says its footprint */

#define PYTHON_STACKS 1        /* its stacks can be read */
#define PYTHON_FREE_THREADED 2 /* a free-threaded build, which may run with a GIL all the same */

/* The start of a process. Exec starts a new one: a process here is one image. Payload: path of the executable, then the
 * command line, NUL-separated. */
struct record_process_start {
  uint32_t head;
  uint32_t thread; /* its main thread */
  int64_t t_ns;    /* CLOCK_MONOTONIC, as every t_ns of the spool */
  int32_t pid;
  int32_t parent_pid;
  uint32_t parent;         /* process id of the forking parent or of the image before exec; 0 = unknown */
  uint16_t cause;          /* CAUSE_* */
  uint16_t stacks;         /* PYTHON_STACKS, PYTHON_FREE_THREADED */
  uint32_t python_version; /* PY_VERSION_HEX; 0 = no Python in this image, or none yet */
  uint32_t pid_namespace;  /* number of the namespace of both pids; 0 = unknown */
  uint32_t exe_bytes;
  uint32_t argv_bytes;     /* 0 under --no-argv */
  int64_t footprint_bytes; /* memory at the start: a forked child inherits its parent's footprint */
  int64_t python_footprint_bytes;
};

#define END_EXIT 1  /* exit(), return from main */
#define END_QUICK 2 /* _exit(), quick_exit() */
#define END_EXEC 3  /* exec replaced the image */
/* exec failed, or a filter was refused: cancels the END_EXEC or END_FILTER before it, and the end of the thread. */
#define END_NONE 4
#define END_UNKNOWN 6 /* an attached process has ended, and its parent has learned how before the watcher */
#define END_FILTER 5  /* a seccomp filter was set, and the process ran on unrecorded */

struct record_process_end {
  uint32_t head;
  uint32_t thread;
  int64_t t_ns;
  int64_t user_ns; /* getrusage(RUSAGE_SELF) minus the usage when the image began */
  int64_t system_ns;
  int64_t peak_rss_bytes;
  uint32_t how;         /* END_* */
  uint32_t exit_status; /* argument of _exit, if known; else 0 */
  int64_t footprint_bytes;
  int64_t python_footprint_bytes;
};

/* A child that the process has waited for; pid 0: the process itself, just before its end record. user_ns, system_ns: what
 * it had used, and what the children that it had waited for had used; -1 = unknown (waitid does not say). */
struct record_reaped {
  uint32_t head;
  uint32_t thread; /* the one that waited; 0 = it is not recorded */
  int64_t t_ns;    /* when the wait returned */
  int32_t pid;
  uint32_t status; /* as waitpid gives it */
  int64_t user_ns;
  int64_t system_ns;
  int64_t peak_rss_bytes; /* the largest of all of them; -1 = unknown */
  uint64_t reserved[2];
};

#define ENGINE_NONE 0
#define ENGINE_PERF 1
#define ENGINE_POSIX 2
#define ENGINE_POLLED 3 /* observed from outside: the process was attached to */

struct record_thread_start {
  uint32_t head;
  uint32_t thread;
  int64_t t_ns;
  int64_t cpu_start_ns; /* the thread's CPU clock when recording began (exec does not reset it) */
  uint32_t engine;      /* ENGINE_* */
  int32_t tid;
  uint64_t stack;   /* Python stack of the thread that started it; 0 = none, or that is not known */
  uint32_t starter; /* the thread that started it; 0 = unknown */
  uint32_t pad;
  uint64_t reserved[2];
};

struct record_thread_end {
  uint32_t head;
  uint32_t thread;
  int64_t t_ns;
  int64_t cpu_ns;  /* exact CPU time of the thread since its start record, without the time that it used while paused */
  int64_t user_ns; /* user and kernel time as the kernel splits them (RUSAGE_THREAD), which may be tick-based */
  int64_t system_ns;
  char name[16]; /* the kernel's name of the thread, zero padded */
  uint64_t reserved;
};

/* The name that Python's threading module gives a thread, which that thread or the watcher has read. The latest record of
 * a thread counts. */
struct record_thread_name {
  uint32_t head;
  uint32_t thread; /* whose name it is */
  int64_t t_ns;    /* when the name was read */
  uint64_t name;   /* hash of the name, which is in a type record */
  uint64_t reserved[5];
};

/* tick flags */
#define TICK_GC 1          /* a garbage collection was running in the thread's interpreter */
#define TICK_EVAL_FOUND 2  /* the bytecode loop was found on the native stack */
#define TICK_VECTORCALL 4  /* the loop has called PyObject_Vectorcall, PyObject_Call*, or a type written in C */
#define TICK_TPCALL 8      /* it has called a type or another object, which is not known to be written in C */
#define TICK_PYFRAME 16    /* code that sets up a Python frame or makes an instance of a class was running */
#define TICK_TORN 32       /* the frames could not be read consistently; stack is 0 */
#define TICK_SYSTEM 64     /* from the timer that counts kernel time only (engine perf) */
#define TICK_NO_PYTHON 128 /* the thread has no Python state */
#define TICK_SYSCALL 256   /* the interrupted instruction follows a syscall instruction */
#define TICK_TYPE_CALL 512 /* of a call of a type or a bound method: work that is the same for C and Python */
#define TICK_PC_SHIFT 12   /* bits 12..14: PC_* of the interrupted instruction */

#define PC_UNKNOWN 0     /* outside of all images: JIT code, trampolines */
#define PC_EVAL 1        /* in the bytecode loop */
#define PC_INTERPRETER 2 /* elsewhere in the interpreter */
#define PC_SUPPORT 3     /* libc, libm, ld.so, vdso, libgcc, libstdc++, a preloaded allocator */
#define PC_EXTENSION 4   /* any other image */
#define PC_SHIM 5        /* the shim */
#define PC_UNREAD 6      /* not known: the thread was observed from outside */

/* tick.opcodes: [0] = opcode byte at the innermost frame's instruction, [k] = opcode byte k units before it; 255 = not
 * read. If the instruction pointer lies inside inline caches, the earlier bytes lead to the start of the
 * instruction. */
#define TICK_OPCODES 6

struct record_tick {
  uint32_t head;
  uint32_t thread;
  int64_t t_ns;
  uint64_t stack;     /* hash of the innermost node; 0 = no Python stack */
  uint64_t pc;        /* the interrupted instruction */
  uint64_t native;    /* hash of the innermost native record; 0 = in the bytecode loop, or unknown */
  int64_t cpu_ns;     /* the thread's CPU clock, without the time that it used while paused */
  uint32_t user_ns;   /* weight: user CPU time this tick stands for */
  uint32_t system_ns; /* weight: kernel CPU time this tick stands for */
  uint8_t opcodes[TICK_OPCODES];
  uint16_t flags; /* TICK_* */
};

/* A footprint sample, written when |allocated - freed| since the last one has reached the threshold. */
struct record_memory {
  uint32_t head;
  uint32_t thread;
  int64_t t_ns;
  uint64_t stack;
  int64_t net_bytes;               /* allocated - freed since the last sample */
  int64_t footprint_bytes;         /* allocated - freed since the process began, including this sample */
  int64_t python_footprint_bytes;  /* the part of footprint_bytes that went through Python's allocators */
  uint64_t allocated_bytes;        /* allocated since the last sample, frees not subtracted */
  uint64_t python_allocated_bytes; /* the part of allocated_bytes that went through Python's allocators */
};

/* One frame of a stack. hash = mix(parent, code, instruction), so equal hashes mean equal nodes. With a label, it is the
 * innermost frame of stacks that have the label: hash = mix(hash of the same without, label), and it is no node's parent.
 * Records may repeat. */
struct record_node {
  uint32_t head;
  uint32_t thread;
  uint64_t hash;
  uint64_t parent;     /* hash of the calling frame's node; 0 = outermost */
  uint64_t code;       /* hash of a code record */
  int32_t instruction; /* index in 2-byte units into the bytecode */
  uint32_t truncated;  /* 1 = outermost node of a stack whose callers exceeded the depth limit */
  uint64_t label;      /* hash of a type record: NAME=VALUE of each label, separated by NUL; 0 = none */
  uint64_t reserved[2];
};

#define NATIVE_GAP 1 /* functions between this one and its parent, or outer ones, may be missing */

/* One function on a native stack, which leads from the interrupted instruction to the function that the bytecode loop has
 * called, or to the thread's start. That of a wait leads from the system call to the interpreter's innermost function, or
 * to some callers of the first function in a library. Equal hashes mean equal nodes. Records may repeat. */
struct record_native {
  uint32_t head;
  uint32_t thread;
  uint64_t hash;
  uint64_t parent;  /* hash of the calling function's record; 0 = outermost */
  uint64_t image;   /* as in the module record; 0 = in no image */
  uint64_t address; /* ELF virtual address at which it starts; if unknown, one in the call that it made; 0 = unknown */
  uint32_t flags;   /* NATIVE_GAP */
  uint32_t pad;
  uint64_t reserved[2];
};

/* A code object, split into parts that fit a chunk. The payload of all parts together is file name, qualified name,
 * line table and bytecode; this part holds part_bytes of it from part_offset on. Strings have CPython's own width (kind
 * 1: Latin-1, 2: UCS-2, 4: UCS-4). */
struct record_code {
  uint32_t head;
  uint32_t thread;
  uint64_t code;           /* hash of version, names, first line, line table and length of the bytecode */
  uint32_t python_version; /* PY_VERSION_HEX, which decides how line table and bytecode are read */
  int32_t first_line;
  uint32_t total_bytes;
  uint32_t part_offset;
  uint32_t part_bytes;
  uint32_t file_bytes;
  uint32_t name_bytes;
  uint32_t line_table_bytes;
  uint32_t bytecode_bytes;
  uint32_t code_flags; /* co_flags */
  uint8_t file_kind;
  uint8_t name_kind;
  uint16_t reserved;
  uint32_t reserved2;
};

/* An executable segment of a loaded image. Payload: path. A forked process inherits its parent's modules. */
struct record_module {
  uint32_t head;
  uint32_t thread;
  int64_t t_ns;
  uint64_t start; /* addresses [start, end) */
  uint64_t end;
  uint64_t bias; /* load bias: ELF virtual address = address - bias */
  uint32_t path_bytes;
  uint32_t pc_class; /* PC_INTERPRETER, PC_SUPPORT, PC_EXTENSION or PC_SHIM */
  uint64_t image;    /* hash of path, class and ELF virtual addresses: equal in all processes */
  uint64_t reserved;
};

/* ---- allocation samples ---- */

/* alloc.source: the function that returned the block. If realloc or mremap resizes a block, in place or not, that is
 * recorded as a free of the old block and an allocation of the new one. */
#define ALLOC_MALLOC 1
#define ALLOC_CALLOC 2
#define ALLOC_REALLOC 3
#define ALLOC_REALLOCARRAY 4
#define ALLOC_MEMALIGN 5
#define ALLOC_POSIX_MEMALIGN 6
#define ALLOC_ALIGNED_ALLOC 7
#define ALLOC_VALLOC 8
#define ALLOC_PVALLOC 9
#define ALLOC_MMAP 10
#define ALLOC_MREMAP 11
#define ALLOC_MPROTECT 12 /* a reservation was made accessible */
#define ALLOC_PYMALLOC 13 /* a block of one of pymalloc's pools */
#define ALLOC_CHUNK 14    /* a chunk of the interpreter's frame stack */
#define ALLOC_ARENA 15    /* an arena of pymalloc, with FEATURE_ARENAS_ONLY: a whole one, whatever is in it */

/* alloc.flags */
#define ALLOC_PYTHON 1     /* allocated through one of Python's allocators */
#define ALLOC_MAXIMUM 2    /* it raised the footprint to a new maximum, so it is followed even if not sampled */
#define ALLOC_UNFOLLOWED 4 /* the table of live samples was full: no free record will follow */
/* The other bits of the flags are the base interval, which is in force for whatever has no sample yet: (e + 1) << 7 | m
 * stands for (128 + m) << e >> 7 bytes, rounded up by at most 1/128. 0 = unknown. */
#define ALLOC_BASE_SHIFT 3

/* An allocation that was sampled, or that raised the footprint to a new maximum. A block of `usable` bytes is sampled
 * with probability 1 - exp(-usable / interval). */
struct record_alloc {
  uint32_t head;
  uint32_t thread;
  int64_t t_ns;
  uint64_t stack;
  uint64_t id;             /* of the sample, unique in its process, increasing from 1 */
  uint64_t size_bytes;     /* requested by the caller */
  uint64_t usable_bytes;   /* usable size that the allocator reports */
  uint64_t interval_bytes; /* mean sampling interval; 1 = all allocations are recorded; 0 = not sampled */
  uint32_t collections;    /* number of garbage collections so far, of all generations */
  uint16_t source;         /* ALLOC_MALLOC ... */
  uint16_t flags;          /* ALLOC_PYTHON ... | base interval << ALLOC_BASE_SHIFT */
};

#define FREE_PART 1       /* `bytes` of the block were unmapped, the rest stays allocated */
#define FREE_FINALIZING 2 /* the interpreter was finalizing */
#define FREE_RESIZED 4    /* by realloc or mremap; the new block has its own alloc record */

/* The end of a followed allocation, or of a part of it. */
struct record_free {
  uint32_t head;
  uint32_t thread;
  int64_t t_ns;
  uint64_t stack; /* of the thread that freed it */
  uint64_t id;    /* of the alloc record in this process; a forked child records no frees of its parent's blocks */
  uint64_t bytes; /* usable bytes that were freed */
  uint64_t type;  /* hash of a type record, if it was a Python object; 0 = none or unknown */
  uint32_t collections;
  uint32_t flags; /* FREE_* */
  uint64_t reserved;
};

/* A small allocation of interval 1 and its end in one record. The thread that frees such a block soon after it has
 * allocated it turns the alloc record into this one, which says the same as an alloc and a free record. The fields up to
 * `id` are the alloc record's, so only the rest is written anew. */
struct record_brief {
  uint32_t head;
  uint32_t thread; /* that allocated and freed it */
  int64_t t_ns;
  uint64_t stack;
  uint64_t id;
  uint64_t free_stack;
  uint64_t type;
  uint32_t lifetime_ns;
  uint32_t collections; /* at its start and at its end */
  uint16_t size_bytes;
  uint16_t usable_bytes;
  uint16_t flags; /* as in an alloc record */
  uint8_t source;
  uint8_t free_flags; /* as in a free record */
};

#define EVENTS_SLOTS 64 /* of a record_events, which has room for 252 events after its first slot */

/* Allocations of interval 1 and their ends, in as few bytes as possible: a header, then events in the order in which they
 * were written. The record is published as SPOOL_OPEN_EVENTS before the first event, and as RECORD_EVENTS after the last
 * one. It ends at the first event whose kind or value is 0, so a process that is killed loses none of them. Stacks and
 * types have numbers from 1 that hold in this record only; 0 = none. */
struct record_events {
  uint32_t head;
  uint32_t thread; /* of the events, until an EVENT_THREAD */
  int64_t t_ns;    /* times of events count from here */
  uint32_t collections;
  uint32_t flags; /* of each allocation, as in an alloc record */
  uint64_t reserved[5];
};

#define EVENT_ALLOC 1     /* value: id. more: requested bytes | usable bytes / 16 << 10. From pymalloc */
#define EVENT_FREE 2      /* value: id. more: number of the type | FREE_* << 8 */
#define EVENT_TYPED 3     /* value: id. more: number of the type, as in a note record */
#define EVENT_STACK 4     /* value: hash of the stack with the number `stack` */
#define EVENT_TYPE_NAME 5 /* value: hash of the type with the number `more` */
#define EVENT_THREAD 6    /* value: thread of the following events | collections << 32 */
/* An allocation of other bytes or another source. The event before it is an EVENT_BYTES. value: id */
#define EVENT_ALLOC_LARGE 7
#define EVENT_BYTES 8 /* value: requested bytes. more: usable bytes beyond these; `stack`: source | python << 7 */

struct spool_event {
  uint32_t after_ns; /* time after that of the record */
  uint8_t kind;      /* EVENT_* */
  uint8_t stack;     /* number of the stack */
  uint16_t more;
  uint64_t value; /* not 0 */
};

#define NOTE_TYPE 1    /* `type` is known now */
#define NOTE_THINNED 2 /* the table was thinned: the sample's lifetime counts with `interval_bytes` from its start on */
#define NOTE_NATIVE 8  /* `native` is the stack that allocated the block; this note precedes the alloc record */
#define NOTE_DROPPED 4 /* the thinning dropped this sample: its lifetime is unknown, and no free record will follow */

/* Information about a followed allocation that became known after its alloc record. */
struct record_note {
  uint32_t head;
  uint32_t thread;
  uint64_t id;
  uint64_t type;
  uint64_t interval_bytes;
  uint32_t flags; /* NOTE_* */
  uint32_t pad;
  uint64_t native; /* hash of the innermost native record outside of the shim; 0 = unknown */
  uint64_t reserved[2];
};

/* A name of a Python type (tp_name), of asyncio tasks, or of threads, or labels. Payload: the text in UTF-8. Records may repeat. */
struct record_type {
  uint32_t head;
  uint32_t thread;
  uint64_t type; /* hash of the name */
  uint32_t name_bytes;
  uint32_t pad;
  uint64_t reserved[5];
};

/* A copy sample: `bytes` is what memcpy and memmove have copied in the thread since its last copy sample. */
struct record_copy {
  uint32_t head;
  uint32_t thread; /* 0 = the remaining bytes at the end of the process */
  int64_t t_ns;
  uint64_t stack;
  uint64_t bytes;
  uint64_t reserved[4];
};

/* Garbage collections so far, written after a sample found that the count has risen. */
struct record_gc {
  uint32_t head;
  uint32_t thread;
  int64_t t_ns;
  uint64_t collections[3]; /* by generation, 0 = youngest, since the interpreter began */
  uint64_t collected;      /* objects, all generations */
  uint64_t uncollectable;
  uint64_t reserved;
};

/* The composition of the process's memory at a moment: written at intervals, for a new maximum, and at the process's
 * end. */
struct record_heap {
  uint32_t head;
  uint32_t untouched_pages; /* non-resident pages (4 KiB) of mapped_bytes; estimated above 256 MiB */
  int64_t t_ns;
  int64_t footprint_bytes; /* usable bytes of all live blocks and mappings */
  int64_t python_bytes;    /* the part of footprint_bytes that went through Python's allocators */
  int64_t mapped_bytes;    /* the part of footprint_bytes in anonymous mappings of program and libraries */
  int64_t reserved_bytes;  /* mapped without access or without reserve: not memory yet, not part of footprint_bytes */
  uint32_t arena_pages;    /* arenas of pymalloc, in pages of 4 KiB */
  uint32_t shared_pages; /* resident pages (4 KiB) of mapped_bytes in shared mappings; estimated like untouched_pages */
  int64_t pool_bytes;    /* live blocks in the arenas; the rest of these is held but unused */
};

#define WAIT_SLEEP 1    /* blocked in a system call: a lock, a socket, sleep, poll, a child */
#define WAIT_DISK 2     /* uninterruptible: disk I/O, a page fault */
#define WAIT_RUNNABLE 3 /* ready to run, but without a CPU */
#define WAIT_GIL 4      /* blocked on a futex of the interpreter: the GIL */

/* A wait of a thread, observed from outside. While its chunk is open, the watcher may still change end_ns, waited_ns
 * and looks. waited_ns <= end_ns - t_ns: the thread may have run briefly in between (a thread that waits for the GIL
 * wakes up every 5 ms). */
struct record_wait {
  uint32_t head;
  uint32_t thread;
  int64_t t_ns; /* start */
  int64_t end_ns;
  int64_t waited_ns;
  uint64_t stack;
  uint32_t process;    /* of the thread: the chunk belongs to the watcher */
  uint16_t wait_class; /* WAIT_* */
  uint16_t pad;
  int32_t syscall; /* number of the system call when the wait was first observed; -1 = none */
  uint32_t looks;  /* number of polls that found the thread in this wait */
  uint64_t native; /* hash of the innermost native record; 0 = unknown. The watcher may set it later, like end_ns */
};

/* A suspension of an asyncio task or a greenlet, observed from outside. While its chunk is open, end_ns and suspended_ns grow.
 * suspended_ns >= end_ns - t_ns: if there are more tasks than can be observed, one stands for several. */
struct record_task {
  uint32_t head;
  uint32_t thread; /* the thread that runs the task's event loop */
  int64_t t_ns;    /* start */
  int64_t end_ns;
  int64_t suspended_ns;
  uint64_t stack;   /* from the task's coroutine (outermost) to what it awaits (innermost) */
  uint32_t process; /* of the thread: the chunk belongs to the watcher */
  uint32_t task;    /* number of the task in this recording, from 1 */
  uint64_t name;    /* hash of a type record: the task's name without the number at its end; 0 = unknown */
  int64_t number;   /* the number at the end of the task's name; -1 = none */
};

/* ---- GPUs: calls of the CUDA libraries ---- */

/* device_call.direction: host (H) and device (D) as the call declares them. */
#define DEVICE_H2H 1
#define DEVICE_H2D 2
#define DEVICE_D2H 3
#define DEVICE_D2D 4
#define DEVICE_UNIFIED 5 /* the library decides by the addresses */
#define DEVICE_SYNC 6    /* the call copied nothing: the thread waited for the device */

/* CUDA calls that copied or waited, from one stack in one direction: a single call, or the sum of those of up to
 * 10 ms. */
struct record_device_call {
  uint32_t head;
  uint32_t thread;
  int64_t t_ns;        /* start of the first call */
  int64_t end_ns;      /* end of the last call */
  int64_t duration_ns; /* inside the calls, in total; an asynchronous call returns before its copy is done */
  uint64_t stack;
  uint64_t bytes; /* bytes copied; 0 with DEVICE_SYNC */
  uint32_t calls;
  uint16_t direction; /* DEVICE_* */
  uint16_t pad;
  uint64_t reserved;
};

#define BLOCK_ALLOCATED 1 /* t_ns: after the call */
#define BLOCK_FREED 2     /* t_ns: before the call; stack is 0 */
#define BLOCK_NOT_FREED 3 /* the library refused the free: cancels the thread's last BLOCK_FREED of that address */

/* device_block.source: the functions that returned the block. */
#define GIVEN_BY_MALLOC 1  /* cudaMalloc, cudaMallocPitch, cuMemAlloc, cuMemAllocPitch */
#define GIVEN_BY_MANAGED 2 /* cudaMallocManaged, cuMemAllocManaged: the block migrates between device and host */
#define GIVEN_BY_ASYNC 3   /* cudaMallocAsync, cuMemAllocAsync and allocations from a pool */

/* A block of device memory was allocated or freed. Records of the same address are ordered by t_ns. */
struct record_device_block {
  uint32_t head;
  uint32_t thread;
  int64_t t_ns;
  uint64_t stack;
  uint64_t address;
  uint64_t bytes;  /* 0 unless BLOCK_ALLOCATED */
  uint16_t what;   /* BLOCK_* */
  uint16_t source; /* GIVEN_BY_*; 0 unless BLOCK_ALLOCATED */
  uint32_t pad;
  uint64_t reserved[2];
};

#ifndef SCALENE_TRACE_CFFI
_Static_assert(sizeof(struct record_process_start) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_process_end) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_reaped) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_thread_start) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_thread_end) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_thread_name) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_tick) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_memory) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_node) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_native) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_code) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_module) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_alloc) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_free) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_events) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_note) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_type) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_copy) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_gc) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_heap) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_wait) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_task) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_device_call) == SPOOL_SLOT_BYTES, "one slot");
_Static_assert(sizeof(struct record_device_block) == SPOOL_SLOT_BYTES, "one slot");
#endif

#endif
