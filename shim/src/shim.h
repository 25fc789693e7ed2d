/* Every prototype that crosses a file of the shim, grouped by the file that defines it.
 *
 * Rules (docs/design/shim.md): fail open; no Python call that takes the GIL, allocates or touches reference counts from
 * inside malloc or a signal handler; no lock that a handler or a forked child could wait on; forward to the next
 * symbol; never change a return value or errno. "Context: signal" marks what may run in our signal handler (or inside
 * malloc, or in a vfork child): async-signal-safe, no allocation, little stack. "Context: malloc" marks what may run
 * inside an allocator: no allocation, no lock. "Context: normal" is the rest. */
#ifndef SCALENE_TRACE_SHIM_H
#define SCALENE_TRACE_SHIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <threads.h>
#include <time.h>

#include "spool.h"

/* What is shared between files is nobody else's: without this the compiler would go through the global offset table. */
#pragma GCC visibility push(hidden)

/* memcpy is one of the functions that we stand in front of: what the shim copies is not the program's. */
static inline void *shim_copy(void *to, const void *from, size_t size) {
  for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
  return to;
}
#define memcpy(to, from, size)                                                                                         \
  (__builtin_constant_p(size) ? __builtin_memcpy(to, from, size) : shim_copy(to, from, size))

#define EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define SLOW_PATH __attribute__((cold, noinline))
#define APART __attribute__((noinline)) /* so that its caller saves no register */
#define HOT __attribute__((hot))        /* what every allocation and free runs lies together */
#ifndef THREAD_LOCAL
#define THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))
#endif

/* ---- next.c: the functions that ours stand in front of ---- */

/* One pointer per line of interposed.h. Null only before next_resolve() and for what libc lacks. */
struct next_functions {
#define INTERPOSED(result, name, arguments) result(*name) arguments;
#include "interposed.h"
#undef INTERPOSED
  bool resolved;
};
extern struct next_functions next;
/* Fills `next` by dlsym(RTLD_NEXT). Idempotent. Context: malloc (the loader may allocate: served by bootstrap). */
void next_resolve(void);
static inline void next_ensure(void) {
  if (unlikely(!next.resolved)) next_resolve();
}
/* Allocations that arrive while next_resolve() runs. Context: malloc. */
void *bootstrap_alloc(size_t size, size_t alignment);
#define BOOTSTRAP_BYTES 65536
extern char bootstrap[BOOTSTRAP_BYTES];
static inline bool bootstrap_owns(const void *block) {
  return (uintptr_t)block - (uintptr_t)bootstrap < BOOTSTRAP_BYTES;
}
size_t bootstrap_size(const void *block);
/* What glibc's allocator writes in front of a block that it hands out (its malloc.c, struct malloc_chunk): the size of
 * the chunk, with flags in its three lowest bits. */
#define LIBC_MAPPED ((size_t)2) /* it has a mapping of its own: then other rules hold */
static inline size_t next_libc_head(const void *block) {
  return __atomic_load_n((const size_t *)block - 1, __ATOMIC_RELAXED); /* flags of it are its neighbours' to change */
}
static inline size_t next_libc_bytes(size_t head) { return (head & ~(size_t)7) - sizeof head; }
/* Does the address lie in the library that malloc comes from, where that is not libc, or in ours? Context: malloc. */
bool next_is_allocators(const void *address);
/* Does libc's own allocator hand out malloc's blocks, with their sizes in front (memory_mode)? Context: normal. */
bool next_has_libc_headers(void);

/* ---- loss.c ---- */

enum loss {
#define LOSS(name, severity, text) LOSS_##name,
#include "losses.h"
#undef LOSS
  LOSS_COUNT
};
/* Counts one loss. Context: signal. */
void loss_add(enum loss loss);
/* Moves what was counted before the spool was open into it. Context: normal. */
void loss_flush_early(void);

/* ---- spool.c: shared memory that survives us ---- */

extern struct spool_header *spool; /* null = not recording */
/* Maps the spool at path. 0 = ok. Context: normal. */
int spool_open(const char *path);
void spool_close(void);
/* Takes a process id / a thread id from the header. Context: signal. */
uint32_t spool_new_process(void);
uint32_t spool_new_thread(void);
/* Forgets the current chunk (it is the parent's) and writes as `process` from now on. Context: signal. */
void spool_begin_process(uint32_t process);
uint32_t spool_process(void);
uint64_t spool_pid_namespace(void);
/* Leaves word for the image that follows exec in this process; 0 takes it back. Context: signal. */
void spool_leave_word(pid_t pid, uint32_t process);
/* The process id of the image that this one replaced; 0 = none. Context: normal. */
uint32_t spool_take_word(pid_t pid);
/* Claims `lines` lines; null = lost (counted). Fill everything but head, then publish. Context: signal. */
void *spool_claim(unsigned lines);
void spool_publish(void *record, unsigned kind, unsigned lines);
void spool_finish_chunk(void);
/* May a published record still be changed: is its chunk the one that is being written? Only for the watcher. */
bool spool_holds(const void *record);
static inline bool recording(void) { return spool != NULL && spool->ended == 0; }

/* ---- clock.c ---- */

int64_t clock_now_ns(void);        /* CLOCK_MONOTONIC. Context: signal. */
int64_t clock_thread_cpu_ns(void); /* CPU clock of the calling thread. Context: signal. */
/* RUSAGE_THREAD in ns. Context: signal. */
void clock_thread_usage(int64_t *user_ns, int64_t *system_ns);

/* ---- random.c ---- */

/* A state to begin with, different in each thread; not 0. Context: signal. */
uint64_t random_seed(void);
/* The next number, uniform in [0, 2^64). Context: signal. */
uint64_t random_next(uint64_t *state);

/* ---- saferead.c: memory that may not be there ---- */

/* Decides how reads are done; must run again in a forked child (the pid is cached). Context: signal. */
void safe_read_init(void);
/* Reads are of this process from now on. Only for the watcher. Context: normal. */
void safe_read_of(pid_t pid);
/* Copies size bytes; false when any of them is not readable. errno is kept. Context: signal. */
bool safe_read(void *to, const void *from, size_t size);
/* Copies as much as is readable, up to size; returns the count. Context: signal. */
size_t safe_read_some(void *to, const void *from, size_t size);
/* Copies `size` bytes from each of `count` (at most SAFE_READ_MANY) addresses, one behind the other; false when any is
 * not readable. Two system calls, however many they are. Context: signal. */
#define SAFE_READ_MANY 24
bool safe_read_many(void *to, const uintptr_t *from, int count, size_t size, struct iovec *work);
/* How many pieces of `size` bytes could be read, up to the first that could not. Only for the watcher. Context: normal. */
int safe_read_pieces(const struct iovec *to, const struct iovec *from, int count, size_t size);
bool safe_read_refused(void);

/* ---- signals.c: a signal that the program cannot see, steal, block or die of ---- */

/* The handler of ticks. info is the kernel's; context is a ucontext_t. Returns false when the signal is not one of
 * ours (somebody sent that number): signals.c then does what the program asked for with it. Context: signal. */
typedef bool signals_handler(siginfo_t *info, void *context);
/* Installs the handler for our signal, remembering what was there as the program's. 0 = ok. Context: normal. */
int signals_install(signals_handler *handler);
int signals_number(void);
/* Called at the start of a thread (and at load for the main thread): notes whether our signal is blocked in the
 * inherited mask as the program's own wish, and unblocks it really. Context: normal. */
void signals_thread_start(void);
/* Before and after a failed exec: the mask that the new image inherits is the one the program asked for.
 * Context: signal (vfork child). */
void signals_before_exec(void);
void signals_after_failed_exec(void);
/* Whether the program believes our signal blocked in the calling thread; a new thread starts with what the creator
 * believes, or with the mask that its attributes name (null = none). Context: signal. */
bool signals_shadow_blocked(void);
void signals_set_shadow_blocked(bool blocked);
bool signals_inherited_blocked(const pthread_attr_t *attributes);
/* The calling thread is the only one of a new process: nothing is pending in it. Context: signal. */
void signals_postfork_child(void);
/* For sigexports.c. Context: signal, but for signals_wait. */
uint64_t signals_set_word(const sigset_t *set);         /* bit n - 1 = signal n */
bool signals_strip(sigset_t *to, const sigset_t *from); /* copies without our signal; true = it was a member */
void signals_report(sigset_t *set, bool member);        /* makes our signal a member, or none */
bool signals_swap_block(bool blocked);                  /* sets the block; returns the one before */
/* Around a call that waits with another mask. */
struct signals_call {
  bool in_call, after_call;
};
void signals_begin_call(struct signals_call *outer, bool blocked);
void signals_end_call(const struct signals_call *outer);
bool signals_held(void);  /* a signal waits that this thread would get if open */
bool signals_guest(void); /* in a vfork child */
int signals_wish_action(const struct sigaction *action, struct sigaction *before);      /* sigaction of our signal */
int signals_wait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout); /* sigtimedwait */

/* ---- held.c: signals of our number that the program has blocked ---- */

/* Keeps a signal for thread, 0 = for any. False when no slot is free. Context: signal. */
bool held_add(const siginfo_t *info, int32_t thread);
bool held_any(int32_t thread);
/* Moves out the oldest that this thread may have. Context: signal. */
bool held_take(int32_t thread, siginfo_t *out);
void held_discard(void);
void held_postfork_child(void);

/* ---- exec.c: children are recorded too ---- */

/* Remembers LD_PRELOAD and the recorder's variables as they are at load. Context: normal. */
void exec_init(const char *library, const char *spool_path);

/* ---- python.c: which interpreter is this, where are its fields ---- */

struct python_layout;                             /* pylayout.h */
extern const struct python_layout *python_layout; /* null = no Python, or unknown */
extern uint32_t python_version;                   /* PY_VERSION_HEX, 0 = no Python in this image */
/* Finds the interpreter among the loaded images. Context: normal. */
void python_init(void);
/* The calling thread's PyThreadState, null if none. Context: signal. */
void *python_thread_state(void);
/* Is the interpreter taking itself apart, or has it? Context: signal. */
bool python_finalizing(void);

/* ---- images.c: what an address belongs to ---- */

struct image {
  uintptr_t start, end; /* of an executable segment */
  uintptr_t bias;
  uint32_t pc_class; /* PC_* */
};
/* Context: normal. */
void images_init(void);
/* Looks whether libraries came or went, at most a few reads when none did. Context: signal. */
void images_refresh(void);
/* Modules will be written again by this process. Context: signal. */
void images_postfork_child(void);
const struct image *images_find(uintptr_t address);
/* How often a library was closed, or UINT32_MAX while one is. Context: signal. */
uint32_t images_closed_count(void);
/* What the native stack tells, from the interrupted instruction up to the bytecode loop. Context: signal. */
struct native_evidence {
  uintptr_t extension_pc;
  uintptr_t eval_frame; /* lowest known address of the bytecode loop's C frame; 0 = not met */
  uint32_t flags;       /* TICK_EVAL_FOUND | TICK_VECTORCALL | ... | PC_* << TICK_PC_SHIFT */
};
void images_scan(uintptr_t pc, uintptr_t sp, uint64_t *words, size_t capacity, struct native_evidence *out);

/* ---- scratch.c: memory for a sample in progress, so that handlers need little stack ---- */

#define MAX_FRAMES 512
#define SCAN_WORDS 384
#define MAX_CODE_BYTES 208 /* of a code object, without its bytecode */
#define NAME_BYTES 32      /* of a name's str object: its length and hash */
struct frame_entry {
  uintptr_t frame;
  uintptr_t code;
  uint64_t hash; /* of the code object; 0 = not yet known */
  uint64_t node; /* of the stack up to here */
  int32_t instruction;
  int32_t owner;
};
struct scratch {
  _Atomic uint32_t owner; /* 0 = free */
  uint32_t frames;
  uint32_t walks; /* how often this scratch was used: which old frames are verified again */
  struct frame_entry entry[MAX_FRAMES];
  struct iovec work[SAFE_READ_MANY];
  char copy[128]; /* of a frame */
  union {
    uint64_t words[SCAN_WORDS];
    struct {
      char codes[SAFE_READ_MANY * MAX_CODE_BYTES];
      char names[SAFE_READ_MANY * NAME_BYTES];
    };
  };
};
/* Null when all are in use (counted). Context: signal. */
struct scratch *scratch_take(void);
void scratch_give(struct scratch *scratch);
void scratch_postfork_child(void);

/* ---- frames.c: the Python stack of the calling thread ---- */

struct python_stack {
  uint64_t hash; /* 0 = none */
  uint8_t opcodes[TICK_OPCODES];
  uint32_t flags; /* TICK_GC | TICK_TORN */
};
/* Walks and interns. `eval_frame` (of the native evidence; 0 = unknown) is a second source for the innermost frame.
 * Context: signal. */
#define FIND_EVAL_FRAME UINTPTR_MAX /* it lies above the caller's own frame, to be looked for when it is needed */
void frames_sample(void *thread_state, uintptr_t eval_frame, struct scratch *scratch, struct python_stack *out);

/* ---- threads.c ---- */

struct thread_state {
  uint32_t id;    /* 0 = not registered */
  uint32_t ended; /* its end record is written */
  int32_t tid;
  uint32_t board;       /* its entry of the board, from 1; 0 = none */
  uint32_t engine;      /* ENGINE_* */
  int32_t perf_fd;      /* -1 = none */
  int32_t perf_was;     /* the one before, whose last signal may still be on its way; -1 = none */
  int32_t perf_slot;    /* where threads.c lists the descriptor */
  int32_t user_timer;   /* POSIX timer ids, -1 = none: user time (engine posix), */
  int32_t kernel_timer; /* kernel time (both engines) */
  int64_t cpu_start_ns; /* clock and usage when recording of this thread began */
  int64_t user_start_ns;
  int64_t system_start_ns;
  int64_t system_seen_ns;      /* kernel time already looked at */
  int64_t user_system_seen_ns; /* engine posix: kernel time at the last user tick */
  int64_t user_carry_ns;       /* engine posix: weight of ticks that fell on kernel time */
  int64_t next_user_ns;        /* engine posix: CPU time of the next tick */
  int64_t perf_user_ns;        /* user time at the last perf tick */
  int64_t mean_ns;             /* the interval that the running period was drawn under: what its tick stands for */
  bool standing;               /* the recording is paused, and this thread has noticed */
  bool perf_spent, user_spent; /* the timer fired meanwhile and was not set again */
  int64_t unseen_cpu_ns;       /* clock and usage of the thread's pauses; while standing, less the clocks at the */
  int64_t unseen_user_ns;      /* beginning of this one */
  int64_t unseen_system_ns;
  uint64_t random;
};
extern THREAD_LOCAL struct thread_state this_thread;
/* 0 = ok. Context: normal. */
int threads_init(void);
/* Makes the calling thread known and arms it. The clocks count from here if `from_now`, else from the thread's birth.
 * Context: malloc. */
void threads_begin(bool from_now);
/* Writes its end record and disarms it. Context: normal. */
void threads_end(void);
/* The end record alone: the thread goes on (exec may fail). Context: signal. */
void threads_write_end(void);
/* The calling thread is the only one of a new process. Context: signal. */
void threads_postfork_child(void);
/* The same in a child that is not recorded: the parent's events are closed, nothing begins. Context: signal. */
void threads_forget(void);
int threads_live(void);
/* Descriptors that carry ticks. Context: signal. */
int32_t threads_list_descriptor(int fd);
void threads_unlist_descriptor(int32_t slot);

/* ---- board.c: which threads live, for the watcher ---- */

/* Puts the calling thread on the board, or takes it off. Context: malloc. */
void board_begin(void);
void board_end(void);

/* ---- ticks.c ---- */

bool ticks_handle(siginfo_t *info, void *context);
/* Arms / disarms the calling thread. Context: signal. */
void ticks_arm(void);
void ticks_disarm(void);
/* Is this descriptor still the event that we opened for thread tid? Context: signal. */
bool ticks_owns_descriptor(int fd);
void ticks_postfork_child(void);
/* Adds the calling thread's clocks to what it used while paused (sign 1), or takes them off (-1). Context: signal. */
void ticks_count_unseen(int64_t sign);
/* While the process has one thread, limits may be changed for a moment. Context: signal. */
void ticks_alone(bool alone);

/* ---- memory.c: counters, the threshold sampler, the countdown ---- */

/* Who asked: malloc's callers, or Python's allocators. */
enum { NATIVE, PYTHON, STREAMS };

/* What the calling thread allocated and freed since its last flush, counted down, so that one instruction counts and
 * compares. Invariants: left == room - bytes allocated, free_left == free_room - bytes freed; every counted byte is in
 * exactly one counter of one thread, or in the process's. */
struct memory_stream {
  int64_t left;      /* < 0: the slow path looks what is due; 0 at first: the first block registers the thread */
  int64_t free_left; /* the same of frees */
  int64_t room;      /* up to the byte before the flush limit, or sample_at, or the next look, what comes first */
  int64_t free_room; /* up to the byte before the flush limit */
  int64_t sample_at; /* in allocated bytes: where the next sample is due */
  int64_t interval;  /* under which it was drawn; 0 = none is due */
};
#define NOT_DRAWN (-1) /* an interval: of a thread that has allocated nothing yet */
struct memory_state {
  uint32_t python_depth; /* > 0 inside one of Python's allocators */
  struct memory_stream stream[STREAMS];
  int64_t python_outside_pools; /* allocated - freed, through Python's allocators but not from a pool */
  uintptr_t busy;               /* inside the slow path: where its stack frame is */
  int64_t now_ns;               /* when the slow path was entered: a clock costs a system call on some hosts */
  int64_t noted;                /* of what the streams have counted, so much was told to the sampler */
  uint64_t random;
  uintptr_t untyped; /* the last sampled block of Python's, whose type is not known yet */
  uint64_t untyped_id;
};
#define NEW_MEMORY_STATE                                                                                               \
  { .stream = {{.interval = NOT_DRAWN}, {.interval = NOT_DRAWN}} }
extern THREAD_LOCAL struct memory_state this_memory;

/* A block that was allocated just now. */
struct block {
  uintptr_t address;
  size_t size;     /* as requested */
  size_t usable;   /* as given */
  uint16_t source; /* ALLOC_* */
  bool python;
  bool mapping; /* followed by mappings.c */
};

/* What the malloc family does: before libc is ready, forwarding only, counting, and counting blocks of libc's own
 * allocator, whose sizes stand in front of them. */
enum memory_mode { MEMORY_EARLY, MEMORY_FORWARD, MEMORY_COUNT, MEMORY_COUNT_LIBC };
extern enum memory_mode memory_mode;
static inline bool memory_counts(void) { return likely(memory_mode >= MEMORY_COUNT); }
/* Starts counting if memory is to be recorded; called once the spool is open. Context: normal. */
void memory_init(void);
/* The slow paths: flush, and sample what is due. moved: by how much the footprint grew with the block.
 * Context: malloc. */
void memory_stop_at_allocated(int which, const void *block, size_t size, size_t usable, int source, size_t moved);
void memory_stop_at_freed(size_t bytes);
/* Counts a mapping that had `before` bytes until now (0: it is new); the id of its sample, 0 = it is none.
 * Context: malloc. */
uint64_t memory_mapped(const struct block *block, size_t before);
/* Hash of the calling thread's Python stack; 0 = none. Context: malloc. */
uint64_t memory_stack(void);
/* Writes what the heap consists of now. Context: malloc. */
void memory_write_heap(void);
void memory_thread_end(void);
void memory_postfork_child(void);
/* Context: signal. */
void memory_footprint(int64_t *total, int64_t *python);

static inline void memory_count_allocated(struct memory_state *m, int which, const void *block, size_t size,
                                          size_t usable, int source) {
  struct memory_stream *s = &m->stream[which];
  if (unlikely((s->left -= (int64_t)usable) < 0)) memory_stop_at_allocated(which, block, size, usable, source, usable);
}
static inline void memory_count_freed(struct memory_state *m, int which, size_t usable) {
  struct memory_stream *s = &m->stream[which];
  if (unlikely((s->free_left -= (int64_t)usable) < 0)) memory_stop_at_freed(usable);
}
/* A block that was resized: the footprint moves by the difference; the sampler takes it for a new block. Returns by how
 * much it grew. */
static inline int64_t memory_resize_stream(struct memory_stream *s, size_t before, size_t usable) {
  int64_t grown = (int64_t)usable - (int64_t)before;
  if (grown < 0) {
    if ((s->free_left += grown) < 0) memory_stop_at_freed((size_t)-grown);
    grown = 0;
  }
  if (s->interval) {
    s->sample_at -= (int64_t)usable - grown;
    if (s->sample_at <= s->room) {
      s->left -= s->room - (s->sample_at - 1);
      s->room = s->sample_at - 1;
    }
  }
  s->left -= grown;
  return grown;
}
static inline void memory_count_resized(struct memory_state *m, int which, const void *block, size_t size,
                                        size_t before, size_t usable, int source) {
  struct memory_stream *s = &m->stream[which];
  size_t grown = (size_t)memory_resize_stream(s, before, usable);
  if (unlikely(s->left < 0)) memory_stop_at_allocated(which, block, size, usable, source, grown);
}

/* ---- sampler.c: the allocation sampler ---- */

struct live_sample; /* live.h */

void sampler_init(void);
/* The interval in force, adapted to the rate; 0 = off. Context: malloc. */
int64_t sampler_interval(void);
/* Does it follow the rate? Context: malloc. */
bool sampler_adapts(void);
/* So much was allocated. Context: malloc. */
void sampler_note_volume(int64_t bytes);
/* Bytes up to the next sample, exponential with that mean. Context: malloc. */
int64_t sampler_gap(uint64_t *random, int64_t mean);
/* Writes a sample and follows it; its id. Context: malloc. */
uint64_t sampler_write(const struct block *block, int64_t interval, bool maximum, uint64_t stack, int64_t t_ns);
/* A block that may be followed is about to be freed. Context: malloc. */
void sampler_freed(uintptr_t address);
/* The same for a block that is about to be resized: takes it out, and writes its end once it has moved.
 * Context: malloc. */
bool sampler_take(uintptr_t address, struct live_sample *out);
void sampler_resized(const struct live_sample *sample, bool lives_on);
/* It was not resized. Context: malloc. */
void sampler_put_back(uintptr_t address, const struct live_sample *sample);
/* Writes the end of `bytes` of a sample. Context: malloc. */
void sampler_ended(const struct live_sample *sample, uint64_t bytes, uint64_t stack, uint32_t flags);
/* A footprint sample was taken: growth begins anew. Context: malloc. */
void sampler_begin_growth(void);
/* Draws one of the samples taken since then, or since the last call, that are still alive, by their weight in bytes, or else takes the
 * newest before them that is; false = there is none. Context: malloc. */
bool sampler_draw_survivor(uint64_t *random, uint32_t *thread, uint64_t *stack);
void sampler_postfork_child(void);

/* ---- objects.c: what is in a sampled block ---- */

/* Hash of the name of the type of the Python object in the block, which is written on first sight; 0 = none.
 * held: the caller has the block, nobody can free it meanwhile. Context: malloc. */
uint64_t objects_type(uintptr_t block, size_t bytes, bool held);
/* Garbage collections so far; writes the counts, now and then, when there were more. Context: signal. */
uint32_t objects_collections(const void *thread_state);

/* ---- mappings.c: anonymous mappings that libraries make ---- */

/* Context: malloc. */
void mappings_sizes(int64_t *mapped, int64_t *reserved);
/* Pages of 4 KiB that are mapped and not resident, looked up for at most LOOKED_AT of them. Context: malloc. */
uint32_t mappings_untouched_pages(void);
void mappings_postfork_child(void);

/* ---- copies.c: the volume of memcpy and memmove ---- */

void copies_init(void);
/* What the thread has copied since its last sample goes to whoever samples next. Context: malloc. */
void copies_thread_end(void);
/* Writes what is left over. Context: normal. */
void copies_process_end(void);
void copies_postfork_child(void);

/* ---- devices.c: what calls of the CUDA libraries copy, allocate and wait (cuda.h has its inner side) ---- */

/* Writes what threads have not told yet, but for those that are just adding to it. Context: signal. */
void devices_flush_all(void);
/* The same of the calling thread, at its end, and if it is due. Context: signal. */
void devices_thread_end(void);
void devices_tick(void);
void devices_postfork_child(void);

/* ---- slots.c: where calls of the CUDA libraries are met ---- */

/* Puts libraries under watch that were loaded since the last look. Context: normal. */
void slots_refresh(void);
void slots_postfork_child(void);

/* ---- pyalloc.c: Python's allocators ---- */

/* Puts ours around Python's. Before Py_Initialize. Context: normal. */
void pyalloc_init(void);
/* Counts what can only be told at the end. Context: normal. */
void pyalloc_end(void);
int64_t pyalloc_arena_bytes(void);

/* ---- process.c: the life of a process ---- */

/* Notices a child that came by _Fork or raw clone, which run no fork handlers. Cheap. Context: signal. */
void process_check_fork(void);
/* The calling thread is about to exec. In a vfork child, whose memory is its parent's, nothing is done.
 * Context: signal. */
void process_before_exec(void);
void process_after_failed_exec(void);
/* Is this the process that the spool knows, rather than a vfork child of it? Context: signal. */
bool process_is_recorded_one(void);

#pragma GCC visibility pop

#endif
