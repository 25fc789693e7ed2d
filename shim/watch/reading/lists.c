/* Walks linked lists of another process: circular ones, and chains that end with 0.
 *
 * Each node leads to the next one, so a walk would need one system call per node. But a list stays mostly the same from
 * one walk to the next: the order of the nodes is remembered, and many are read ahead in that order. What is remembered
 * may be wrong, and costs only time then.
 *
 * The program may change the list while it is read. A step counts only if the next node leads back to this one. A node
 * that has been removed leads nowhere; then the walk goes back to the nodes before it, which do not lead to it any
 * more. */
#include "watch/reading/lists.h"

#include "shared/base.h"
#include "shared/stacks/hash.h"
#include "watch/reading/remote.h"

#define MOST_NODES 262144
#define TRIES 3        /* reads of one node until it is given up */
#define MOST_STALLS 64 /* steps back until the walk comes further than before */
#define WAYS 4
#define SETS 8192

/* The nodes that were visited last, and the one that followed each. A node may be in any place of its set. */
static struct {
  uintptr_t node, next;
} order[SETS][WAYS];
static uint32_t turn; /* the next place to replace in a full set */

static size_t set_of(uintptr_t node) { return hash_mixed(node >> 4) % SETS; }

static uintptr_t expected_after(uintptr_t node) {
  size_t set = set_of(node);
  for (int i = 0; i < WAYS; i++) {
    if (order[set][i].node == node) return order[set][i].next;
  }
  return 0;
}

static void remember(uintptr_t node, uintptr_t next) {
  size_t set = set_of(node), way = turn % WAYS;
  for (size_t i = 0; i < WAYS; i++) {
    if (order[set][i].node != node && order[set][i].node) continue;
    way = i;
    break;
  }
  turn++;
  order[set][way].node = node;
  order[set][way].next = next;
}

void list_begin(struct list_walk *walk, uintptr_t head) {
  walk->head = walk->at = walk->mark = head;
  walk->count = walk->behind = walk->furthest = walk->stalls = 0;
  walk->ahead = walk->next = 0;
  walk->broken = false;
}

/* Reads the node, and those that are expected after it. */
static void read_ahead(struct list_walk *walk, uintptr_t node, int most) {
  walk->ahead = walk->next = 0;
  for (; node && walk->ahead < most; node = expected_after(node)) {
    walk->node[walk->ahead++] = node;
    if (node == walk->head && walk->ahead > 1) break;
  }
  remote_read_each((char *)walk->words, walk->node, walk->ahead, 2 * sizeof *walk->words);
}

/* Returns the two words of the node: the addresses of the next one and of the one before. */
static const uintptr_t *words_of(struct list_walk *walk, uintptr_t node) {
  for (int i = walk->next; i < walk->ahead && i < walk->next + 2; i++) {
    if (walk->node[i] != node) continue;
    walk->next = i;
    return walk->words + 2 * (size_t)i;
  }
  read_ahead(walk, node, LIST_AHEAD);
  return walk->words;
}

/* True if the words of the current node are those of a node at this place of the list. A node that has been removed may
 * be at the end of it again: its memory has been reused. */
static bool is_in_place(const struct list_walk *walk, const uintptr_t *words) {
  return walk->at == walk->head || words[1] == walk->seen[(walk->count - 1) % LIST_BEHIND];
}

/* Returns the node after the current one; 0 = the current one leads nowhere, or to a node that does not lead back. */
static uintptr_t step(struct list_walk *walk) {
  for (int attempt = 0; attempt < TRIES; attempt++) {
    const uintptr_t *words = words_of(walk, walk->at);
    uintptr_t next = is_in_place(walk, words) ? words[0] : 0;
    if (next && words_of(walk, next)[1] == walk->at) return next;
    walk->ahead = walk->next = 0; /* what was read ahead is too old */
  }
  return 0;
}

static bool go_back(struct list_walk *walk) {
  if (!walk->behind || ++walk->stalls > MOST_STALLS) return false;
  walk->behind--;
  walk->mark = walk->head;
  walk->at = walk->seen[--walk->count % LIST_BEHIND];
  return true;
}

static uintptr_t end(struct list_walk *walk, bool broken) {
  walk->broken = broken;
  return 0;
}

uintptr_t list_next(struct list_walk *walk) {
  uintptr_t next = step(walk);
  while (!next && go_back(walk)) next = step(walk);
  if (next == walk->head) return end(walk, false);
  if (!next || next == walk->mark || walk->count >= MOST_NODES) return end(walk, true);
  remember(walk->at, next);
  walk->seen[walk->count % LIST_BEHIND] = walk->at;
  if (walk->behind < LIST_BEHIND) walk->behind++;
  walk->at = next;
  walk->count++;
  if (walk->count > walk->furthest) walk->furthest = walk->count, walk->stalls = 0;
  if ((walk->count & (walk->count - 1)) == 0) walk->mark = next;
  return next;
}

int list_chain(uintptr_t first, int next_at, uintptr_t *out, int most) {
  static uintptr_t node[LIST_AHEAD], from[LIST_AHEAD], next[LIST_AHEAD];
  int count = 0, at = 0, ahead = 0;
  while (first && count < most) {
    if (at >= ahead || node[at] != first) {
      at = ahead = 0;
      for (uintptr_t each = first; each && ahead < LIST_AHEAD; each = expected_after(each)) {
        from[ahead] = each + (uintptr_t)next_at;
        node[ahead++] = each;
      }
      remote_read_each((char *)next, from, ahead, sizeof *next);
    }
    remember(first, next[at]);
    out[count++] = first;
    first = next[at++];
  }
  return count;
}
