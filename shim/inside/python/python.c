/* Finds the Python interpreter in this process, through the symbols that it exports. One that is there at load is
 * found through the loader, as the program's own references are. One that is loaded later (late.c) is found through
 * the tables of its image, and may be unloaded again. */
#include "inside/python/python.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/thread_state.h"
#include "inside/python/late.h"
#include "inside/python/objects.h"
#include "shared/base.h"
#include "shared/interpreter/elf_image.h"
#include "shared/interpreter/symbols.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/stacks/pylayout.h"
#include "shared/words.h"

const struct python_layout *python_layout;
uint32_t python_version;
bool python_at_load;
static void *(*this_thread_state)(void);
static int (*is_finalizing)(void), (*is_initialized)(void), (*holds_gil)(void);
static _Atomic bool finalizing; /* it has begun */

static struct python_symbols found; /* what is being found, until it is complete */
static struct elf_image late;       /* the interpreter's image, if it was loaded late; without symbols otherwise */

/* Converts a version text ("3.12.1 (main, …", "3.14.0rc2+ …") to PY_VERSION_HEX. The release level is 0xf for a final
 * release, else 0. */
static uint32_t parse_version(const char *text) {
  uint32_t part[3] = {0, 0, 0};
  int at = 0;
  for (; *text && at < 3; text++) {
    if (*text >= '0' && *text <= '9') {
      part[at] = part[at] * 10 + (uint32_t)(*text - '0');
    } else if (*text == '.') {
      at++;
    } else {
      break;
    }
  }
  return part[0] << 24 | part[1] << 16 | part[2] << 8 | (*text == ' ' || *text == '+' ? 0xf0 : 0);
}

static struct address_range range_in_image(const char *name) {
  const elf_symbol *symbol = elf_image_symbol(&late, name);
  if (!symbol) return (struct address_range){0, 0, 0};
  uintptr_t start = late.bias + symbol->st_value;
  return (struct address_range){start, start + symbol->st_size, 0};
}

static struct address_range symbol_range(const char *name) {
  Dl_info info;
  ElfW(Sym) *symbol = NULL;
  if (late.symbols) return range_in_image(name);
  void *address = dlsym(RTLD_DEFAULT, name);
  if (!address || !dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol) {
    return (struct address_range){0, 0, 0};
  }
  uintptr_t start = (uintptr_t)address;
  return (struct address_range){start, start + symbol->st_size, 0};
}

void *python_symbol(const char *name) {
  return late.symbols ? (void *)range_in_image(name).start : dlsym(RTLD_DEFAULT, name);
}

static const struct python_layout *choose_layout(void) {
  static struct python_layout room[2]; /* threads may still use the layout of an interpreter that was unloaded */
  static unsigned turn;
  const char *runtime = python_symbol("_PyRuntime");
  return runtime ? pylayout_for(python_version, runtime, &room[turn++ % 2]) : NULL;
}

/* Its functions are found where they are. */
static void find_symbols(void) {
  Dl_info info;
  struct link_map *map = NULL;
  struct interpreter here = {{dl_iterate_phdr, 0}, python_version, symbol_range, NULL, 0};
  uintptr_t loop = symbol_range("_PyEval_EvalFrameDefault").start;
  if (dladdr1((void *)loop, &info, (void **)&map, RTLD_DL_LINKMAP) && map) {
    here.path = map->l_name[0] ? map->l_name : "/proc/self/exe";
    here.bias = map->l_addr;
  }
  symbols_find(&here, &found);
}

/* Ticks of other threads read the symbols at any moment. The range of the bytecode loop is stored last, as most of
 * their use begins with it; between its two words, a tick may take another address for one of the loop. */
static void publish_symbols(void) {
  python_symbols.eval = (struct address_range){0, 0, 0};
  struct address_range eval = found.eval;
  found.eval = python_symbols.eval;
  shim_copy(&python_symbols, &found, sizeof found);
  atomic_thread_fence(memory_order_release);
  python_symbols.eval = eval;
}

/* ---- finding and losing the interpreter ---- */

static void find_interpreter(void) {
  const char *(*get_version)(void) = (const char *(*)(void))python_symbol("Py_GetVersion");
  if (!get_version) return;
  python_version = parse_version(get_version());
  void *(*get_state)(void) = (void *(*)(void))python_symbol("PyGILState_GetThisThreadState");
  find_symbols();
  publish_symbols();
  atomic_store(&finalizing, false);
  is_finalizing = (int (*)(void))python_symbol(python_version >> 16 >= 0x30d ? "Py_IsFinalizing" : "_Py_IsFinalizing");
  is_initialized = (int (*)(void))python_symbol("Py_IsInitialized");
  holds_gil = (int (*)(void))python_symbol("PyGILState_Check");
  const struct python_layout *layout =
      get_state && found.code_type && python_symbols.eval.start ? choose_layout() : NULL;
  python_layout = layout;
  atomic_thread_fence(memory_order_release);
  this_thread_state = get_state;
}

static int find_data_in(struct dl_phdr_info *info, size_t size, void *data) {
  struct address_range *out = data;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + segment->p_vaddr;
    if (segment->p_type != PT_LOAD || python_symbols.type_type - start >= segment->p_memsz) continue;
    *out = (struct address_range){start, start + segment->p_memsz, 0};
    return 1;
  }
  return 0;
}

void python_init(void) {
  find_interpreter();
  python_at_load = python_version != 0;
  if (python_at_load && python_symbols.type_type) dl_iterate_phdr(find_data_in, &python_symbols.data);
}

void python_find_in(const struct elf_image *image) {
  late = *image;
  find_interpreter();
}

void python_forget(void) {
  found = (struct python_symbols){.calls = 0};
  publish_symbols();
  late = (struct elf_image){.start = 0};
  python_version = 0;
  objects_forget_interpreter();
}

/* ---- calls of its functions ---- */

/* True if the calling thread's state may be freed at any moment: a finalizing interpreter frees the states of daemon
 * threads while they run. */
static bool state_may_be_gone(void) {
  return is_finalizing && is_finalizing() && this_thread.tid != (int32_t)syscall(SYS_getpid);
}

/* The recorder makes the trace of what there is while the interpreter frees its objects. */
static void note_finalizing(void) {
  atomic_store(&finalizing, true);
  if (spool) __atomic_store_n(&spool->finalizing, (int32_t)syscall(SYS_getpid), __ATOMIC_RELAXED);
}

static void note_new_start(void) {
  int32_t own = (int32_t)syscall(SYS_getpid);
  atomic_store(&finalizing, false);
  if (spool) __atomic_compare_exchange_n(&spool->finalizing, &own, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* At the very end of finalization the interpreter resets its flag, so the result is remembered here, until a program with
 * an interpreter inside has started it again. */
bool python_finalizing(void) {
  bool known = atomic_load_explicit(&finalizing, memory_order_relaxed);
  if (late_enter()) {
    bool is_now = is_finalizing && is_finalizing();
    if (is_now && !known) note_finalizing();
    if (known && !is_now && is_initialized && is_initialized()) note_new_start();
    late_leave();
  }
  return atomic_load_explicit(&finalizing, memory_order_relaxed);
}

void *python_thread_state(void) {
  void *state = NULL;
  if (!this_thread_state || !python_layout || !late_enter()) return NULL;
  if (!state_may_be_gone()) state = this_thread_state();
  late_leave();
  if (state) late_runs();
  return state;
}

bool python_holds_gil(void) {
  if (!holds_gil || !late_enter()) return false;
  bool holds = !state_may_be_gone() && this_thread_state() && holds_gil();
  late_leave();
  return holds;
}

bool python_thread_known(void) {
  if (!this_thread_state || !late_enter()) return false;
  bool known = this_thread_state() != NULL;
  late_leave();
  return known;
}

/* Reads the head of the list of interpreters: by a system call if their variables may be unmapped. */
static uintptr_t newest_interpreter(void) {
  const void *head = (const void *)(python_symbols.runtime + python_layout->runtime_interpreters);
  uintptr_t found = 0;
  if (python_at_load) return word_at(head, 0);
  return safe_read(&found, head, sizeof found) ? found : 0;
}

/* Interpreters are added at the head of the list. As long as it is the one that was alone there, it still is. */
bool python_sub_interpreters(void) {
  static _Atomic uintptr_t alone;
  const struct python_layout *layout = python_layout;
  if (!layout || layout->version > 0x30b || !python_symbols.runtime) return false;
  uintptr_t head = newest_interpreter(), older;
  if (!head || head == atomic_load_explicit(&alone, memory_order_relaxed)) return false;
  if (!safe_read(&older, (void *)(head + layout->interp_next), sizeof older)) return false;
  if (!older) atomic_store_explicit(&alone, head, memory_order_relaxed);
  return older != 0;
}

bool python_is_alone(const char *state) {
  const struct python_layout *layout = python_layout;
  if (!state || !layout || !python_symbols.runtime || !python_at_load) return false;
  static _Atomic bool was_not; /* an interpreter that has ended may have unmapped blocks that still count as alive */
  uintptr_t own = word_at(state, layout->tstate_interp);
  uintptr_t head = word_at((const void *)python_symbols.runtime, layout->runtime_interpreters);
  bool is_alone = own && head == own && !word_at((const void *)own, layout->interp_next);
  if (!is_alone) atomic_store_explicit(&was_not, true, memory_order_relaxed);
  return is_alone && !atomic_load_explicit(&was_not, memory_order_relaxed);
}
