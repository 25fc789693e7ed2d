#include "inside/attached/loader.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "inside/native/relocations.h"
#include "shared/sealed/lasting.h"

/* What glibc keeps in a mutex, on both processors. */
struct mutex {
  int32_t lock;
  uint32_t count;
  int32_t owner;
  uint32_t users;
  int32_t kind;
  int32_t spins;
  uintptr_t previous, next;
};
_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "as in glibc");
#define MOST_COUNT 8

static LASTING pthread_mutex_t *loading; /* and behind it, the lock of the list; null = unknown */
static LASTING _Atomic int32_t visitor;  /* id of the thread that may have them; 0 = none */
static LASTING bool has_both;
static LASTING uint64_t saved_signals;

static struct mutex *inside_of(pthread_mutex_t *mutex) { return (struct mutex *)mutex; }

/* Takes a lock unless the thread, or another one, has it. */
static bool take(pthread_mutex_t *mutex) {
  if (pthread_mutex_trylock(mutex)) return false;
  if (inside_of(mutex)->count == 1) return true;
  pthread_mutex_unlock(mutex);
  return false;
}

/* ---- finding them ---- */

static bool is_recursive(const char *at) {
  const struct mutex *mutex = (const struct mutex *)at;
  return mutex->kind == PTHREAD_MUTEX_RECURSIVE && !mutex->spins && !mutex->previous && !mutex->next &&
         mutex->count <= MOST_COUNT;
}

/* The lock of loading comes first, and behind it the one of the list. Those of namespaces stand alone. */
static pthread_mutex_t *find_candidates(void) {
  Dl_info image;
  const ElfW(Sym) *symbol = NULL;
  char *start = dlsym(RTLD_DEFAULT, "_rtld_global");
  if (!start || !dladdr1(start, &image, (void **)&symbol, RTLD_DL_SYMENT) || !symbol) return NULL;
  for (size_t at = 0; at + 2 * sizeof(pthread_mutex_t) <= symbol->st_size; at += sizeof(uintptr_t)) {
    if (is_recursive(start + at) && is_recursive(start + at + sizeof(pthread_mutex_t)))
      return (pthread_mutex_t *)(start + at);
  }
  return NULL;
}

static int see_count(struct dl_phdr_info *info, size_t size, void *list) {
  (void)info, (void)size;
  return inside_of(list)->count == 2 && inside_of(list)->owner == (int32_t)syscall(SYS_gettid) ? 1 : 2;
}

const char *loader_find(void) {
  if (loading) return NULL;
  pthread_mutex_t *found = find_candidates();
  if (!found) return "libc";
  if (!take(&found[1])) return "loader";
  bool is_it = dl_iterate_phdr(see_count, &found[1]) == 1;
  pthread_mutex_unlock(&found[1]);
  if (is_it) loading = found;
  return is_it ? NULL : "libc";
}

/* ---- taking them ---- */

/* A handler of the program must not run while the lock is held: it may wait for a thread that waits for the lock. */
static void set_signals(const uint64_t *mask, uint64_t *before) {
  syscall(SYS_rt_sigprocmask, (long)SIG_SETMASK, mask, before, sizeof *mask);
}

/* In the order in which the loader takes them. */
static bool take_locks(enum loader_locks locks) {
  has_both = locks == BOTH_LOCKS;
  if (has_both && !take(&loading[0])) return false;
  if (take(&loading[1])) return true;
  if (has_both) pthread_mutex_unlock(&loading[0]);
  return false;
}

bool loader_begin(enum loader_locks locks) {
  uint64_t all = ~UINT64_C(0), before = 0;
  int saved_errno = errno;
  bool taken = false;
  if (!loading) return false;
  set_signals(&all, &before);
  if (relocations_try_begin()) {
    atomic_store(&visitor, (int32_t)syscall(SYS_gettid));
    taken = take_locks(locks);
    if (taken) {
      saved_signals = before;
    } else {
      atomic_store(&visitor, 0);
      relocations_end();
    }
  }
  if (!taken) set_signals(&before, NULL);
  errno = saved_errno;
  return taken;
}

void loader_end(void) {
  uint64_t before = saved_signals;
  int saved_errno = errno;
  pthread_mutex_unlock(&loading[1]);
  if (has_both) pthread_mutex_unlock(&loading[0]);
  atomic_store(&visitor, 0);
  relocations_end();
  set_signals(&before, NULL);
  errno = saved_errno;
}

/* The forking thread is no visitor. If another one had the lock, or was about to take it, nothing was changed under it. An owner
 * of 0 is a thread that has just taken the lock, or is about to give it back: nothing was changed then either. */
static void make_free(struct mutex *mutex, int32_t thread) {
  if (mutex->lock && (!mutex->owner || mutex->owner == thread))
    *mutex = (struct mutex){.kind = PTHREAD_MUTEX_RECURSIVE};
}

void loader_postfork_child(void) {
  int32_t thread = atomic_exchange(&visitor, 0);
  relocations_postfork_child();
  if (!thread || !loading) return;
  make_free(inside_of(&loading[0]), thread);
  make_free(inside_of(&loading[1]), thread);
}
