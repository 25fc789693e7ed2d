/* Reads where the tasks of another process are suspended: it begins at the task's coroutine and follows each coroutine
 * to the object that it awaits.
 *
 * Many tasks are read at once, level by level, to save system calls. If the process has run in the meantime, everything
 * is read twice. A task counts if both reads gave the same result, because all first reads come before all second ones,
 * so that it was in this state between them. */
#include "watch/tasks.h"

#include "shared/base.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/stacks/dictionary.h"
#include "shared/stacks/pylayout.h"
#include "shared/words.h"
#include "watch/asyncio.h"
#include "watch/reading/labels.h"
#include "watch/reading/observation.h"
#include "watch/reading/places.h"
#include "watch/reading/proc.h"
#include "watch/reading/remote.h"
#include "watch/threads.h"

#define OBJECT_BYTES 208 /* bytes read of a generator: from 3.11 on, with its frame and some of its value slots */
#define LEAST_OBJECT_BYTES 152
#define FRAME_BYTES 424 /* 3.10: bytes read of a generator's frame */
#define LEAST_FRAME_BYTES 112
#define REFERENCE_BYTES 32
#define REFERENCE_OBJECT 16
#define TASK_LOOP 16
#define TASK_BYTES 256
#define WRAPPED 16 /* offset of the awaitable in a wrapper */
#define MAX_DEPTH 64
#define MAX_SLOTS 65536

/* The walk of one task, from its coroutine inwards. */
struct walk {
  uintptr_t at;      /* address of the next object; 0 = end of the walk */
  int32_t last;      /* index of the innermost step so far; -1 = none */
  uint64_t identity; /* hash of addresses: the same in two reads = the task has not moved */
  uint64_t place;    /* hash of code and instructions: the same = the same place in the program */
};
static struct walk walks[TASKS_AT_ONCE];
static uint64_t labels[TASKS_AT_ONCE]; /* hashes of their labels; 0 = none */
static char objects[TASKS_AT_ONCE * OBJECT_BYTES], frames[TASKS_AT_ONCE * FRAME_BYTES];

static uint64_t mixed(uint64_t hash, uint64_t value) { return dictionary_node_hash(hash, value, 0); }

static bool is_310(void) { return target.layout->frame_owner < 0; }

/* ---- one generator ---- */

enum generator { SUSPENDED_AT_YIELD, SUSPENDED_IN_AWAIT, NOT_SUSPENDED };

/* True if the generator is suspended in `await` or `yield from`. On 3.10, the next instruction is then YIELD_FROM; on
 * 3.11 and 3.12 it is RESUME, whose argument says so. */
static bool awaits_by_bytecode(const char *frame) {
  enum { YIELD_FROM = 72, RESUMED_IN_YIELD_FROM = 2 };
  uintptr_t instruction = word_at(frame, target.layout->frame_instruction) + 2;
  unsigned char unit[2] = {0, 0};
  if (!is_310()) return safe_read(unit, (void *)instruction, 2) && (unit[1] & 3) >= RESUMED_IN_YIELD_FROM;
  uintptr_t code = word_at(frame, target.layout->frame_code);
  uintptr_t bytes = remote_word(code + (uintptr_t)target.layout->code_bytecode);
  intptr_t index = int_at(frame, target.layout->frame_instruction) + 1;
  return bytes && safe_read(unit, (void *)(bytes + BYTES_DATA + (uintptr_t)(2 * index)), 2) && unit[0] == YIELD_FROM;
}

/* `state` is the state field of the generator. From 3.13 on it also says whether the generator is in `await`. */
static enum generator state_of(int state, const char *frame, enum kind kind) {
  if (target.layout->version >= 0x30f)
    return state == 2 || state == 3 ? SUSPENDED_IN_AWAIT : state == 1 ? SUSPENDED_AT_YIELD : NOT_SUSPENDED;
  if (target.layout->version >= 0x30d) {
    return state == -1 ? SUSPENDED_IN_AWAIT : state == -2 ? SUSPENDED_AT_YIELD : NOT_SUSPENDED;
  }
  if (state != -1) return NOT_SUSPENDED;
  if (kind != KIND_GENERATOR) return SUSPENDED_IN_AWAIT;
  return awaits_by_bytecode(frame) ? SUSPENDED_IN_AWAIT : SUSPENDED_AT_YIELD;
}

/* Returns the address of the value slot that holds what the frame awaits: the last one in use, from 3.15 on the one before
 * it; 0 = none. */
static uintptr_t awaited_slot(uintptr_t address, const char *frame) {
  const struct python_layout *layout = target.layout;
  uintptr_t values = is_310() ? word_at(frame, layout->frame_values) : address + (uintptr_t)layout->frame_values;
  intptr_t depth = layout->frame_depth >= 0 ? int_at(frame, layout->frame_depth)
                                            : (intptr_t)(word_at(frame, layout->frame_top) - values) / 8;
  depth -= layout->version >= 0x30f;
  return depth > 0 && depth <= MAX_SLOTS ? values + 8 * (uintptr_t)(depth - 1) : 0;
}

/* Returns the object that the frame awaits; 0 = none. `frame` holds `size` bytes from `address` on. */
static uintptr_t awaited_by(uintptr_t address, const char *frame, size_t size) {
  uintptr_t slot = awaited_slot(address, frame);
  if (!slot) return 0;
  bool is_here = slot >= address && slot - address <= size - 8;
  return (is_here ? word_at(frame, (int)(slot - address)) : remote_word(slot)) & target.layout->reference_mask;
}

static bool add_step(struct walk *walk, uintptr_t address, const char *frame) {
  struct step *step = NULL;
  if (places_add(address, frame, &step) != CHAIN_FRAME) return false;
  step->outer = walk->last;
  walk->last = places_index(step);
  walk->identity = dictionary_node_hash(mixed(walk->identity, address), step->entry.code, step->entry.instruction);
  walk->place = dictionary_node_hash(walk->place, step->entry.code, step->entry.instruction);
  return true;
}

/* Takes one step inwards. If the outermost coroutine is not suspended, the task runs or has not begun. If an inner one
 * is not suspended, the task has moved during the walk. */
static void step_in(struct task_observation *observation, struct walk *walk, enum kind kind, int state,
                    uintptr_t address, const char *frame, size_t size) {
  enum generator generator = state_of(state, frame, kind);
  walk->at = 0;
  if (generator == NOT_SUSPENDED) {
    observation->state = walk->last < 0 ? TASK_RUNNING : TASK_MOVING;
    return;
  }
  if (!add_step(walk, address, frame)) {
    observation->state = TASK_MOVING;
    return;
  }
  observation->state = TASK_SUSPENDED;
  if (generator == SUSPENDED_IN_AWAIT) walk->at = awaited_by(address, frame, size);
  walk->identity = mixed(walk->identity, walk->at);
}

/* ---- one level: the next object of each task ---- */

/* Stores the address of the next object of each task (0 = none), and returns the number of those that are not 0. */
static int next_objects(const struct task_observation *observations, int count, uintptr_t *from) {
  int active = 0;
  for (int i = 0; i < count; i++) {
    from[i] = observations[i].state == TASK_GONE || observations[i].state == TASK_MOVING ? 0 : walks[i].at;
    active += from[i] != 0;
  }
  return active;
}

/* Reads `size` bytes of each object, or only `least` if the object lies at the end of a mapping. */
static void read_objects(char *to, const uintptr_t *from, int count, size_t size, size_t least) {
  remote_read_each(to, from, count, size);
  for (int i = 0; i < count; i++) {
    char *bytes = to + (size_t)i * size;
    if (from[i] && !word_at(bytes, OBJECT_TYPE)) (void)!safe_read(bytes, (void *)from[i], least);
  }
}

static bool is_generator(enum kind kind) {
  return kind == KIND_COROUTINE || kind == KIND_GENERATOR || kind == KIND_ASYNC_GENERATOR;
}

static void step_in_310(struct process *process, struct task_observation *observations, int count) {
  uintptr_t from[TASKS_AT_ONCE];
  for (int i = 0; i < count; i++) {
    const char *object = objects + (size_t)i * OBJECT_BYTES;
    enum kind kind = remote_kind(&process->asyncio.kinds, word_at(object, OBJECT_TYPE));
    from[i] = walks[i].at && is_generator(kind) ? word_at(object, target.layout->generator_frame) : 0;
  }
  read_objects(frames, from, count, FRAME_BYTES, LEAST_FRAME_BYTES);
  for (int i = 0; i < count; i++) {
    const char *object = objects + (size_t)i * OBJECT_BYTES, *frame = frames + (size_t)i * FRAME_BYTES;
    enum kind kind = remote_kind(&process->asyncio.kinds, word_at(object, OBJECT_TYPE));
    if (!walks[i].at || !is_generator(kind)) continue;
    int state = from[i] ? (signed char)frame[target.layout->generator_state] : 0; /* without a frame it has ended */
    step_in(&observations[i], &walks[i], kind, state, from[i], frame, FRAME_BYTES);
  }
}

static void step_in_all(struct process *process, struct task_observation *observations, int count) {
  int at = target.layout->generator_frame;
  for (int i = 0; i < count; i++) {
    const char *object = objects + (size_t)i * OBJECT_BYTES;
    enum kind kind = remote_kind(&process->asyncio.kinds, word_at(object, OBJECT_TYPE));
    if (!walks[i].at || !is_generator(kind)) continue;
    int state = (signed char)object[target.layout->generator_state];
    step_in(&observations[i], &walks[i], kind, state, walks[i].at + (uintptr_t)at, object + at,
            OBJECT_BYTES - (size_t)at);
  }
}

/* Handles the objects that are not generators: the walk continues through wrappers, and ends at all others. */
static void step_through_others(struct process *process, struct task_observation *observations, int count) {
  for (int i = 0; i < count; i++) {
    const char *object = objects + (size_t)i * OBJECT_BYTES;
    enum kind kind = remote_kind(&process->asyncio.kinds, word_at(object, OBJECT_TYPE));
    if (!walks[i].at || is_generator(kind)) continue;
    walks[i].at = kind == KIND_WRAPPER ? word_at(object, WRAPPED) : 0;
    walks[i].identity = mixed(walks[i].identity, walks[i].at);
    if (walks[i].last < 0 && kind != KIND_WRAPPER) observations[i].state = TASK_UNREAD; /* coroutine in native code */
  }
}

static void walk_in(struct process *process, struct task_observation *observations, int count) {
  uintptr_t from[TASKS_AT_ONCE];
  places_clear();
  for (int depth = 0; depth < MAX_DEPTH && next_objects(observations, count, from); depth++) {
    for (int i = 0; i < count; i++) walks[i].at = from[i];
    read_objects(objects, from, count, OBJECT_BYTES, is_310() ? WRAPPED + 8 : LEAST_OBJECT_BYTES);
    step_through_others(process, observations, count);
    if (is_310()) {
      step_in_310(process, observations, count);
    } else {
      step_in_all(process, observations, count);
    }
  }
  for (int i = 0; i < count; i++) observations[i].truncated = walks[i].at != 0;
}

/* ---- the tasks themselves ---- */

static void read_references(struct process *process, const uintptr_t *references, struct task_observation *observations,
                            int count) {
  char *bytes = objects;
  remote_read_each(bytes, references, count, REFERENCE_BYTES);
  for (int i = 0; i < count; i++, bytes += REFERENCE_BYTES) {
    enum kind kind = remote_kind(&process->asyncio.kinds, word_at(bytes, OBJECT_TYPE));
    uintptr_t task = kind == KIND_REFERENCE ? word_at(bytes, REFERENCE_OBJECT) : kind == KIND_TASK ? references[i] : 0;
    observations[i] = (struct task_observation){.task = task & 7 ? 0 : task, .state = TASK_GONE};
  }
}

/* Interprets the bytes of a task. They are zero if they could not be read. */
static void interpret_task(struct process *process, struct task_observation *observation, const char *bytes,
                           int64_t now_ns) {
  int at = process->asyncio.coroutine_at;
  enum kind kind = remote_kind(&process->asyncio.kinds, word_at(bytes, OBJECT_TYPE));
  if (!observation->task || kind != KIND_TASK || !at) {
    if (observation->task && word_at(bytes, OBJECT_TYPE)) observation->state = TASK_UNREAD;
    return;
  }
  observation->thread = asyncio_thread(process, word_at(bytes, TASK_LOOP), now_ns);
  if (!observation->thread) return; /* no thread runs the task's loop */
  observation->coroutine = word_at(bytes, at);
  observation->name_object = word_at(bytes, at + 8);
  observation->context = word_at(bytes, at + 16);
  observation->state = TASK_RUNNING;
}

static void read_tasks(struct process *process, struct task_observation *observations, int count, int64_t now_ns) {
  uintptr_t from[TASKS_AT_ONCE];
  for (int i = 0; i < count; i++) {
    from[i] = observations[i].task;
    if (from[i] && !process->asyncio.coroutine_at) asyncio_coroutine_at(process, from[i]);
  }
  size_t size = (size_t)process->asyncio.coroutine_at + 24;
  if (size > TASK_BYTES || count <= 0) return;
  remote_read_each(frames, from, count, size);
  for (int i = 0; i < count; i++) {
    interpret_task(process, &observations[i], frames + (size_t)i * size, now_ns);
    walks[i] = (struct walk){.at = observations[i].coroutine, .last = -1, .place = process->id};
    walks[i].identity = mixed(observations[i].task, observations[i].coroutine);
  }
}

static void check_names(struct task_observation *observations, int count) {
  uintptr_t from[TASKS_AT_ONCE];
  for (int i = 0; i < count; i++) from[i] = observations[i].state == TASK_SUSPENDED ? observations[i].name_object : 0;
  remote_read_each(frames, from, count, NAME_PEEK);
  for (int i = 0; i < count; i++) observations[i].name_check = names_check(from[i], frames + (size_t)i * NAME_PEEK);
}

/* ---- all of it ---- */

/* The name of a task is followed by its context. */
static void read_labels(struct process *process, struct task_observation *observations, int count) {
  uintptr_t contexts[TASKS_AT_ONCE];
  if (!process->labels.variable) return;
  for (int i = 0; i < count; i++) contexts[i] = observations[i].state == TASK_SUSPENDED ? observations[i].context : 0;
  labels_read(&process->labels, &process->asyncio.kinds, contexts, count, labels);
  for (int i = 0; i < count; i++) {
    if (!labels[i]) continue;
    walks[i].identity = mixed(walks[i].identity, labels[i]);
    walks[i].place = mixed(walks[i].place, labels[i]);
  }
}

static void observe_all(struct process *process, const uintptr_t *references, struct task_observation *observations,
                        int count, int64_t now_ns) {
  memset(labels, 0, sizeof labels);
  read_references(process, references, observations, count);
  read_tasks(process, observations, count, now_ns);
  walk_in(process, observations, count);
  read_labels(process, observations, count);
}

void awaits_read(struct process *process, const uintptr_t *references, struct task_observation *observations, int count,
                 int64_t now_ns) {
  uint64_t before[TASKS_AT_ONCE];
  int64_t clock_ns = proc_clock_ns(process->pid);
  observe_all(process, references, observations, count, now_ns);
  bool has_run = proc_clock_ns(process->pid) != clock_ns;
  for (int i = 0; i < count; i++) before[i] = walks[i].identity;
  if (has_run) observe_all(process, references, observations, count, now_ns);
  check_names(observations, count);
  for (int i = 0; i < count; i++) {
    if (observations[i].state == TASK_SUSPENDED && has_run && before[i] != walks[i].identity)
      observations[i].state = TASK_MOVING;
    if (observations[i].state == TASK_MOVING && !has_run) {
      observations[i].state = TASK_SUSPENDED;
      loss_add(LOSS_tasks_torn);
    } else if (observations[i].state == TASK_SUSPENDED) {
      target.label = labels[i];
      places_stack(walks[i].place, walks[i].last, observations[i].truncated, &observations[i].stack);
    }
  }
  target.label = 0;
}
