/* The file that exec or spawn will run: what kind of program it is. It is read as the kernel and the loader do.
 *
 * All of it may run in a vfork child (inside/processes/exec.c describes the consequences). */
#undef _FORTIFY_SOURCE
#include "shared/executable.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shared/base.h"
#include "shared/loss.h"

static int open_file(int directory, const char *path) {
  return (int)syscall(SYS_openat, directory, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
}

static ssize_t read_at(int fd, void *to, size_t bytes, size_t offset) {
  return syscall(SYS_pread64, fd, to, bytes, offset);
}

bool executable_may_run(const char *path) {
  struct stat file;
  return stat(path, &file) == 0 && S_ISREG(file.st_mode) && (file.st_mode & 0111);
}

static bool has_capabilities(int fd) {
  return fd >= 0 && syscall(SYS_fgetxattr, fd, "security.capability", NULL, 0) > 0;
}

/* True if the kernel ignores the privileges of files: for this process, or on the file's file system. */
static bool gains_none(int fd) {
  struct statfs system;
  if (syscall(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return true;
  return fd >= 0 && syscall(SYS_fstatfs, fd, &system) == 0 && (system.f_flags & ST_NOSUID) != 0;
}

/* The loader ignores LD_PRELOAD in programs that gain privileges. `fd`: the file; -1 = it cannot be opened. */
static bool gains_privileges(int fd, const struct stat *file) {
  bool user = (file->st_mode & S_ISUID) && file->st_uid != geteuid();
  bool group = (file->st_mode & S_ISGID) && (file->st_mode & S_IXGRP) && file->st_gid != getegid();
  bool capabilities = getuid() != 0 && has_capabilities(fd);
  bool already =
      geteuid() != getuid() || getegid() != getgid(); /* the program keeps the privileges that the caller has gained */
  return S_ISREG(file->st_mode) && (already || ((user || group || capabilities) && !gains_none(fd)));
}

#define MAX_SEGMENTS 64
#define MAX_ENTRIES 512 /* of the dynamic section */

static bool starts_with(const char *text, const char *start) { return strncmp(text, start, strlen(start)) == 0; }

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

/* The loader of glibc, which understands LD_PRELOAD as the shim needs it. */
static bool is_our_loader(const char *path) {
  const char *name = file_name(path);
  return starts_with(name, "ld-linux") || starts_with(name, "ld.so") || starts_with(name, "ld-2.");
}

/* True for the sanitizers that replace malloc: their runtimes must be initialized before all other libraries. */
static bool is_sanitizer_runtime(const char *name) {
  static const char *const runtimes[] = {"libasan.so",       "libhwasan.so",     "libtsan.so",
                                         "liblsan.so",       "libclang_rt.asan", "libclang_rt.hwasan",
                                         "libclang_rt.tsan", "libclang_rt.lsan"};
  for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes; i++)
    if (starts_with(name, runtimes[i])) return true;
  return false;
}

bool executable_preload_has_sanitizer(const char *preload) {
  const char *name = preload;
  for (const char *at = preload;; at++) {
    bool ends = *at == '\0' || *at == ':' || *at == ' ';
    if (*at == '/') name = at + 1;
    if (ends && is_sanitizer_runtime(name)) return true;
    if (*at == '\0') return false;
    if (ends) name = at + 1;
  }
}

/* What the program headers say. */
struct program {
  int fd;
  const Elf64_Ehdr *header;
  bool has_loader, is_ours;
  Elf64_Phdr dynamic; /* p_filesz 0 = none */
};

static bool read_segment(const struct program *program, unsigned number, Elf64_Phdr *segment) {
  size_t offset = program->header->e_phoff + (size_t)number * sizeof *segment;
  return read_at(program->fd, segment, sizeof *segment, offset) == (ssize_t)sizeof *segment;
}

static unsigned segments_of(const struct program *program) {
  return program->header->e_phnum < MAX_SEGMENTS ? program->header->e_phnum : MAX_SEGMENTS;
}

static bool read_segments(struct program *program) {
  for (unsigned i = 0; i < segments_of(program); i++) {
    Elf64_Phdr segment;
    if (!read_segment(program, i, &segment)) return false;
    if (segment.p_type == PT_DYNAMIC) program->dynamic = segment;
    if (segment.p_type != PT_INTERP) continue;
    char loader[256];
    ssize_t got = read_at(program->fd, loader, sizeof loader - 1, segment.p_offset);
    if (got <= 0) return false;
    loader[got] = '\0';
    program->has_loader = true;
    program->is_ours = is_our_loader(loader);
  }
  return true;
}

/* Returns the offset in the file of an address of the program; 0 = it is not in the file. */
static size_t offset_of(const struct program *program, uint64_t address) {
  for (unsigned i = 0; i < segments_of(program); i++) {
    Elf64_Phdr segment;
    if (!read_segment(program, i, &segment)) return 0;
    if (segment.p_type == PT_LOAD && address - segment.p_vaddr < segment.p_filesz)
      return segment.p_offset + (address - segment.p_vaddr);
  }
  return 0;
}

/* Reads an entry of the dynamic section; false = there are no more. */
static bool read_entry(const struct program *program, unsigned number, Elf64_Dyn *entry) {
  size_t offset = (size_t)number * sizeof *entry;
  if (number >= MAX_ENTRIES || offset + sizeof *entry > program->dynamic.p_filesz) return false;
  offset += program->dynamic.p_offset;
  return read_at(program->fd, entry, sizeof *entry, offset) == (ssize_t)sizeof *entry && entry->d_tag != DT_NULL;
}

static size_t offset_of_names(const struct program *program) {
  Elf64_Dyn entry;
  for (unsigned i = 0; read_entry(program, i, &entry); i++)
    if (entry.d_tag == DT_STRTAB) return offset_of(program, entry.d_un.d_ptr);
  return 0;
}

/* True if the program is linked with the runtime of a sanitizer. If it is linked in, the program has functions that run
 * before those of all libraries. */
static bool has_sanitizer(const struct program *program) {
  Elf64_Dyn entry;
  size_t names = offset_of_names(program);
  for (unsigned i = 0; read_entry(program, i, &entry); i++) {
    char name[32];
    if (entry.d_tag == DT_PREINIT_ARRAY) return true;
    if (entry.d_tag != DT_NEEDED || names == 0) continue;
    ssize_t got = read_at(program->fd, name, sizeof name - 1, names + entry.d_un.d_val);
    if (got <= 0) continue;
    name[got] = '\0';
    if (is_sanitizer_runtime(name)) return true;
  }
  return false;
}

static enum executable_kind kind_of_elf(int fd, const Elf64_Ehdr *header, const char *path) {
  struct stat file;
  struct program program = {.fd = fd, .header = header};
  if (fstat(fd, &file) == 0 && gains_privileges(fd, &file)) return EXECUTABLE_PRIVILEGED;
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != ARCH_ELF_MACHINE) return EXECUTABLE_REFUSES;
  if (!read_segments(&program) || is_our_loader(path)) return EXECUTABLE_RECORDABLE;
  if (!program.has_loader) return starts_with(file_name(path), "ld-") ? EXECUTABLE_REFUSES : EXECUTABLE_STATIC;
  return program.is_ours && !has_sanitizer(&program) ? EXECUTABLE_RECORDABLE : EXECUTABLE_REFUSES;
}

/* Returns the interpreter of a "#!" line, terminated in place; null = there is none. */
static const char *interpreter_in(char *line) {
  char *start = line + 2 + strspn(line + 2, " \t");
  start[strcspn(start, " \t\n")] = '\0';
  return *start != '\0' ? start : NULL;
}

static enum executable_kind kind_at(int directory, const char *path, int scripts);

/* `scripts`: how many levels of scripts are followed. */
static enum executable_kind kind_of_readable(int fd, const char *path, int scripts) {
  union {
    Elf64_Ehdr elf;
    char line[256];
  } head;
  ssize_t got = read_at(fd, &head, sizeof head - 1, 0);
  if (got < 4) return EXECUTABLE_RECORDABLE;
  head.line[got] = '\0';
  if (memcmp(head.line, "#!", 2) == 0) {
    const char *interpreter = scripts > 0 ? interpreter_in(head.line) : NULL;
    return interpreter != NULL ? kind_at(AT_FDCWD, interpreter, scripts - 1) : EXECUTABLE_RECORDABLE;
  }
  bool is_elf = got >= (ssize_t)sizeof head.elf && memcmp(head.line, ELFMAG, SELFMAG) == 0;
  return is_elf ? kind_of_elf(fd, &head.elf, path) : EXECUTABLE_RECORDABLE;
}

/* A program may be executable without being readable. */
static enum executable_kind kind_of_unreadable(int directory, const char *path, int flags) {
  struct stat file;
  bool privileged = fstatat(directory, path, &file, flags) == 0 && gains_privileges(-1, &file);
  return privileged ? EXECUTABLE_PRIVILEGED : EXECUTABLE_RECORDABLE;
}

static enum executable_kind kind_at(int directory, const char *path, int scripts) {
  int fd = open_file(directory, path);
  if (fd < 0) return kind_of_unreadable(directory, path, 0);
  enum executable_kind kind = kind_of_readable(fd, path, scripts);
  syscall(SYS_close, fd);
  return kind;
}

#define SCRIPT_LEVELS 5 /* as the kernel */

enum executable_kind executable_kind_at(int directory, const char *path) {
  return kind_at(directory, path, SCRIPT_LEVELS);
}

/* Writes "/proc/self/fd/N", as far as the number has at most ten digits. */
static void name_descriptor(char *to, int fd) {
  char digits[10];
  int used = 0;
  do digits[used++] = (char)('0' + fd % 10);
  while ((fd /= 10) > 0);
  for (to = stpcpy(to, "/proc/self/fd/"); used > 0;) *to++ = digits[--used];
  *to = '\0';
}

/* A descriptor that was opened with O_PATH, as exec needs no more, cannot be read: its file is opened again. */
enum executable_kind executable_kind_open(int fd, const char *path) {
  char again[32], byte;
  if (fd < 0) return EXECUTABLE_RECORDABLE;
  if (read_at(fd, &byte, 1, 0) >= 0) return kind_of_readable(fd, path, SCRIPT_LEVELS);
  name_descriptor(again, fd);
  int opened = open_file(AT_FDCWD, again);
  if (opened < 0) return kind_of_unreadable(fd, "", AT_EMPTY_PATH);
  enum executable_kind kind = kind_of_readable(opened, path, SCRIPT_LEVELS);
  syscall(SYS_close, opened);
  return kind;
}

bool executable_find(char *to, const char *name) {
  const char *path = getenv("PATH");
  size_t name_length = strlen(name);
  for (const char *at = path != NULL ? path : "/bin:/usr/bin";; at++) {
    size_t length = strcspn(at, ":");
    if (length + name_length + 2 <= PATH_MAX) {
      memcpy(to, at, length);
      to[length] = '/';
      memcpy(to + length + (length > 0), name, name_length + 1);
      if (executable_may_run(to)) return true;
    }
    at += length;
    if (*at == '\0') return false;
  }
}

int executable_loss(enum executable_kind kind) {
  switch (kind) {
  case EXECUTABLE_STATIC: return LOSS_unrecorded_static;
  case EXECUTABLE_PRIVILEGED: return LOSS_unrecorded_setuid;
  case EXECUTABLE_REFUSES: return LOSS_unrecorded_image;
  default: return -1;
  }
}
