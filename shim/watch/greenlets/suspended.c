/* Reads where greenlets are suspended.
 *
 * Many are read at once, level by level, to save system calls. If the process has run in the meantime, everything is read
 * twice, and a greenlet counts if both reads gave the same result (watch/awaits.c gives the reason). */
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/stacks/chain.h"
#include "shared/stacks/dictionary.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/scratch.h"
#include "shared/words.h"
#include "watch/greenlets/greenlets.h"
#include "watch/greenlets/pools.h"
#include "watch/reading/observation.h"
#include "watch/reading/places.h"
#include "watch/reading/proc.h"
#include "watch/reading/remote.h"

#define STATE_BYTES 256
#define GREENLET_BYTES 40
#define GREENLET_DICT 24
#define FRAME_OBJECT_BYTES 32
#define OBJECT_FRAME 24 /* from 3.11 on: offset of the interpreter's frame in a frame object */
#define MAX_DEPTH 200
#define WINDOW_BYTES 1024
#define VERIFIED 4096
#define AGAIN 16 /* a known greenlet is read again at each 16th use */
/* Offsets of the fields of a C++ object from that of its frame: its part of the thread's C stack, and how many bytes of that
 * are copied. They are the same in all releases of greenlet from 3.0.0 to 3.5.6. */
#define STACK_START (-48)
#define STACK_STOP (-40)
#define STACK_SAVED (-24)

/* The walk of one greenlet, from its innermost frame outwards. */
struct walk {
  uintptr_t at;            /* address of the next frame; 0 = end of the walk */
  int depth;               /* number of frames so far */
  int32_t innermost, last; /* indexes of the first and the last step so far; -1 = none */
  uint64_t identity;       /* hash of addresses: the same in two reads = the greenlet has not moved */
  uint64_t place;          /* hash of code and instructions: the same = the same place in the program */
};
static struct walk walks[TASKS_AT_ONCE];
static char states[TASKS_AT_ONCE * STATE_BYTES], bytes[TASKS_AT_ONCE * MAX_FRAME_BYTES];

int greenlets_frame_at(void) { return target.layout->version == 0x30a ? 120 : 104; }

/* ---- the greenlets themselves ---- */

static bool read_hub(struct greenlets *greenlets, struct hub *hub) {
  char bytes_of[STATE_BYTES];
  size_t size = (greenlets->size_class + 1) * 16;
  hub->state = remote_word(hub->greenlet + GREENLET_STATE);
  if (!hub->state || !safe_read(bytes_of, (void *)hub->state, size)) return false;
  if (word_at(bytes_of, 0) != greenlets->table || word_at(bytes_of, STATE_GREENLET) != hub->greenlet) return false;
  uintptr_t main = word_at(bytes_of, greenlets->parent_at - 16);
  hub->main = main ? remote_word(main + GREENLET_STATE) : 0;
  int frame_at = greenlets_frame_at();
  if (word_at(bytes_of, frame_at + STACK_START) && !word_at(bytes_of, frame_at)) hub->has_run = true; /* it runs now */
  return true;
}

void greenlets_refresh_hubs(struct greenlets *greenlets) {
  int kept = 0;
  for (int i = 0; i < greenlets->hub_count; i++) {
    struct hub hub = greenlets->hubs[i];
    if (read_hub(greenlets, &hub)) greenlets->hubs[kept++] = hub;
  }
  greenlets->hub_count = kept;
}

static const struct hub *find_hub(const struct greenlets *greenlets, uintptr_t greenlet) {
  for (int i = 0; i < greenlets->hub_count; i++) {
    if (greenlets->hubs[i].greenlet == greenlet) return &greenlets->hubs[i];
  }
  return NULL;
}

void greenlets_note_hub(struct greenlets *greenlets, struct kinds *kinds, uintptr_t greenlet) {
  struct hub hub = {.greenlet = greenlet};
  if (greenlet < 65536 || (greenlet & 7) || find_hub(greenlets, greenlet)) return;
  if (greenlets_type(greenlets, kinds, remote_word(greenlet + OBJECT_TYPE)) != TYPE_HUB || !read_hub(greenlets, &hub))
    return;
  if (greenlets->hub_count < HUBS) {
    greenlets->hubs[greenlets->hub_count++] = hub;
  } else {
    greenlets->polls.unread_now++;
  }
}

static bool is_main(const struct greenlets *greenlets, uintptr_t state) {
  for (int i = 0; i < greenlets->hub_count; i++) {
    if (greenlets->hubs[i].main == state) return true;
  }
  return false;
}

/* True if the greenlet is the child of a hub that has run. */
static bool is_child(struct greenlets *greenlets, struct kinds *kinds, uintptr_t parent) {
  if (!find_hub(greenlets, parent)) greenlets_note_hub(greenlets, kinds, parent);
  const struct hub *hub = find_hub(greenlets, parent);
  return hub && hub->has_run;
}

/* Interprets the bytes of a greenlet and of its C++ object. They are zero if they could not be read. */
static void interpret(struct greenlets *greenlets, struct kinds *kinds, struct task_observation *out, const char *state,
                      const char *greenlet) {
  int frame_at = greenlets_frame_at();
  uintptr_t start = word_at(state, frame_at + STACK_START);
  enum greenlet_type type = greenlets_type(greenlets, kinds, word_at(greenlet, OBJECT_TYPE));
  if (type == TYPE_HUB) greenlets_note_hub(greenlets, kinds, out->task);
  if (type != TYPE_GREENLET || word_at(greenlet, GREENLET_STATE) != out->coroutine) return;
  out->alone = is_main(greenlets, out->coroutine);
  if (!out->alone && !is_child(greenlets, kinds, word_at(state, greenlets->parent_at))) return;
  out->name_object = word_at(greenlet, GREENLET_DICT);
  out->name_check = word_at(greenlet, OBJECT_TYPE);
  out->state = TASK_RUNNING;
  if (start <= 1 || !word_at(state, frame_at)) return;
  uintptr_t bytes_used = word_at(state, frame_at + STACK_STOP) - start;
  out->stack_start = start;
  out->state = bytes_used && word_at(state, frame_at + STACK_SAVED) <= bytes_used ? TASK_SUSPENDED : TASK_UNREAD;
}

/* The first bytes of greenlets that were read last. They lead from the C++ object to its greenlet for life. */
static struct {
  uint64_t process;
  uintptr_t state, greenlet;
  uint32_t uses;
  char bytes[GREENLET_BYTES];
} verified[VERIFIED];

static size_t verified_at(uintptr_t state) { return dictionary_node_hash(state, target.salt, 0) % VERIFIED; }

/* Stores the first bytes of the greenlets at these addresses in `bytes`. */
static void read_objects(const uintptr_t *from, const uintptr_t *objects, int count) {
  uintptr_t missing[TASKS_AT_ONCE];
  for (int i = 0; i < count; i++) {
    size_t at = verified_at(from[i]);
    bool known = verified[at].state == from[i] && verified[at].greenlet == objects[i] &&
                 verified[at].process == target.salt && ++verified[at].uses % AGAIN;
    missing[i] = known ? 0 : objects[i];
  }
  remote_read_each(bytes, missing, count, GREENLET_BYTES);
  for (int i = 0; i < count; i++) {
    size_t at = verified_at(from[i]);
    if (missing[i]) {
      verified[at].process = target.salt;
      verified[at].state = from[i];
      verified[at].greenlet = objects[i];
      memcpy(verified[at].bytes, bytes + (size_t)i * GREENLET_BYTES, GREENLET_BYTES);
    } else if (objects[i]) {
      memcpy(bytes + (size_t)i * GREENLET_BYTES, verified[at].bytes, GREENLET_BYTES);
    }
  }
}

static void read_greenlets(struct greenlets *greenlets, struct kinds *kinds, const uintptr_t *from,
                           struct task_observation *observations, int count) {
  uintptr_t objects[TASKS_AT_ONCE];
  size_t size = (greenlets->size_class + 1) * 16;
  remote_read_each(states, from, count, size);
  for (int i = 0; i < count; i++) objects[i] = word_at(states + (size_t)i * size, STATE_GREENLET);
  read_objects(from, objects, count);
  for (int i = 0; i < count; i++) {
    const char *state = states + (size_t)i * size;
    observations[i] = (struct task_observation){.task = objects[i], .coroutine = from[i], .state = TASK_GONE};
    observations[i].fresh = pools_fresh(greenlets, from[i]);
    interpret(greenlets, kinds, &observations[i], state, bytes + (size_t)i * GREENLET_BYTES);
    walks[i] = (struct walk){.innermost = -1, .last = -1, .place = target.salt};
    if (observations[i].state == TASK_SUSPENDED) walks[i].at = word_at(state, greenlets_frame_at());
    walks[i].identity = dictionary_node_hash(objects[i], walks[i].at, 0);
  }
}

/* ---- their frames ---- */

/* Goes from the frame object to the frame; on 3.10 they are the same. */
static void enter_frames(struct kinds *kinds, struct task_observation *observations, int count) {
  uintptr_t from[TASKS_AT_ONCE] = {0};
  for (int i = 0; i < count; i++) from[i] = walks[i].at;
  remote_read_each(bytes, from, count, FRAME_OBJECT_BYTES);
  for (int i = 0; i < count; i++) {
    const char *object = bytes + (size_t)i * FRAME_OBJECT_BYTES;
    if (!walks[i].at) continue;
    bool is_frame = remote_kind(kinds, word_at(object, OBJECT_TYPE)) == KIND_FRAME;
    if (!is_frame) observations[i].state = TASK_UNREAD;
    if (!is_frame || target.layout->version != 0x30a) walks[i].at = is_frame ? word_at(object, OBJECT_FRAME) : 0;
  }
}

static void step_out(struct task_observation *observation, struct walk *walk, const char *frame) {
  struct step *step = NULL;
  walk->depth++;
  enum chain_frame kind = places_add(walk->at, frame, &step);
  if (kind == CHAIN_BROKEN) {
    observation->state = TASK_MOVING;
    walk->at = 0;
    return;
  }
  if (kind == CHAIN_FRAME) {
    int32_t index = places_index(step);
    if (walk->last >= 0) places_step(walk->last)->outer = index;
    if (walk->last < 0) walk->innermost = index;
    walk->last = index;
    walk->identity = dictionary_node_hash(walk->identity ^ walk->at, step->entry.code, step->entry.instruction);
    walk->place = dictionary_node_hash(walk->place, step->entry.code, step->entry.instruction);
  }
  walk->at = word_at(frame, target.layout->frame_previous);
}

/* A window of memory that was read around the innermost frame of each greenlet. From 3.11 on each greenlet has frames one
 * after the other, so most lie in it; on 3.10 each frame is an object of its own. */
static uintptr_t windows[TASKS_AT_ONCE]; /* addresses; 0 = there is none */
static char around[TASKS_AT_ONCE * WINDOW_BYTES];

/* The window lies in one page and ends after the frame, unless the frame does not. */
static void read_windows(int count) {
  size_t frame_bytes = (size_t)target.layout->frame_bytes;
  bool objects = target.layout->version == 0x30a;
  for (int i = 0; i < count; i++) {
    uintptr_t end = walks[i].at + frame_bytes, page = walks[i].at & ~(uintptr_t)4095;
    windows[i] = !walks[i].at || objects ? 0 : (end - page > WINDOW_BYTES ? end - WINDOW_BYTES : page) & ~(uintptr_t)7;
  }
  remote_read_each(around, windows, count, WINDOW_BYTES);
}

/* Returns the bytes of the next frame if they are in its window; null = they are not. */
static const char *in_window(int i) {
  uintptr_t offset = walks[i].at - windows[i];
  if (!windows[i] || walks[i].at < windows[i]) return NULL;
  return offset + (size_t)target.layout->frame_bytes <= WINDOW_BYTES ? around + (size_t)i * WINDOW_BYTES + offset
                                                                     : NULL;
}

static void walk_window(struct task_observation *observation, int i) {
  const char *frame;
  while (walks[i].at && walks[i].depth < MAX_DEPTH && (frame = in_window(i))) step_out(observation, &walks[i], frame);
}

static void walk_out(struct task_observation *observations, int count) {
  uintptr_t from[TASKS_AT_ONCE];
  size_t size = (size_t)target.layout->frame_bytes;
  bool more = true;
  places_clear();
  read_windows(count);
  while (more) {
    more = false;
    for (int i = 0; i < count; i++) {
      walk_window(&observations[i], i);
      from[i] = walks[i].depth < MAX_DEPTH ? walks[i].at : 0;
      more = more || from[i];
    }
    if (!more) break;
    remote_read_each(bytes, from, count, size);
    for (int i = 0; i < count; i++) {
      if (from[i]) step_out(&observations[i], &walks[i], bytes + (size_t)i * size);
    }
  }
  for (int i = 0; i < count; i++) observations[i].truncated = walks[i].at != 0;
}

static void observe_all(struct greenlets *greenlets, struct kinds *kinds, const uintptr_t *from,
                        struct task_observation *observations, int count) {
  read_greenlets(greenlets, kinds, from, observations, count);
  enter_frames(kinds, observations, count);
  walk_out(observations, count);
}

void greenlets_read(struct greenlets *greenlets, struct kinds *kinds, pid_t pid, const uintptr_t *from,
                    struct task_observation *observations, int count) {
  uint64_t before[TASKS_AT_ONCE];
  int64_t clock_ns = proc_clock_ns(pid);
  observe_all(greenlets, kinds, from, observations, count);
  bool has_run = proc_clock_ns(pid) != clock_ns;
  for (int i = 0; i < count; i++) before[i] = walks[i].identity;
  if (has_run) observe_all(greenlets, kinds, from, observations, count);
  for (int i = 0; i < count; i++) {
    struct task_observation *each = &observations[i];
    if (each->state == TASK_SUSPENDED && has_run && before[i] != walks[i].identity) each->state = TASK_MOVING;
    if (each->state == TASK_MOVING && !has_run) {
      each->state = TASK_SUSPENDED;
      loss_add(LOSS_tasks_torn);
    } else if (each->state == TASK_SUSPENDED) {
      places_stack(walks[i].place, walks[i].innermost, each->truncated, &each->stack);
    }
  }
}
