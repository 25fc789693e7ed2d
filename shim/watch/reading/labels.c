/* Finds the context variable of labels in another process, and reads its values in contexts. Many contexts are read at once,
 * step by step, to save system calls. */
#include "watch/reading/labels.h"

#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/objects/labels.h"
#include "shared/saferead.h"
#include "shared/stacks/pylayout.h"
#include "shared/words.h"
#include "watch/reading/observation.h"
#include "watch/reading/remote.h"

#define SEARCH_NS 15000000          /* least pause between two searches, */
#define SEARCH_SHARE 100            /* which may take 1/100 of a core; */
#define SEARCH_AGAIN_NS 10000000000 /* after this time, search even if the number of modules is the same */
#define MODULE_DICT 16
#define DICT_USED 16
#define VARIABLE_HASH 56
#define MOST_STEPS 64
#define PEEK 128 /* bytes of a text that are read at once */

static struct label_walk walks[TASKS_AT_ONCE];
static char pieces[TASKS_AT_ONCE * PEEK];

/* ---- the variable ---- */

bool labels_search_due(const struct label_source *source, int64_t now_ns) {
  return !source->variable && now_ns >= source->due_ns;
}

static void search(struct label_source *source, struct kinds *kinds, uintptr_t modules, int64_t now_ns) {
  uintptr_t used = remote_word(modules + DICT_USED);
  if (used == source->modules_used && now_ns < source->scanned_ns + SEARCH_AGAIN_NS) return;
  uintptr_t module = remote_find(kinds, modules, "scalene_trace.recorder.labelled");
  uintptr_t dict = module ? remote_word(module + MODULE_DICT) : 0;
  uintptr_t variable = dict ? remote_find(kinds, dict, "_variable") : 0;
  source->scanned_ns = now_ns;
  source->modules_used = module ? 0 : used; /* a module that is still being imported is searched again */
  if (!variable) return;
  source->hash = remote_word(variable + VARIABLE_HASH);
  source->variable = source->hash ? variable : 0;
}

void labels_search(struct label_source *source, struct kinds *kinds, uintptr_t modules, int64_t now_ns) {
  if (!labels_search_due(source, now_ns)) return;
  int64_t started_ns = clock_thread_cpu_ns();
  if (modules) search(source, kinds, modules, now_ns);
  int64_t pause_ns = (clock_thread_cpu_ns() - started_ns) * SEARCH_SHARE;
  source->due_ns = now_ns + (pause_ns > SEARCH_NS ? pause_ns : SEARCH_NS);
}

/* ---- its values ---- */

static enum label_node node_kind(struct kinds *kinds, const char *piece) {
  switch (remote_kind(kinds, word_at(piece, OBJECT_TYPE))) {
  case KIND_TRIE_BITMAP: return LABEL_BITMAP;
  case KIND_TRIE_ARRAY: return LABEL_ARRAY;
  case KIND_TRIE_COLLISION: return LABEL_COLLISION;
  default: return LABEL_NO_NODE;
  }
}

/* Takes one step of each walk. Returns the number of those that go on. A piece at the end of a mapping is shorter than what
 * is read of all of them. */
static int step_all(struct kinds *kinds, int count) {
  uintptr_t from[TASKS_AT_ONCE];
  int active = 0;
  for (int i = 0; i < count; i++) from[i] = labels_wants(&walks[i]) ? walks[i].at : 0;
  remote_read_each(pieces, from, count, LABELS_PIECE);
  for (int i = 0; i < count; i++) {
    char *piece = pieces + (size_t)i * LABELS_PIECE;
    if (!from[i]) continue;
    bool is_empty = !word_at(piece, 0) && !word_at(piece, 8);
    if (is_empty) (void)!safe_read(piece, (void *)from[i], labels_wants(&walks[i]));
    labels_step(&walks[i], piece, walks[i].state == LABEL_NODE ? node_kind(kinds, piece) : LABEL_NO_NODE);
    active += labels_wants(&walks[i]) != 0;
  }
  return active;
}

static uint64_t read_long(const struct label_walk *walk) {
  char text[LABELS_MOST_BYTES];
  bool is_read = safe_read(text, (void *)walk->at, walk->bytes);
  if (!is_read) loss_add(LOSS_labels_unread);
  return is_read ? labels_hash(text, walk->bytes, target.thread) : 0;
}

static void read_texts(int count, uint64_t *labels) {
  uintptr_t from[TASKS_AT_ONCE];
  for (int i = 0; i < count; i++) from[i] = walks[i].state == LABEL_FOUND ? walks[i].at : 0;
  remote_read_each(pieces, from, count, PEEK);
  for (int i = 0; i < count; i++) {
    const char *text = pieces + (size_t)i * PEEK;
    labels[i] = 0;
    if (!from[i]) continue;
    bool is_here = walks[i].bytes <= PEEK && text[0];
    labels[i] = is_here ? labels_hash(text, walks[i].bytes, target.thread) : read_long(&walks[i]);
  }
}

void labels_read(const struct label_source *source, struct kinds *kinds, const uintptr_t *contexts, int count,
                 uint64_t *labels) {
  memset(labels, 0, (size_t)count * sizeof *labels);
  if (!source->variable || target.layout->object_header) return;
  for (int i = 0; i < count; i++) walks[i] = labels_begin(contexts[i], source->variable, source->hash);
  for (int i = 0; i < MOST_STEPS && step_all(kinds, count); i++) {}
  for (int i = 0; i < count; i++) {
    if (walks[i].state != LABEL_FOUND && walks[i].state != LABEL_NONE) loss_add(LOSS_labels_unread);
  }
  read_texts(count, labels);
}
