/* The greenlets of gevent in an observed process. Only the watcher's thread calls these functions.
 *
 * A greenlet is a Python object, which leads to a C++ object of greenlet's library with its state. The address of the C++
 * object stands for the greenlet here. */
#ifndef SCALENE_TRACE_WATCH_GREENLETS_GREENLETS_H
#define SCALENE_TRACE_WATCH_GREENLETS_GREENLETS_H

#include <sys/types.h>

#include "shared/base.h"
#include "watch/reading/observation.h"
#include "watch/reading/remote.h"

#pragma GCC visibility push(hidden)

#define GREENLET_STATE 32 /* offset of the address of the C++ object in a greenlet, */
#define STATE_GREENLET 8  /* and of that of the greenlet in the C++ object */
#define HUBS 64
#define GREENLET_TYPES 16
/* A greenlet that runs the event loop of its thread. */
struct hub {
  uintptr_t greenlet, state; /* addresses of its objects */
  uintptr_t main;            /* the greenlet of the thread's main program, which is suspended while the hub runs */
  bool has_run;              /* in this process: a forked child has copies of its parent's hubs, which may never run */
};
enum greenlet_type { TYPE_NOT_GREENLET, TYPE_GREENLET, TYPE_HUB };
/* What is known about the greenlets of one process. */
struct greenlets {
  struct task_polls polls;
  uintptr_t hub_class, base; /* addresses of the classes gevent.hub.Hub and greenlet.greenlet; 0 = not found */
  uintptr_t modules_used;    /* number of modules at the last search for them */
  int64_t scanned_ns;        /* when the modules were last searched */
  bool tested, refused;      /* this release of greenlet is known to be read, or is so old that it is not tried */
  uint32_t odd;              /* number of hubs that were found and not recognized, added up over the searches */
  uintptr_t table;           /* first word of the C++ objects: their virtual table; 0 = unknown yet */
  int parent_at;             /* offset of the parent in them */
  uint32_t size_class;       /* of the pools in which they lie */
  uintptr_t *pools;          /* addresses of the pools that have greenlets, in ascending order */
  bool *fresh;               /* of each: the last search has found it */
  int pool_count;
  uintptr_t list;    /* head of pymalloc's list of pools of this class with free blocks; 0 = unknown */
  int64_t search_ns; /* when all pools are to be searched again, */
  uint32_t searches; /* how many there were until a greenlet was found */
  int64_t soon_ns;   /* and the earliest time for that if there are new pools */
  uint64_t used;     /* number of greenlets at the last poll */
  struct hub hubs[HUBS];
  int hub_count;
  uint32_t type_count; /* number of types that were stored; if more than GREENLET_TYPES, the oldest were replaced */
  struct {
    uintptr_t type;
    enum greenlet_type is;
  } types[GREENLET_TYPES];
};

/* Returns true if gevent's classes are known. Else searches for them, at a limited rate. `modules`: address of the dict of
 * modules; 0 = unknown. */
bool greenlets_find(struct greenlets *greenlets, struct kinds *kinds, uintptr_t modules, int64_t now_ns);
/* What the objects of this type are. */
enum greenlet_type greenlets_type(struct greenlets *greenlets, struct kinds *kinds, uintptr_t type);
/* Frees what belongs to the process. */
void greenlets_free(struct greenlets *greenlets);

/* ---- suspended.c ---- */

/* Reads `count` (at most TASKS_AT_ONCE) greenlets. Only children of hubs that have run, and the main programs of their
 * threads, count. The thread is not set, but stack_start is. */
void greenlets_read(struct greenlets *greenlets, struct kinds *kinds, pid_t pid, const uintptr_t *states,
                    struct task_observation *observations, int count);
/* Adds the greenlet at this address to the hubs if it is one. */
void greenlets_note_hub(struct greenlets *greenlets, struct kinds *kinds, uintptr_t greenlet);
/* Reads all hubs again, and forgets those that do not exist any more. */
void greenlets_refresh_hubs(struct greenlets *greenlets);
/* Returns the offset of the frame in a C++ object. */
int greenlets_frame_at(void);

#pragma GCC visibility pop

#endif
