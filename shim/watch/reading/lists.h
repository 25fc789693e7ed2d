/* Linked lists of another process. Circular ones are those of struct llist_node of CPython, which lies within the objects
 * that it links. Only the watcher's thread calls these functions. */
#ifndef SCALENE_TRACE_WATCH_READING_LISTS_H
#define SCALENE_TRACE_WATCH_READING_LISTS_H

#include "shared/base.h"

#pragma GCC visibility push(hidden)

#define LIST_AHEAD 128 /* nodes that are read at once */
#define LIST_BEHIND 16 /* visited nodes that are remembered */
/* Where the walk of one list is. */
struct list_walk {
  uintptr_t head, at;          /* addresses of the head, and of the node that was returned last */
  uint32_t count;              /* number of nodes that were returned */
  uintptr_t mark;              /* a node that was returned before: to come back to it is to go round in circles */
  uintptr_t seen[LIST_BEHIND]; /* the last nodes, at index modulo LIST_BEHIND */
  uint32_t behind;             /* how many of them the walk may still go back */
  uint32_t furthest, stalls;   /* the largest count so far, and steps back since then */
  uintptr_t node[LIST_AHEAD], words[2 * LIST_AHEAD]; /* nodes that were read ahead, and what was in them */
  int ahead, next;                                   /* their number, and the index of the next one */
  bool broken;                                       /* the walk has ended before it has come to the head again */
};

/* Begins the walk of the list whose head is at this address. */
void list_begin(struct list_walk *walk, uintptr_t head);
/* Returns the address of the next node; 0 = there is none, or the walk is broken. The program may change the list in
 * the meantime: a node that was there all the time is returned. */
uintptr_t list_next(struct list_walk *walk);
/* Stores the addresses of the nodes of a chain that ends with 0, at most `most`, and returns their number. `next_at`: offset
 * of the address of the next node. */
int list_chain(uintptr_t first, int next_at, uintptr_t *out, int most);

#pragma GCC visibility pop

#endif
