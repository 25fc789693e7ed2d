/* The layout of a spool: the shared memory that the shim writes and the recorder reads.
 *
 * This header and records.h, which it includes, are the only description of the layout. C compiles them, and Python
 * passes them to cffi (formats/spool/layout.py), which understands declarations and "#define NAME number" lines. Use only
 * those two, and plain C11 types.
 *
 * A recording has one spool file, shared by every recorded process:
 *
 *   spool_header | ring: uint32_t chunk[SPOOL_RING] | thread table: thread_entry[SPOOL_THREAD_TABLE] | chunk 0 | ...
 *
 * The recorder allocates chunks ahead of use, so that a full disk never raises a signal in the program, and offers
 * them: ring[n % SPOOL_RING] is the number of the chunk of offer n, and header.offered counts the offers. A process
 * takes the next offer by incrementing header.taken. If taken == offered, the event is lost and the loss is counted.
 *
 * A chunk belongs to one process. It consists of slots of 64 bytes: one for chunk_header, then records of a whole
 * number of slots each. A writer claims slots by advancing chunk.cursor, stores head with kind 0 and the number of
 * slots, fills the rest, and publishes the record by storing head again with its kind (release). A reader goes from
 * slot to slot: head.kind != 0 is a record; kind 0 with slots > 0 is a record that was never finished, so the reader
 * skips its slots; if head is 0, the reader skips one slot.
 *
 * A writer may take back a published alloc record of its current chunk: it replaces the head by one of kind 0, verifies
 * that the chunk is still the current one, and publishes the record again, as brief; in a closed chunk it restores the
 * head and changes nothing else. So a record in a closed chunk that the recorder has seen published never changes. A
 * reader of an open chunk reads the heads a second time (formats/spool/chunks.py).
 *
 * A closed chunk in which every slot belongs to a published record is finished: the recorder copies it into a part file
 * and offers its number again. A writer that was interrupted before the copy may still hold a pointer to that chunk, or
 * to a position of its window (shim/shared/window/window.h) that has moved to another chunk. While the chunk is free, this
 * writer finds the cursor at the end. If the chunk is in use again, the writer detects after its claim that the chunk is no
 * longer its current one, and publishes SPOOL_PAD over the slots that it has claimed.
 *
 * The thread table lists the live threads for the watcher, a thread of the recorder that observes from outside which
 * threads wait. The watcher writes its records like a process, under the id PROCESS_WATCHER, with one exception: it may
 * change a wait or task record after publishing it, as long as the chunk of that record is open. */
#ifndef SCALENE_TRACE_SPOOL_H
#define SCALENE_TRACE_SPOOL_H

#include <stdint.h>

#define SPOOL_MAGIC 0x31656e656c616373 /* "scalene1", little endian */
#define SPOOL_VERSION 13
#define SPOOL_SLOT_BYTES 64
#define SPOOL_CHUNK_BYTES 65536
#define SPOOL_CHUNK_SLOTS 1024
#define SPOOL_RING 16384
#define SPOOL_HEADER_BYTES 4096
#define SPOOL_THREAD_TABLE 4096
#define SPOOL_THREAD_TABLE_OFFSET 69632 /* SPOOL_HEADER_BYTES + 4 * SPOOL_RING */
#define SPOOL_THREAD_TABLE_BYTES 524288 /* SPOOL_THREAD_TABLE entries of 128 bytes */
#define SPOOL_CHUNKS_OFFSET 655360      /* behind the table; a multiple of 64 KiB, the largest pages of arm64 */
#define SPOOL_LOSSES 96
#define SPOOL_HANDOFFS 128

/* header.features: what is recorded. The recorder sets it before the program starts. */
#define FEATURE_CPU 1
#define FEATURE_MEMORY 2
#define FEATURE_CHILDREN 4        /* follow fork, spawn and exec */
#define FEATURE_ARGV 8            /* command lines may be stored */
#define FEATURE_POSIX_ONLY 16     /* do not try perf_event_open (for tests and --cpu-engine posix) */
#define FEATURE_PLAIN_READS 32    /* behave as if process_vm_readv were refused (for tests) */
#define FEATURE_COPY 64           /* count the bytes that memcpy and memmove copy */
#define FEATURE_ALLOC_AUTO 128    /* alloc_interval_bytes is the initial interval; each process adapts it */
#define FEATURE_WAIT 256          /* threads add themselves to the thread table, so that their waits are recorded */
#define FEATURE_RIGHTS 512        /* processes announce that they become another user (struct rights_row) */
#define FEATURE_NATIVE_ALLOC 1024 /* allocation samples have the native stack too */
#define FEATURE_ARENAS_ONLY 2048  /* Python's allocators are left alone; each arena counts as one block */
#define FEATURE_EVENTS 4096       /* with an interval of 1, allocations are written as events (record_events) */
#define FEATURE_OTHER_CLOCK 8192  /* the recorder's clock is not the kernel's: processes read the one that they see */

/* header.paused; 0 = not paused. */
#define PAUSED_AT_ONCE 1  /* somebody has asked for the pause */
#define PAUSED_BY_CYCLE 2 /* one of many: it is noticed as late as its end */

/* header.alloc_control: a single word, so that a process never reads half of a change. */
#define CONTROL_ALLOC_SET 0x4000000000000000
#define CONTROL_ALLOC_AUTO 0x2000000000000000 /* the interval is the initial one; each process adapts it */

/* The first page of the spool. "control" marks settings that the recorder may change at any time, "recorder" and
 * "processes" the counters that only that side advances. */
struct spool_header {
  uint64_t magic;        /* SPOOL_MAGIC */
  uint32_t version;      /* SPOOL_VERSION */
  uint32_t chunk_bytes;  /* SPOOL_CHUNK_BYTES */
  uint32_t ring_entries; /* SPOOL_RING */
  uint32_t chunk_count;  /* chunks that fit the mapping: file size = SPOOL_CHUNKS_OFFSET + chunk_count * chunk_bytes */
  int64_t start_mono_ns; /* CLOCK_MONOTONIC at the start of the recording; trace times count from here */
  int64_t start_real_ns; /* CLOCK_REALTIME at the same moment */
  uint32_t recorder_pid; /* pid of the recorder that drains this spool */
  uint32_t features;     /* FEATURE_* */
  uint32_t paused;       /* control: PAUSED_* = samplers are paused, counters continue. Written at any time */
  uint32_t ended;        /* control: 1 = the recording has ended; processes stop their timers at the next tick */
  uint64_t cpu_interval_ns;        /* control: mean CPU time between two ticks of a thread */
  uint64_t memory_threshold_bytes; /* control: threshold T of the footprint sampler */
  uint64_t offered;                /* recorder: chunks offered so far */
  uint64_t taken;                  /* processes: chunks taken so far; taken <= offered */
  uint64_t alloc_interval_bytes;   /* mean bytes between two allocation samples at the start; 1 = every one, 0 = none */
  uint64_t copy_threshold_bytes;   /* control: bytes copied between two copy samples of a thread */
  uint32_t processes;              /* process ids handed out so far; ids count from 1 */
  uint32_t threads;                /* thread ids handed out so far, over all processes; ids count from 1 */
  uint32_t table_end;              /* one past the highest entry of the thread table that was ever used */
  uint32_t table_changes; /* incremented after each change of the thread table, so that the watcher reads it again */
  uint32_t chunks_used;   /* recorder: the chunks with lower numbers have been offered at least once */
  uint32_t filters; /* processes with at most so many seccomp filters may do what the shim does; first the recorder's */
  uint64_t alloc_control;  /* control: 0 = never changed; else CONTROL_ALLOC_SET | CONTROL_ALLOC_AUTO | interval */
  uint64_t waited_in_vain; /* `offered` + 1 when a process last waited in vain, or no space was left; 0 = never */
  int32_t finalizing;      /* processes: pid of the one whose interpreter was the last to begin to finalize; 0 = none */
  uint32_t late;           /* processes: those that began when the recording had ended */
  uint64_t watch_period_ns; /* mean pause between two passes of the watcher, at least; 0 = the usual one */
  int64_t watcher_ns;       /* watcher: when it was last awake, CLOCK_MONOTONIC: once a second at least; 0 = not yet */
  uint64_t reserved[6];
  uint64_t challenge; /* watcher: a random number, read back through a process to prove that it has the spool mapped */
  uint64_t losses[SPOOL_LOSSES]; /* one counter per line of losses.h, in its order */
  /* Exec handoffs, from index pid % SPOOL_HANDOFFS on: pid | process << 32 of an image that calls exec; 0 = free. */
  uint64_t handoffs[SPOOL_HANDOFFS];
};

/* A row of the file "rights" beside the spool. A process appends it before it becomes another user: then it cannot write
 * to the file any more, so it cannot take back what it has announced. */
struct rights_row {
  uint32_t user;  /* that it becomes */
  uint32_t group; /* its effective group until then */
};

/* The first slot of a chunk. The process that takes the chunk fills it. */
struct chunk_header {
  uint32_t process;       /* 0 = free, else the id of the process that writes here */
  uint32_t cursor;        /* next free slot; may exceed SPOOL_CHUNK_SLOTS when the chunk is full */
  uint32_t closed;        /* 1 = no writer will claim another slot */
  int32_t pid;            /* of the process, in its own pid namespace */
  uint64_t offer;         /* number of the offer: the chunks of a process, ordered by offer, are in time order */
  int64_t opened_ns;      /* CLOCK_MONOTONIC */
  uint64_t pid_namespace; /* inode of its /proc/self/ns/pid; 0 = unknown */
  uint64_t reserved[3];
};

#define ENTRY_FREE 0
#define ENTRY_FILLING 1 /* a thread is filling it: it must not be read yet */
#define ENTRY_LIVE 2
/* The thread has ended; end_ns and cpu_end_ns are valid. The watcher frees the entry; a new thread reuses it if no
 * entry is free. */
#define ENTRY_ENDED 3

/* A live thread: what the watcher needs to observe it. The thread fills its own entry. */
struct thread_entry {
  uint32_t state;   /* ENTRY_* */
  uint32_t process; /* id of its process */
  uint32_t thread;  /* its id */
  int32_t pid;
  int32_t tid;
  uint32_t python_version; /* PY_VERSION_HEX; 0 = no Python whose stacks can be read */
  uint64_t runtime;        /* address of _PyRuntime; 0 = unknown */
  uint64_t runtime_bytes;
  uint64_t code_type;   /* address of PyCode_Type */
  uint64_t pthread;     /* pthread_self(), which Python calls the thread's ident */
  int64_t start_ns;     /* CLOCK_MONOTONIC when the entry was filled */
  int64_t cpu_start_ns; /* the thread's CPU clock at that time */
  int64_t end_ns;       /* CLOCK_MONOTONIC and CPU clock when the thread ended */
  int64_t cpu_end_ns;
  uint64_t pid_namespace; /* the namespace of pid and tid, as in chunk_header; 0 = unknown */
  uint64_t python_thread; /* address of the Thread of Python's threading module that began it; 0 = unknown */
  uint64_t name;          /* the name in its last thread name record, as there; 0 = none */
  uint64_t images;        /* address of the process's struct image_source (shim/shared/native/image.h); 0 = unknown */
  uint64_t arenas;        /* address of the table of the arenas (shim/shared/objects/pools.h); 0 = unknown */
};

#define PROCESS_WATCHER 2147483647 /* chunk_header.process of the watcher's chunks; no process has this id */

#include "formats/spool/records.h"

#ifndef SCALENE_TRACE_CFFI
_Static_assert(sizeof(struct spool_header) <= SPOOL_HEADER_BYTES, "header fits its page");
_Static_assert(sizeof(struct chunk_header) == SPOOL_SLOT_BYTES, "chunk header is one slot");
_Static_assert(sizeof(struct thread_entry) * SPOOL_THREAD_TABLE == SPOOL_THREAD_TABLE_BYTES,
               "the thread table fits its place");
#endif

#endif
