/* Reads the label from the context of the calling thread.
 *
 * Only the thread itself changes its context, and it replaces what it has in one piece: what the thread state leads to is
 * whole and alive at any instruction of the thread. So it is read plainly, but for threads without the GIL: a finalizing
 * interpreter may free the state of a daemon thread while the thread reads it. Plain reads take the right layouts, which is
 * why the program first shows one of its labels, and this one must be found, by safe reads. */
#include "inside/python/labels.h"

#include "inside/core/thread_state.h"
#include "inside/python/python.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/objects/labels.h"
#include "shared/saferead.h"
#include "shared/stacks/pylayout.h"
#include "shared/words.h"

#define TYPE_NAME 24
#define MOST_STEPS 2100 /* seven levels, and a collision */

/* Each sub-interpreter has a variable of its own, and so has a module that is loaded again. */
#define MOST_VARIABLES 4
static struct variable {
  uintptr_t address;
  uint64_t hash;
} variables[MOST_VARIABLES];
_Atomic int labels_told;

/* A node's type is static, and so is its name. */
static enum label_node kind_in_place(const char *node) {
  return labels_node_kind((const char *)word_at((const void *)word_at(node, OBJECT_TYPE), TYPE_NAME));
}

static struct label_walk walk_in_place(const char *state, struct variable variable) {
  struct label_walk walk = labels_begin(word_at(state, python_layout->tstate_context), variable.address, variable.hash);
  for (int i = 0; i < MOST_STEPS && labels_wants(&walk); i++) {
    const char *piece = (const char *)walk.at;
    labels_step(&walk, piece, walk.state == LABEL_NODE ? kind_in_place(piece) : LABEL_NO_NODE);
  }
  return walk;
}

static enum label_node kind_by_reads(const char *node) {
  char name[LABELS_NAME];
  uintptr_t at;
  bool is_read = safe_read(&at, (const void *)(word_at(node, OBJECT_TYPE) + TYPE_NAME), sizeof at) &&
                 safe_read(name, (const void *)at, sizeof name);
  return is_read ? labels_node_kind(name) : LABEL_NO_NODE;
}

static struct label_walk walk_by_reads(const char *state, struct variable variable) {
  char piece[LABELS_PIECE];
  uintptr_t context = 0;
  const void *place = state + python_layout->tstate_context;
  struct label_walk walk = {.state = LABEL_UNREAD};
  if (safe_read(&context, place, sizeof context)) walk = labels_begin(context, variable.address, variable.hash);
  for (int i = 0; i < MOST_STEPS && labels_wants(&walk); i++) {
    if (!safe_read(piece, (const void *)walk.at, labels_wants(&walk))) walk.state = LABEL_UNREAD;
    if (walk.state != LABEL_UNREAD)
      labels_step(&walk, piece, walk.state == LABEL_NODE ? kind_by_reads(piece) : LABEL_NO_NODE);
  }
  return walk;
}

/* True if the walk leads to the value. */
static bool leads_to(const char *state, struct variable variable, uintptr_t value) {
  struct label_walk walk = walk_by_reads(state, variable);
  return walk.state == LABEL_FOUND && walk.at == value + BYTES_DATA + LABELS_MAGIC_BYTES;
}

uint64_t labels_of(const char *state) {
  int known = atomic_load_explicit(&labels_told, memory_order_acquire);
  char text[LABELS_MOST_BYTES];
  for (int i = 0; i < known; i++) {
    bool in_place = python_holds_gil();
    struct label_walk walk = in_place ? walk_in_place(state, variables[i]) : walk_by_reads(state, variables[i]);
    if (walk.state != LABEL_FOUND) continue;
    const char *found = (const char *)walk.at;
    if (!in_place && !safe_read(text, found, walk.bytes)) continue;
    return labels_hash(in_place ? found : text, walk.bytes, this_thread.id);
  }
  return 0;
}

/* False = there is no room. The caller holds the GIL, so it is the only one, but for interpreters with a GIL of their own:
 * if two come at once, one of them has no labels. */
static bool add_variable(struct variable variable) {
  int known = atomic_load(&labels_told);
  for (int i = 0; i < known; i++) {
    if (variables[i].address == variable.address) return true;
  }
  if (known == MOST_VARIABLES) return false;
  variables[known] = variable;
  atomic_store_explicit(&labels_told, known + 1, memory_order_release);
  return true;
}

int scalene_program_label(uintptr_t variable, uint64_t hash, uintptr_t value) {
  const char *state = python_layout && !python_layout->object_header ? python_thread_state() : NULL;
  struct variable told = {variable, hash};
  if (state && leads_to(state, told, value) && add_variable(told)) return 1;
  loss_add(LOSS_labels_off);
  return 0;
}
