/* Finds an interpreter that is loaded after the program has started. The reasons are in docs/design/embedding.md.
 *
 * The start of CPython's runtime calls pthread_condattr_setclock, once for each time that the library is loaded, before
 * Python's allocators are used, and pthread_key_create at each start. The caller's address says which image that is. If the
 * library does not call our functions (RTLD_DEEPBIND, dlmopen), the program has looked up the library's functions by
 * dlsym. */
#include "inside/python/late.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "shared/interpreter/elf_image.h"
#include "inside/python/python.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/sealed/sealed.h"
#include "shared/spool.h"

static void (*found_late)(void);
static void (*may_start_again)(void);
static _Atomic int searching;                    /* 1 while a thread searches; it guards the interpreter's variables */
static _Atomic bool loaded;                      /* an interpreter was found late and is loaded */
static struct elf_image interpreter;             /* its image */
static uintptr_t get_version;                    /* its Py_GetVersion */
static uintptr_t second_version;                 /* that of the last other one that has started */
static _Atomic uintptr_t known_start, known_end; /* range of the interpreter's image, whenever it was found */
static _Atomic uintptr_t foreign[64];            /* callers that are no interpreter, each in a place of its own */
static _Atomic bool started;                     /* the late interpreter has called our function */

/* ---- the search ---- */

static bool is_known(uintptr_t code) { return code >= atomic_load(&known_start) && code < atomic_load(&known_end); }

static _Atomic uintptr_t *place_of(uintptr_t code) {
  return &foreign[(code ^ code >> 6) % (sizeof foreign / sizeof *foreign)];
}

static bool is_foreign(uintptr_t code) { return atomic_load_explicit(place_of(code), memory_order_relaxed) == code; }

static void note_image(const struct elf_image *image) {
  atomic_store(&known_end, 0);
  atomic_store(&known_start, image->start);
  atomic_store(&known_end, image->end);
}

static bool begin_search(void) {
  for (int tries = 0; atomic_exchange(&searching, 1); tries++) {
    if (tries == 1000) return false;
    syscall(SYS_sched_yield);
  }
  return true;
}

/* The thread may be inside the loader, for a constructor, but is not inside an allocator. */
static void find_in(const struct elf_image *image, uintptr_t version, bool starts) {
  if (!begin_search()) return;
  if (!python_version) {
    interpreter = *image;
    get_version = version;
    python_find_in(image);
    note_image(image);
    atomic_store(&started, false);
    atomic_store(&loaded, true);
    found_late();
  } else if (starts && !is_known(version) && version != second_version) {
    second_version = version;
    loss_add(LOSS_python_second);
  }
  atomic_store(&searching, 0);
}

/* `starts`: the code belongs to a runtime that starts. An image whose functions are only looked up may never run. */
static void search(uintptr_t code, bool starts) {
  struct elf_image image;
  const elf_symbol *version = NULL;
  if (elf_image_find(code, &image)) version = elf_image_symbol(&image, "Py_GetVersion");
  if (version && (starts || !python_version)) {
    find_in(&image, image.bias + version->st_value, starts);
  } else if (!version) {
    atomic_store(place_of(code), code);
  }
}

/* Only in the process itself: the memory of a vfork child is its parent's. */
static void search_if_recorded(uintptr_t code, bool starts) {
  int saved_errno = errno;
  fork_check();
  uint32_t section = seal_enter();
  if (found_late && !sealed() && recording() && fork_is_recorded_process()) search(code, starts);
  seal_leave(section);
  errno = saved_errno;
}

/* ---- where it is noticed ---- */

static void note_caller(uintptr_t caller) {
  if (!found_late) return;
  if (!is_known(caller) && !is_foreign(caller)) search_if_recorded(caller, true);
  if (is_known(caller)) atomic_store(&started, true);
}

EXPORT int pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock) {
  next_ensure();
  note_caller((uintptr_t)__builtin_return_address(0));
  return next.pthread_condattr_setclock ? next.pthread_condattr_setclock(attributes, clock) : ENOSYS;
}

#ifdef __GLIBC__
extern int __pthread_key_create(pthread_key_t *key, void (*destructor)(void *)); /* libc's other name */
#else
static int __pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
  (void)key, (void)destructor;
  return EAGAIN;
}
#endif

EXPORT int pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
  uintptr_t caller = (uintptr_t)__builtin_return_address(0);
  next_ensure();
  note_caller(caller);
  if (found_late && is_known(caller) && recording()) may_start_again();
  return next.pthread_key_create ? next.pthread_key_create(key, destructor) : __pthread_key_create(key, destructor);
}

/* PyInit_NAME is looked up for each extension module that Python imports. */
bool late_is_wanted(const char *name) {
  bool is_python = name && ((name[0] == 'P' && name[1] == 'y') || (name[0] == '_' && name[1] == 'P' && name[2] == 'y'));
  return is_python && found_late && !python_version && strncmp(name, "PyInit_", 7) != 0;
}

static bool is_in_other_namespace(const void *function) {
  Dl_info info;
  struct link_map *map = NULL;
  Lmid_t namespace = LM_ID_BASE;
  if (!dladdr1(function, &info, (void **)&map, RTLD_DL_LINKMAP) || !map) return false;
  return dlinfo(map, RTLD_DI_LMID, &namespace) == 0 && namespace != LM_ID_BASE;
}

void late_looked_up(const void *function) {
  static _Atomic bool counted;
  if (!function || is_foreign((uintptr_t)function)) return;
  if (!is_in_other_namespace(function)) {
    search_if_recorded((uintptr_t)function, false);
  } else if (!atomic_exchange(&counted, true)) {
    loss_add(LOSS_python_namespace);
  }
}

void late_watch(void (*found)(void), void (*starts_again)(void)) {
  struct elf_image image;
  uintptr_t version = (uintptr_t)python_symbol("Py_GetVersion");
  if (version && elf_image_find(version, &image)) note_image(&image);
  may_start_again = starts_again;
  found_late = found;
}

void late_runs(void) {
  static _Atomic bool counted;
  if (python_at_load || atomic_load_explicit(&started, memory_order_relaxed)) return;
  if (!atomic_exchange(&counted, true)) loss_add(LOSS_python_direct);
}

/* Returns 1 for an interpreter that is running. */
static int is_running(struct dl_phdr_info *info, size_t size, void *unused) {
  struct elf_image image;
  (void)size, (void)unused;
  elf_image_read(info, &image);
  const elf_symbol *symbol = elf_image_symbol(&image, "Py_IsInitialized");
  return symbol && ((int (*)(void))(image.bias + symbol->st_value))();
}

void late_end(void) {
  if (found_late && !python_version && dl_iterate_phdr(is_running, NULL)) loss_add(LOSS_python_unseen);
}

/* ---- calls of its functions ----
 *
 * dlclose may unmap the functions that ticks call, and nothing tells beforehand whether it will. So while one runs, none is
 * called, and it begins when all calls have ended. */

static _Atomic int calling; /* threads that call the late interpreter's functions */
static _Atomic int closing; /* threads inside dlclose */

bool late_enter(void) {
  if (python_at_load) return true;
  atomic_fetch_add(&calling, 1);
  if (atomic_load(&loaded) && !atomic_load(&closing)) return true;
  atomic_fetch_sub(&calling, 1);
  return false;
}

void late_leave(void) {
  if (!python_at_load) atomic_fetch_sub(&calling, 1);
}

/* A call takes less than a microsecond, but its thread may have to wait for a processor. */
static void wait_for_calls(void) {
  const struct timespec pause = {0, 1000000};
  for (int tries = 0; atomic_load(&calling) > 0 && tries < 1100 && !sealed(); tries++) {
    if (tries < 100) {
      syscall(SYS_sched_yield);
    } else {
      syscall(SYS_nanosleep, &pause, NULL);
    }
  }
}

bool late_before_close(void) {
  for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) atomic_store(&foreign[i], 0);
  if (!atomic_load(&loaded)) return false;
  int saved_errno = errno;
  atomic_fetch_add(&closing, 1);
  wait_for_calls();
  errno = saved_errno;
  return true;
}

static bool is_still_loaded(void) {
  struct elf_image now;
  if (elf_images_removed() == interpreter.removed) return true;
  if (!elf_image_find(get_version, &now) || now.bias != interpreter.bias) return false;
  const elf_symbol *version = elf_image_symbol(&now, "Py_GetVersion");
  interpreter.removed = now.removed;
  return version && now.bias + version->st_value == get_version;
}

static void forget_if_gone(void) {
  if (!atomic_load(&loaded) || is_still_loaded() || !begin_search()) return;
  atomic_store(&loaded, false);
  atomic_store(&known_end, 0);
  python_forget();
  atomic_store(&searching, 0);
}

void late_after_close(void) {
  int saved_errno = errno;
  forget_if_gone();
  atomic_fetch_sub(&closing, 1);
  errno = saved_errno;
}

/* A search that another thread of the parent had begun is not finished. */
void late_postfork_child(void) {
  atomic_store(&calling, 0);
  atomic_store(&closing, 0);
  if (atomic_load(&searching) && !atomic_load(&loaded) && !python_at_load) python_forget();
  atomic_store(&searching, 0);
}
