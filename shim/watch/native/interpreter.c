/* Finds the functions of an interpreter in another process, by the same search as in the own one: its segments are copied to
 * the same places relative to each other, and addresses in them are moved by as much as the copy. The process may have
 * written anything into them, so every symbol must lie within the copy. */
#include "watch/native/interpreter.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shared/base.h"
#include "shared/interpreter/elf_image.h"
#include "shared/interpreter/symbols.h"
#include "shared/native/image.h"
#include "shared/saferead.h"
#include "watch/reading/proc.h"

#define MOST_BYTES ((size_t)256 << 20)       /* of the addresses that its segments take */
#define MOST_COPIED_BYTES ((size_t)64 << 20) /* of the segments */
#define MOST_SYMBOL_BYTES ((size_t)1 << 20)
#define MOST_FILE_BYTES ((size_t)64 << 20)
#define MOST_LIBRARIES 4096
#define MOST_DYNAMIC 256

static struct loaded_library library;
/* The copy: of [start, start + bytes) of the process. */
static struct {
  char *at;
  uintptr_t start;
  size_t bytes;
  struct dl_phdr_info info;
  struct elf_image image;
} copy;

/* ---- the copy ---- */

static bool holds(const struct image_source *source) {
  for (int i = 0; i < library.segments; i++) {
    const ElfW(Phdr) *segment = &library.segment[i];
    uintptr_t start = library.bias + segment->p_vaddr;
    if (segment->p_type == PT_LOAD && source->interpreter - start < segment->p_memsz) return true;
  }
  return false;
}

/* Reads the entry of the interpreter; `*is_program`: it is the executable. */
static bool find_library(const struct image_source *source, bool *is_program) {
  uintptr_t at;
  if (!safe_read(&at, (void *)source->list, sizeof at)) return false;
  for (int i = 0; at && i < MOST_LIBRARIES; i++, at = library.next) {
    if (!library_read(&library, at, i ? NULL : source)) return false;
    *is_program = i == 0;
    if (holds(source)) return true;
  }
  return false;
}

/* Discards segments that are impossible, and finds what all others take. */
static bool measure(void) {
  uintptr_t low = UINTPTR_MAX, high = 0;
  size_t left = MOST_COPIED_BYTES;
  for (int i = 0; i < library.segments; i++) {
    ElfW(Phdr) *segment = &library.segment[i];
    if (segment->p_filesz > segment->p_memsz) segment->p_filesz = segment->p_memsz;
    uintptr_t start = library.bias + segment->p_vaddr;
    if (segment->p_type != PT_LOAD) continue;
    if (segment->p_memsz > left || start >= ARCH_HIGHEST_ADDRESS) return false;
    left -= segment->p_memsz;
    if (start < low) low = start;
    if (start + segment->p_memsz > high) high = start + segment->p_memsz;
  }
  copy.start = low;
  copy.bytes = high - low;
  return low < high && high - low <= MOST_BYTES;
}

static bool take_copy(void) {
  void *mapped = mmap(NULL, copy.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return false;
  copy.at = mapped;
  for (int i = 0; i < library.segments; i++) {
    const ElfW(Phdr) *segment = &library.segment[i];
    uintptr_t start = library.bias + segment->p_vaddr;
    if (segment->p_type == PT_LOAD) safe_read_some(copy.at + (start - copy.start), (void *)start, segment->p_memsz);
  }
  return true;
}

static uintptr_t moved(void) { return (uintptr_t)copy.at - copy.start; }

static bool is_copied(uintptr_t address, size_t size) {
  size_t offset = address - (uintptr_t)copy.at;
  return offset < copy.bytes && size <= copy.bytes - offset;
}

/* Where a pointer of the dynamic section leads to in the copy. Most loaders have relocated it. */
static const void *dynamic_address(uintptr_t pointer) {
  uintptr_t address = (pointer < library.bias ? library.bias + pointer : pointer) + moved();
  return is_copied(address, 1) ? (const void *)address : NULL;
}

static void find_tables(void) {
  copy.image = (struct elf_image){.bias = library.bias + moved()};
  uintptr_t dynamic = 0;
  for (int i = 0; i < library.segments; i++) {
    if (library.segment[i].p_type == PT_DYNAMIC) dynamic = copy.image.bias + library.segment[i].p_vaddr;
  }
  for (int i = 0; i < MOST_DYNAMIC && is_copied(dynamic, sizeof(ElfW(Dyn))); i++, dynamic += sizeof(ElfW(Dyn))) {
    ElfW(Dyn) entry;
    memcpy(&entry, (const void *)dynamic, sizeof entry);
    if (entry.d_tag == DT_NULL) return;
    if (entry.d_tag == DT_SYMTAB) copy.image.symbols = dynamic_address(entry.d_un.d_ptr);
    if (entry.d_tag == DT_STRTAB) copy.image.names = dynamic_address(entry.d_un.d_ptr);
    if (entry.d_tag == DT_GNU_HASH) copy.image.gnu_hash = dynamic_address(entry.d_un.d_ptr);
    if (entry.d_tag == DT_HASH) copy.image.hash = dynamic_address(entry.d_un.d_ptr);
  }
}

/* ---- the search ---- */

static int visit_copy(image_visitor *visitor, void *data) { return visitor(&copy.info, sizeof copy.info, data); }

static struct address_range symbol_in_copy(const char *name) {
  ElfW(Sym) symbol;
  const elf_symbol *found = elf_image_symbol(&copy.image, name);
  if (!found || !is_copied((uintptr_t)found, sizeof symbol)) return (struct address_range){0, 0, 0};
  memcpy(&symbol, found, sizeof symbol);
  uintptr_t start = copy.image.bias + symbol.st_value;
  if (symbol.st_size > MOST_SYMBOL_BYTES || !is_copied(start, symbol.st_size)) return (struct address_range){0, 0, 0};
  return (struct address_range){start, start + symbol.st_size, 0};
}

/* The file may be longer than its status says. */
static bool copy_file(int from, int to) {
  size_t left = MOST_FILE_BYTES;
  for (ssize_t got; left && (got = sendfile(to, from, NULL, left)) != 0; left -= (size_t)got) {
    if (got < 0) return false;
  }
  return left > 0;
}

/* Of files that are not regular, or that the kernel makes up, opening or reading may have effects. */
static bool is_harmless(int place, unsigned long inode) {
  struct stat status;
  struct statfs system;
  if (fstat(place, &status) || !S_ISREG(status.st_mode) || status.st_ino != inode || fstatfs(place, &system))
    return false;
  return system.f_type != PROC_SUPER_MAGIC && system.f_type != SYSFS_MAGIC && system.f_type != TRACEFS_MAGIC &&
         system.f_type != DEBUGFS_MAGIC;
}

/* Opens the file if it has this inode. Its device cannot be compared: on overlayfs and btrfs, mappings have another one. */
static int open_same(const char *path, unsigned long inode) {
  char name[32];
  int place = open(path, O_PATH | O_CLOEXEC), file = -1;
  snprintf(name, sizeof name, "/proc/self/fd/%d", place);
  if (place >= 0 && is_harmless(place, inode)) file = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (place >= 0) close(place);
  return file;
}

/* Returns a descriptor of a copy of the interpreter's file, which nobody can shorten while it is mapped; -1 = it cannot be
 * read. Only the places of its functions are read there. The library's name is the process's own word, and a recorder with
 * privileges could be made to open another file by it: it opens the mapping itself. */
static int open_file(pid_t pid, uintptr_t address, bool is_program) {
  char path[PATH_BYTES + 32];
  unsigned long inode;
  if (!proc_file_at(pid, address, path, sizeof path, &inode)) return -1;
  int from = open_same(path, inode);
  snprintf(path, sizeof path, is_program ? "/proc/%d/exe" : "/proc/%d/root%s", pid, library.path);
  if (from < 0) from = open_same(path, inode);
  int to = from < 0 ? -1 : memfd_create("interpreter", MFD_CLOEXEC);
  if (to >= 0 && !copy_file(from, to)) {
    close(to);
    to = -1;
  }
  if (from >= 0) close(from);
  return to;
}

/* Back to where the interpreter is. */
static void move_back(uintptr_t *address) { *address = *address ? *address - moved() : 0; }

static void move_range(struct address_range *range) {
  move_back(&range->start);
  move_back(&range->end);
}

static void move_all(struct python_symbols *symbols) {
  move_range(&symbols->eval);
  move_range(&symbols->eval_part);
  for (int i = 0; i < symbols->calls; i++) move_range(&symbols->call[i]);
  move_back(&symbols->type_call);
  move_back(&symbols->bound_call);
  for (int i = 0; i < MAX_OWN; i++) move_back(&symbols->own[i]);
  for (int i = 0; i < symbols->builtins; i++) move_back(&symbols->builtin[i]);
  move_back(&symbols->code_type);
  move_back(&symbols->type_type);
  move_back(&symbols->runtime);
}

static struct python_symbols *search(pid_t pid, const struct image_source *source, uint32_t version, bool is_program) {
  struct python_symbols *found = calloc(1, sizeof *found);
  char path[32] = "";
  int file = version >> 16 == 0x30a ? open_file(pid, source->interpreter, is_program) : -1;
  if (file >= 0) snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  copy.info = (struct dl_phdr_info){
      .dlpi_addr = copy.image.bias, .dlpi_phdr = library.segment, .dlpi_phnum = (ElfW(Half))library.segments};
  struct interpreter there = {.place = {visit_copy, moved()}, .version = version, .symbol = symbol_in_copy};
  there.path = file >= 0 ? path : NULL;
  there.bias = copy.image.bias;
  safe_read_of(getpid(), 0); /* symbols are looked up by safe reads, here of the copy */
  if (found) symbols_find(&there, found);
  safe_read_of(pid, 0);
  if (file >= 0) close(file);
  if (found) move_all(found);
  return found;
}

struct python_symbols *interpreter_symbols(pid_t pid, const struct image_source *source, uint32_t version) {
  bool is_program;
  if (!find_library(source, &is_program) || !measure() || !take_copy()) return NULL;
  find_tables();
  struct python_symbols *found = search(pid, source, version, is_program);
  munmap(copy.at, copy.bytes);
  return found;
}
