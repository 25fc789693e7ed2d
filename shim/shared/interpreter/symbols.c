/* Finds the functions of an interpreter that say what a native stack does: through the symbols that it exports, in its types
 * and in its code. */
#include "shared/interpreter/symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/interpreter/elf_image.h"
#include "shared/interpreter/loop.h"
#include "shared/interpreter/slots.h"
#include "shared/loss.h"

struct python_symbols python_symbols;

static const struct interpreter *from; /* what is searched, */
static struct python_symbols found;    /* and what is being found */

/* The function in the field of a type that is exported; 0 = none. Types inherit fields only when Python starts. */
static uintptr_t type_function(const char *type, size_t field) {
  struct address_range range = from->symbol(type);
  uintptr_t function = 0;
  if (range.end - range.start < field + sizeof function) return 0;
  memcpy(&function, (const char *)range.start + field, sizeof function);
  return function ? function + from->place.moved : 0;
}

static void add_range(struct address_range range, uint32_t flag) {
  if (!range.start || found.calls >= MAX_CALL_RANGES) return;
  range.flag = flag;
  found.call[found.calls++] = range;
}

/* Objects are called with a tuple and a dict of arguments, which are freed after the call. */
static void find_own_functions(void) {
  struct python_slots slots;
  found.slots_known = slots_find(&from->place, found.eval.start, &slots);
  uintptr_t allocate = from->symbol("PyType_GenericAlloc").start; /* object.__new__ ends by calling it */
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
  struct address_range making = from->symbol(name);
  return loop_find_stored(&from->place, (struct code_range){making.start, making.end}, out, room);
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
    if (loop_refers(&from->place, (struct code_range){call->start, call->end}, found.type_call))
      call->flag |= TICK_TYPE_CALL;
  }
  const struct code_range parts[2] = {{found.eval.start, found.eval.end}, {found.eval_part.start, found.eval_part.end}};
  struct code_range copy[MAX_COPIES];
  int count = loop_find_callers(&from->place, parts, found.type_call, copy, MAX_COPIES);
  for (int i = 0; i < count; i++) {
    bool is_known = copy[i].start == found.type_call || found.eval_part.start == copy[i].start;
    for (int k = 0; k < found.calls; k++) is_known |= found.call[k].start == copy[i].start;
    if (!is_known) add_range((struct address_range){copy[i].start, copy[i].end, 0}, TICK_TPCALL | TICK_TYPE_CALL);
  }
}

/* _PyFunction_Vectorcall, through which C code calls Python functions. Debian's 3.14 does not export it, but
 * PyFunction_NewWithQualName stores its address into each function. */
static struct address_range find_function_call(void) {
  struct address_range range = from->symbol("_PyFunction_Vectorcall");
  uintptr_t stored;
  struct code_range function;
  if (range.start || find_stored("PyFunction_NewWithQualName", &stored, 1) != 1) return range;
  if (!loop_function_at(&from->place, (struct code_range){found.eval.start, found.eval.end}, stored, &function))
    return range;
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
    add_range(from->symbol(vectorcall[i]), TICK_VECTORCALL);
  }
  add_range(from->symbol("_PyObject_MakeTpCall"), TICK_TPCALL);
  add_range(find_function_call(), TICK_PYFRAME);
  if (from->version >> 16 != 0x30a) return;
  add_range(from->symbol("_Py_CheckFunctionResult"), CALL_ENDS);
  add_range(from->symbol("PyThreadState_Get"), CALL_ENDS);
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
        break;
      if (names->sh_size && file.data[names->sh_offset + names->sh_size - 1] == 0)
        scan_symbols(file, &section[i], names, bias);
      break; /* a file has one such table; damaged ones may have many */
    }
  }
  munmap((void *)file.data, file.size);
}

static void find_all(void) {
  found.eval = from->symbol("_PyEval_EvalFrameDefault");
  struct code_range part;
  if (loop_part_find(&from->place, (struct code_range){found.eval.start, found.eval.end}, &part))
    found.eval_part = (struct address_range){part.start, part.end, 0};
  found.code_type = from->symbol("PyCode_Type").start;
  found.type_type = from->symbol("PyType_Type").start;
  struct address_range runtime = from->symbol("_PyRuntime");
  found.runtime = runtime.start;
  found.runtime_bytes = runtime.end - runtime.start;
  find_call_ranges();
  find_type_functions();
  find_copies();
  if (!ARCH_READS_X86_CODE) loss_add(LOSS_loop_unread);
  if (from->version >> 16 != 0x30a) return;
  if (from->path) find_static_ranges(from->path, from->bias);
}

void symbols_find(const struct interpreter *interpreter, struct python_symbols *out) {
  from = interpreter;
  found = (struct python_symbols){.calls = 0};
  find_all();
  *out = found;
}
