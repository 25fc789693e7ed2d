/* Finds the Python interpreter in this process, through the symbols that it exports. One that is there at load is
 * found through the loader, as the program's own references are. One that is loaded later (late.c) is found through
 * the tables of its image, and may be unloaded again. */
#include "inside/python/python.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/core/thread_state.h"
#include "inside/python/elf_image.h"
#include "inside/python/late.h"
#include "inside/python/loop.h"
#include "inside/python/objects.h"
#include "inside/python/slots.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/stacks/pylayout.h"
#include "shared/words.h"

const struct python_layout *python_layout;
uint32_t python_version;
struct python_symbols python_symbols;
bool python_at_load;
static void *(*this_thread_state)(void);
static int (*is_finalizing)(void), (*holds_gil)(void);
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

/* The function in the field of a type that is exported; 0 = none. Types inherit fields only when Python starts. */
static uintptr_t type_function(const char *type, size_t field) {
  struct address_range range = symbol_range(type);
  uintptr_t function = 0;
  if (range.end - range.start < field + sizeof function) return 0;
  memcpy(&function, (const char *)range.start + field, sizeof function);
  return function;
}

static void add_range(struct address_range range, uint32_t flag) {
  if (!range.start || found.calls >= MAX_CALL_RANGES) return;
  range.flag = flag;
  found.call[found.calls++] = range;
}

/* Objects are called with a tuple and a dict of arguments, which are freed after the call. */
static void find_own_functions(void) {
  struct python_slots slots;
  found.slots_known = slots_find(found.eval.start, &slots);
  uintptr_t allocate = symbol_range("PyType_GenericAlloc").start; /* object.__new__ ends by calling it */
  const uintptr_t own[MAX_OWN] = {slots.call,
                                  slots.init,
                                  slots.new,
                                  type_function("PyBaseObject_Type", TP_INIT),
                                  type_function("PyBaseObject_Type", TP_NEW),
                                  allocate,
                                  type_function("PyTuple_Type", TP_DEALLOC),
                                  type_function("PyDict_Type", TP_DEALLOC)};
  memcpy(found.own, own, sizeof own);
}

#define MAX_CONVENTIONS 8

static int find_stored(const char *name, uintptr_t *out, int room) {
  struct address_range making = symbol_range(name);
  return loop_find_stored((struct code_range){making.start, making.end}, out, room);
}

static void add_builtin(uintptr_t function) {
  if (!function || function == found.type_call || found.builtins >= MAX_BUILTINS) return;
  for (int i = 0; i < MAX_OWN; i++) {
    if (function == found.own[i]) return;
  }
  found.builtin[found.builtins++] = function;
}

/* The functions that types call. They are static, so their addresses are read from the types. */
static void find_type_functions(void) {
  static const char *const names[] = {"PyCFunction_Type",    "PyCMethod_Type",
                                      "PyMethodDescr_Type",  "PyClassMethodDescr_Type",
                                      "PyWrapperDescr_Type", "_PyMethodWrapper_Type",
                                      "PyBool_Type",         "PyByteArray_Type",
                                      "PyBytes_Type",        "PyClassMethod_Type",
                                      "PyComplex_Type",      "PyContextVar_Type",
                                      "PyDict_Type",         "PyDictProxy_Type",
                                      "PyEnum_Type",         "PyFilter_Type",
                                      "PyFloat_Type",        "PyFrozenSet_Type",
                                      "PyFunction_Type",     "PyList_Type",
                                      "PyLong_Type",         "PyMap_Type",
                                      "PyMemoryView_Type",   "PyMethod_Type",
                                      "PyModule_Type",       "PyODict_Type",
                                      "PyProperty_Type",     "PyRange_Type",
                                      "PyReversed_Type",     "PySet_Type",
                                      "PySlice_Type",        "PyStaticMethod_Type",
                                      "PySuper_Type",        "PyTuple_Type",
                                      "PyUnicode_Type",      "PyZip_Type",
                                      "_PyNamespace_Type",   "_PyWeakref_RefType",
                                      "PyPickleBuffer_Type", "PyCode_Type"};
  found.bound_call = 0;
  if (find_stored("PyMethod_New", &found.bound_call, 1) != 1) found.bound_call = 0;
  found.type_call = type_function("PyType_Type", TP_CALL);
  find_own_functions();
  uintptr_t of_functions[MAX_CONVENTIONS]; /* those that call C functions, one for each kind of arguments */
  int count = find_stored("PyCMethod_New", of_functions, MAX_CONVENTIONS);
  for (int i = 0; i < count; i++) add_builtin(of_functions[i]);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    add_builtin(type_function(names[i], TP_CALL));
    add_builtin(type_function(names[i], TP_INIT));
    add_builtin(type_function(names[i], TP_NEW));
  }
}

#define MAX_COPIES 8

/* _PyObject_MakeTpCall and copies of it for the loop, with type_call within them. */
static void find_copies(void) {
  for (int i = 0; i < found.calls; i++) {
    struct address_range *call = &found.call[i];
    if (call->flag != TICK_TPCALL || call->start == found.type_call) continue;
    if (loop_refers((struct code_range){call->start, call->end}, found.type_call)) call->flag |= TICK_TYPE_CALL;
  }
  const struct code_range parts[2] = {{found.eval.start, found.eval.end}, {found.eval_part.start, found.eval_part.end}};
  struct code_range copy[MAX_COPIES];
  int count = loop_find_callers(parts, found.type_call, copy, MAX_COPIES);
  for (int i = 0; i < count; i++) {
    bool is_known = copy[i].start == found.type_call || found.eval_part.start == copy[i].start;
    for (int k = 0; k < found.calls; k++) is_known |= found.call[k].start == copy[i].start;
    if (!is_known) add_range((struct address_range){copy[i].start, copy[i].end, 0}, TICK_TPCALL | TICK_TYPE_CALL);
  }
}

/* _PyFunction_Vectorcall, through which C code calls Python functions. Debian's 3.14 does not export it, but
 * PyFunction_NewWithQualName stores its address into each function. */
static struct address_range find_function_call(void) {
  struct address_range range = symbol_range("_PyFunction_Vectorcall");
  uintptr_t stored;
  struct code_range function;
  if (range.start || find_stored("PyFunction_NewWithQualName", &stored, 1) != 1) return range;
  if (!loop_function_at((struct code_range){found.eval.start, found.eval.end}, stored, &function)) return range;
  return (struct address_range){function.start, function.end, 0};
}

static void find_call_ranges(void) {
  static const char *const vectorcall[] = {"PyObject_Vectorcall",
                                           "PyObject_VectorcallDict",
                                           "PyObject_VectorcallMethod",
                                           "PyObject_Call",
                                           "PyObject_CallObject",
                                           "PyObject_CallNoArgs",
                                           "PyObject_CallOneArg",
                                           "PyObject_CallFunction",
                                           "PyObject_CallFunctionObjArgs",
                                           "PyObject_CallMethod",
                                           "PyObject_CallMethodObjArgs",
                                           "_PyObject_Call",
                                           "PyVectorcall_Call",
                                           "PyCFunction_Call",
                                           "_PyObject_Call_Prepend",
                                           "_PyObject_FastCallDictTstate",
                                           "_Py_VectorCall_StackRefSteal", /* 3.15: the loop calls objects by them */
                                           "_Py_VectorCallInstrumentation_StackRefSteal"};
  for (size_t i = 0; i < sizeof vectorcall / sizeof *vectorcall; i++) {
    add_range(symbol_range(vectorcall[i]), TICK_VECTORCALL);
  }
  add_range(symbol_range("_PyObject_MakeTpCall"), TICK_TPCALL);
  add_range(find_function_call(), TICK_PYFRAME);
  if (python_version >> 16 != 0x30a) return;
  add_range(symbol_range("_Py_CheckFunctionResult"), CALL_ENDS);
  add_range(symbol_range("PyThreadState_Get"), CALL_ENDS);
}

/* ---- 3.10: the functions that set up frames are static, so their ranges are in the file's symbol table, if it has one
 * ---- */

struct elf_file {
  const char *data;
  size_t size;
};

static struct elf_file map_elf(const char *path) {
  struct elf_file file = {NULL, 0};
  struct stat status;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC); /* open() is a cancellation point */
  if (fd < 0) return file;
  if (!fstat(fd, &status) && status.st_size > (off_t)sizeof(ElfW(Ehdr))) {
    void *data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data != MAP_FAILED) file = (struct elf_file){data, (size_t)status.st_size};
  }
  syscall(SYS_close, fd);
  return file;
}

static bool inside(struct elf_file file, size_t offset, size_t size) {
  return offset <= file.size && size <= file.size - offset;
}

static uint32_t frame_function_flag(const char *name) {
  static const char *const setup[] = {"_PyEval_Vector",        "_PyEval_MakeFrameVector", "_PyFunction_Vectorcall",
                                      "frame_dealloc",         "_PyFrame_New_NoTrack",    "PyFrame_New",
                                      "function_code_fastcall"};
  for (size_t i = 0; i < sizeof setup / sizeof *setup; i++) {
    if (strcmp(name, setup[i]) == 0) return TICK_PYFRAME;
  }
  return strcmp(name, "type_call") == 0 ? TICK_TPCALL : 0;
}

static void scan_symbols(struct elf_file file, const ElfW(Shdr) * table, const ElfW(Shdr) * names, uintptr_t bias) {
  const elf_symbol *symbol = (const void *)(file.data + table->sh_offset);
  for (size_t n = table->sh_size / sizeof *symbol; n > 0; n--, symbol++) {
    if ((symbol->st_info & 15) != STT_FUNC || symbol->st_name >= names->sh_size || !symbol->st_size) continue;
    uint32_t flag = frame_function_flag(file.data + names->sh_offset + symbol->st_name);
    if (flag)
      add_range((struct address_range){bias + symbol->st_value, bias + symbol->st_value + symbol->st_size, 0}, flag);
  }
}

static void find_static_ranges(const char *path, uintptr_t bias) {
  struct elf_file file = map_elf(path);
  if (!file.data) return;
  const ElfW(Ehdr) *header = (const void *)file.data;
  size_t sections = header->e_shnum;
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && inside(file, header->e_shoff, sections * sizeof(ElfW(Shdr)))) {
    const ElfW(Shdr) *section = (const void *)(file.data + header->e_shoff);
    for (size_t i = 0; i < sections; i++) {
      if (section[i].sh_type != SHT_SYMTAB || section[i].sh_link >= sections) continue;
      const ElfW(Shdr) *names = &section[section[i].sh_link];
      if (!inside(file, section[i].sh_offset, section[i].sh_size) || !inside(file, names->sh_offset, names->sh_size))
        continue;
      if (names->sh_size && file.data[names->sh_offset + names->sh_size - 1] == 0)
        scan_symbols(file, &section[i], names, bias);
    }
  }
  munmap((void *)file.data, file.size);
}

static void find_symbols(void) {
  Dl_info info;
  struct link_map *map = NULL;
  found.eval = symbol_range("_PyEval_EvalFrameDefault");
  struct code_range part;
  if (loop_part_find((struct code_range){found.eval.start, found.eval.end}, &part))
    found.eval_part = (struct address_range){part.start, part.end, 0};
  found.code_type = (uintptr_t)python_symbol("PyCode_Type");
  found.type_type = (uintptr_t)python_symbol("PyType_Type");
  struct address_range runtime = symbol_range("_PyRuntime");
  found.runtime = runtime.start;
  found.runtime_bytes = runtime.end - runtime.start;
  find_call_ranges();
  find_type_functions();
  find_copies();
  if (!ARCH_READS_X86_CODE) loss_add(LOSS_loop_unread);
  if (python_version >> 16 != 0x30a) return;
  if (dladdr1((void *)found.eval.start, &info, (void **)&map, RTLD_DL_LINKMAP) && map) {
    find_static_ranges(map->l_name[0] ? map->l_name : "/proc/self/exe", map->l_addr);
  }
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
  found = (struct python_symbols){.calls = 0};
  find_symbols();
  publish_symbols();
  atomic_store(&finalizing, false);
  is_finalizing = (int (*)(void))python_symbol(python_version >> 16 >= 0x30d ? "Py_IsFinalizing" : "_Py_IsFinalizing");
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

/* At the very end of finalization the interpreter resets its flag, so the result is remembered here. */
bool python_finalizing(void) {
  if (!atomic_load_explicit(&finalizing, memory_order_relaxed) && late_enter()) {
    if (is_finalizing && is_finalizing()) note_finalizing();
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
