/* Reads the Python stack of a thread of another process.
 *
 * The other process may run at the same time, so every address may be invalid by the time it is read. Therefore all
 * reads are safe reads, loops are bounded, and a stack counts only if each of its frames leads to a code object
 * (chain.c). */
#include "watch/stack.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/stacks/chain.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/scratch.h"
#include "shared/stacks/target.h"
#include "shared/words.h"
#include "watch/asyncio.h"
#include "watch/reading/labels.h"
#include "watch/reading/remote.h"
#include "watch/threads.h"

#define MAX_INTERPRETERS 64
#define MAX_STATES 16384  /* of all interpreters, that one search reads */
#define STATE_BYTES 320   /* bytes read of a PyThreadState */
#define CHUNK_BYTES 16384 /* bytes read of the newest chunk of the frame stack, at most */
#define FRAME_ROOM 128    /* upper limit of frame_bytes */
#define SEARCH_NS 5000000 /* pause between two searches of one process */
#define YOUNG_NS 1000000000
#define MAX_TRIES 64 /* a search is made at attempts 1, 2, 4, ... 64, then at each 64th */

static struct scratch scratch;
static struct {
  uintptr_t start;
  size_t bytes;
  char data[CHUNK_BYTES];
} chunk;

/* ---- the interpreter ---- */

static void choose_layout(struct watched *thread) {
  struct process *process = thread->process;
  const struct thread_entry *entry = &thread->entry;
  char runtime[RUNTIME_BYTES];
  process->runtime = entry->runtime;
  process->layout = NULL;
  if (!entry->python_version || !entry->runtime || !entry->code_type) return;
  if (!safe_read(runtime, (void *)(uintptr_t)entry->runtime, sizeof runtime)) {
    if (!threads_left(thread)) process_give_up(thread);
    return;
  }
  process->layout = pylayout_for(entry->python_version, runtime, &process->published);
}

bool stack_aim(struct watched *thread) {
  struct process *process = thread->process;
  safe_read_of(process_reads_by(thread), process->challenge);
  if (process->runtime != thread->entry.runtime) choose_layout(thread);
  target = (struct stack_target){.layout = process->layout,
                                 .code_type = thread->entry.code_type,
                                 .salt = process->id,
                                 .version = thread->entry.python_version,
                                 .thread = thread->entry.thread};
  return target.layout != NULL;
}

/* ---- the thread state ---- */

static uint32_t count_missing(const struct process *process) {
  uint32_t missing = 0;
  for (struct watched *each = process->threads; each; each = each->next) missing += each->state == 0;
  return missing;
}

/* Where libc keeps a thread's id in what pthread_self() points to: glibc on x86-64 and arm64, musl on both. */
static const int id_places[] = {720, 208, 48, 32};
#define IDENT_BYTES 724

static struct watched *find_tid(struct process *process, int32_t tid) {
  for (struct watched *each = process->threads; each; each = each->next) {
    if (each->entry.tid == tid) return each;
  }
  return NULL;
}

/* Finds the thread of an attached process with this ident. It is not among the facts of a thread that the kernel knows, but
 * libc keeps the thread's id there. (A thread state has it too, from 3.11 on, but after a fork that of the parent's thread.)
 * `tid_place` is learned where one of the places holds the id of a thread. */
static struct watched *find_ident(struct process *process, uint64_t ident) {
  char bytes[IDENT_BYTES];
  size_t got = safe_read_some(bytes, (void *)(uintptr_t)ident, sizeof bytes);
  for (size_t i = 0; i < sizeof id_places / sizeof *id_places; i++) {
    int place = process->tid_place ? process->tid_place : id_places[i];
    struct watched *found = got >= (size_t)place + 4 ? find_tid(process, int_at(bytes, place)) : NULL;
    if (found) process->tid_place = place;
    if (found || process->tid_place) return found;
  }
  return NULL;
}

/* Gives the state to the threads with this ident that have none, and returns their number. */
static uint32_t give_state(struct process *process, uintptr_t state, uint64_t ident) {
  uint32_t given = 0;
  if (!ident) return 0; /* the state is not bound to a thread yet */
  struct watched *unknown = process->attached ? find_ident(process, ident) : NULL;
  if (unknown && unknown->entry.pthread != ident) threads_set_ident(unknown, ident);
  for (struct watched *each = process->threads; each; each = each->next) {
    if (each->entry.pthread != ident || each->state) continue;
    each->state = state;
    given++;
  }
  return given;
}

/* What is left to do of one search. */
struct search {
  uint32_t missing; /* threads that still lack a state */
  int states;       /* states that may still be read */
};

/* The list begins with the newest states, so the search can end as soon as no thread lacks one. */
static void search_interpreter(struct process *process, uintptr_t interpreter, struct search *search) {
  const struct python_layout *layout = process->layout;
  char state[STATE_BYTES];
  uintptr_t at = remote_word(interpreter + (uintptr_t)layout->interp_threads);
  for (; at && search->missing && search->states > 0; search->states--) {
    if (!safe_read(state, (void *)at, (size_t)layout->tstate_thread + 8)) break;
    search->missing -= give_state(process, at, word_at(state, layout->tstate_thread));
    at = word_at(state, layout->tstate_next);
  }
}

static void search_states(struct process *process, uintptr_t runtime) {
  uintptr_t at = remote_word(runtime + (uintptr_t)process->layout->runtime_interpreters);
  struct search search = {count_missing(process), MAX_STATES};
  for (int i = 0; at && search.missing && search.states > 0 && i < MAX_INTERPRETERS; i++) {
    search_interpreter(process, at, &search);
    at = remote_word(at + (uintptr_t)process->layout->interp_next);
  }
}

static bool is_young(const struct watched *thread, int64_t now_ns) { return now_ns - thread->python_ns < YOUNG_NS; }

/* Threads of native libraries never get a state, so searches for the state of a thread become less and less
 * frequent, once its interpreter has had time to start. */
static bool find_state(struct watched *thread, int64_t now_ns) {
  struct process *process = thread->process;
  uint32_t tries = is_young(thread, now_ns) ? 0 : ++thread->state_tries;
  if ((tries & (tries - 1)) && tries % MAX_TRIES) return false;
  if (now_ns - process->searched_ns >= SEARCH_NS) {
    process->searched_ns = now_ns;
    search_states(process, thread->entry.runtime);
  }
  return thread->state != 0;
}

bool stack_may_find_state(const struct watched *thread, int64_t now_ns) {
  bool is_new = thread->process->runtime != thread->entry.runtime; /* its layout is chosen by the next read */
  return (is_new || thread->process->layout) && is_young(thread, now_ns);
}

uintptr_t stack_state(struct watched *thread, int64_t now_ns) {
  if (!thread->state) find_state(thread, now_ns);
  return thread->state;
}

void stack_search_labels(struct watched *thread, int64_t now_ns) {
  struct process *process = thread->process;
  if (!labels_search_due(&process->labels, now_ns) || process->layout->object_header) return;
  labels_search(&process->labels, &process->asyncio.kinds, asyncio_modules(process, thread->entry.runtime), now_ns);
}

/* ---- the frames ---- */

static const char *frame_at(uintptr_t address) {
  if (address < 65536 || (address & 7)) return NULL;
  if (chunk.bytes >= FRAME_ROOM && address >= chunk.start && address - chunk.start <= chunk.bytes - FRAME_ROOM)
    return chunk.data + (address - chunk.start);
  return safe_read(scratch.copy, (void *)address, (size_t)target.layout->frame_bytes) ? scratch.copy : NULL;
}

/* Copies the newest chunk of the frame stack with one read, up to the innermost frame, which is the last one in it. */
static void read_chunk(const char *state, uintptr_t frame) {
  chunk.bytes = 0;
  if (target.layout->tstate_chunk < 0) return;
  chunk.start = word_at(state, target.layout->tstate_chunk);
  size_t used = frame - chunk.start + FRAME_ROOM;
  if (used > sizeof chunk.data) used = sizeof chunk.data;
  chunk.bytes = safe_read_some(chunk.data, (void *)chunk.start, used);
}

static uintptr_t innermost(const char *state) {
  const struct python_layout *layout = target.layout;
  if (layout->tstate_frame >= 0) return word_at(state, layout->tstate_frame);
  uintptr_t frame = word_at(state, layout->tstate_cframe);
  return frame ? remote_word(frame + (uintptr_t)layout->cframe_frame) : 0;
}

static bool collect(uintptr_t address, bool *truncated) {
  scratch.frames = 0;
  for (int seen = 0; address; seen++) {
    *truncated = scratch.frames >= MAX_FRAMES || seen >= 2 * MAX_FRAMES;
    if (*truncated) return true;
    const char *frame = frame_at(address);
    if (!frame || !chain_add(&target, &scratch, address, frame)) return false;
    address = word_at(frame, target.layout->frame_previous);
  }
  return true;
}

/* Reads the thread state. False = it no longer belongs to this thread, so it is searched for again. */
static bool read_state(struct watched *thread, char *state) {
  if (safe_read(state, (void *)thread->state, STATE_BYTES) &&
      word_at(state, target.layout->tstate_thread) == thread->entry.pthread)
    return true;
  thread->state = 0;
  return false;
}

/* Returns the hash of the label in the thread's context; 0 = none. */
static uint64_t label_of(struct watched *thread, const char *state) {
  struct process *process = thread->process;
  uint64_t label = 0;
  uintptr_t context = word_at(state, target.layout->tstate_context);
  stack_search_labels(thread, clock_now_ns());
  if (process->labels.variable) labels_read(&process->labels, &process->asyncio.kinds, &context, 1, &label);
  return label;
}

static struct walked_stack walked = {.scratch = &scratch}; /* the stack that was read last */

static bool walk(struct watched *thread, uint64_t *hash) {
  char state[STATE_BYTES];
  bool truncated = false;
  if (!read_state(thread, state)) return false;
  uintptr_t frame = innermost(state);
  walked.interpreter = word_at(state, target.layout->tstate_interp);
  read_chunk(state, frame);
  if (!collect(frame, &truncated) || !chain_verify(&target, &scratch)) return false;
  if (truncated) loss_add(LOSS_deep_stack);
  walked.is_truncated = truncated;
  target.label = scratch.frames ? label_of(thread, state) : 0;
  *hash = scratch.frames ? chain_intern(&target, &scratch, truncated) : 0;
  return true;
}

const struct walked_stack *stack_walked(const struct watched *thread) {
  return thread->state && target.layout && scratch.frames ? &walked : NULL;
}

bool stack_read(struct watched *thread, uint64_t *hash) {
  *hash = 0;
  scratch.frames = 0;
  if (!stack_aim(thread)) return true;
  for (int attempt = 0; attempt < 3; attempt++) {
    if (!thread->state && !find_state(thread, clock_now_ns())) return true;
    if (walk(thread, hash)) return true;
  }
  return false;
}
