/* Tests lists.c: does the walk of a list that changes under it return every node that is there all the time? */
#include "shared/base.h"
#include "shared/random.h"
#include "shared/saferead.h"
#include "tests/check.h"
#include "watch/reading/lists.h"
#include "watch/reading/remote.h"

#define MOST 3000

/* ---- stand-in: the memory of the program, which changes at each system call ---- */

struct node {
  struct node *next, *before;
};
static struct node head, nodes[MOST];
static bool is_in[MOST], was_removed[MOST];
static int system_calls, change_every; /* system calls per change; 0 = nothing changes */
static uint64_t random_state = 14;

static int draw(int below) { return (int)((random_next(&random_state) >> 11) % (uint64_t)below); }

static void insert(int i) {
  nodes[i] = (struct node){&head, head.before};
  head.before->next = &nodes[i];
  head.before = &nodes[i];
  is_in[i] = true;
}

static void take_out(int i) {
  nodes[i].before->next = nodes[i].next;
  nodes[i].next->before = nodes[i].before;
  nodes[i] = (struct node){NULL, NULL};
  is_in[i] = false;
  was_removed[i] = true;
}

static void fill(int count) {
  head = (struct node){&head, &head};
  memset(is_in, 0, sizeof is_in);
  memset(was_removed, 0, sizeof was_removed);
  for (int i = 0; i < count; i++) insert(i);
}

static void change(void) {
  int i = draw(MOST);
  if (is_in[i]) {
    take_out(i);
  } else {
    insert(i);
  }
}

void remote_read_each(char *to, const uintptr_t *from, int count, size_t size) {
  system_calls++;
  if (change_every && system_calls % change_every == 0) change();
  memset(to, 0, (size_t)count * size);
  for (int i = 0; i < count; i++) {
    if (from[i] >= 65536) memcpy(to + (size_t)i * size, (const void *)from[i], size);
  }
}

/* ---- walks ---- */

static bool was_seen[MOST];

/* Walks the list and returns the number of nodes; -1 = broken. */
static int walk_all(void) {
  static struct list_walk walk;
  int count = 0;
  memset(was_seen, 0, sizeof was_seen);
  list_begin(&walk, (uintptr_t)&head);
  for (uintptr_t node; (node = list_next(&walk)); count++) {
    check(node >= (uintptr_t)nodes && node < (uintptr_t)(nodes + MOST));
    was_seen[(struct node *)node - nodes] = true;
  }
  return walk.broken ? -1 : count;
}

static void test_every_node_is_returned_once(void) {
  fill(0);
  check(walk_all() == 0);
  fill(1);
  check(walk_all() == 1 && was_seen[0]);
  fill(MOST);
  check(walk_all() == MOST);
}

static void test_a_list_that_stays_is_read_ahead(void) {
  fill(MOST);
  walk_all();
  system_calls = 0;
  check(walk_all() == MOST && system_calls < MOST / 64);
  take_out(1000), insert(1000);
  system_calls = 0;
  check(walk_all() == MOST && system_calls < MOST / 32);
}

static void test_nodes_that_stay_are_found_while_others_come_and_go(void) {
  int broken = 0;
  for (int round = 0; round < 300; round++) {
    change_every = 0;
    fill(draw(MOST));
    walk_all();
    memset(was_removed, 0, sizeof was_removed);
    bool was_there[MOST];
    memcpy(was_there, is_in, sizeof was_there);
    change_every = 1 + round % 4;
    if (walk_all() < 0) {
      broken++;
      continue;
    }
    for (int i = 0; i < MOST; i++) check(!was_there[i] || was_removed[i] || was_seen[i]);
  }
  change_every = 0;
  check(broken < 3);
}

/* The current node ends, and its memory becomes the last node of the list: the nodes after its old place are not skipped.
 * What was remembered of the order must not hide it, so these nodes are new ones. */
static void test_a_node_that_moves_to_the_end_takes_the_walk_nowhere(void) {
  static struct list_walk walk;
  int from = MOST - 100;
  fill(0);
  for (int i = from; i < MOST; i++) insert(i);
  list_begin(&walk, (uintptr_t)&head);
  memset(was_seen, 0, sizeof was_seen);
  for (uintptr_t node; (node = list_next(&walk));) {
    int i = (int)((struct node *)node - nodes);
    was_seen[i] = true;
    if (i == from + 50 && walk.count == 51) take_out(i), insert(i);
  }
  check(!walk.broken);
  for (int i = from; i < MOST; i++) check(was_seen[i]);
}

/* A word that is no node's any more may lead anywhere. */
static void test_what_does_not_lead_back_is_no_node(void) {
  static struct node stray = {&head, NULL};
  fill(100);
  nodes[49].next = &stray;
  check(walk_all() < 0);
}

static void test_a_list_that_leads_nowhere_is_broken(void) {
  fill(100);
  nodes[50].next = NULL;
  check(walk_all() < 0);
  fill(100);
  nodes[50].next = &nodes[20]; /* which does not lead back */
  check(walk_all() < 0);
  head = (struct node){NULL, NULL};
  check(walk_all() < 0);
}

static void test_a_walk_in_circles_ends(void) {
  fill(100);
  nodes[99].next = &nodes[7], nodes[7].before = &nodes[99]; /* the walk comes to 7 before this, from 6 */
  nodes[6].next = &nodes[7];
  check(walk_all() < 0);
  fill(100);
  head.next = &nodes[0], nodes[0].before = &head;
  for (int i = 10; i < 20; i++) nodes[i] = (struct node){&nodes[i < 19 ? i + 1 : 10], &nodes[i > 10 ? i - 1 : 19]};
  nodes[9].next = &nodes[10];
  check(walk_all() < 0);
}

/* ---- chains that end with 0 ---- */

static void test_a_chain_is_read_ahead_and_ends(void) {
  static struct {
    uintptr_t before, next;
  } chain[MOST];
  static uintptr_t out[MOST + 1];
  for (int i = 0; i < MOST; i++) chain[i].next = i + 1 < MOST ? (uintptr_t)&chain[i + 1] : 0;
  uintptr_t first = (uintptr_t)&chain[0];
  check(list_chain(first, 8, out, MOST + 1) == MOST && out[MOST - 1] == (uintptr_t)&chain[MOST - 1]);
  system_calls = 0;
  check(list_chain(first, 8, out, MOST + 1) == MOST && system_calls < MOST / 64);
  chain[1000].next = (uintptr_t)&chain[1002]; /* one has ended, and another one has become the first */
  chain[1001].next = first;
  system_calls = 0;
  check(list_chain((uintptr_t)&chain[1001], 8, out, MOST + 1) == MOST && system_calls < MOST / 64);
  check(out[0] == (uintptr_t)&chain[1001] && out[1001] == (uintptr_t)&chain[1000] &&
        out[1002] == (uintptr_t)&chain[1002]);
  check(list_chain(first, 8, out, 7) == 7 && list_chain(0, 8, out, 7) == 0 && list_chain(8, 8, out, 7) == 1);
  chain[MOST - 1].next = first;
  check(list_chain(first, 8, out, MOST + 1) == MOST + 1);
}

int main(void) {
  test_a_node_that_moves_to_the_end_takes_the_walk_nowhere();
  test_what_does_not_lead_back_is_no_node();
  test_every_node_is_returned_once();
  test_a_list_that_stays_is_read_ahead();
  test_nodes_that_stay_are_found_while_others_come_and_go();
  test_a_list_that_leads_nowhere_is_broken();
  test_a_walk_in_circles_ends();
  test_a_chain_is_read_ahead_and_ends();
  return 0;
}
