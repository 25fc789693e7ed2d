/* The file that exec or spawn will run: whether the new program can be recorded.
 *
 * All of it may run in a vfork child (exec.c describes the consequences). */
#undef _FORTIFY_SOURCE
#include "inside/processes/executable.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
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

/* The loader ignores LD_PRELOAD in programs that gain privileges. */
static bool gains_privileges(const struct stat *file) {
  bool user = (file->st_mode & S_ISUID) && file->st_uid != geteuid();
  bool group = (file->st_mode & S_ISGID) && (file->st_mode & S_IXGRP) && file->st_gid != getegid();
  bool already =
      geteuid() != getuid() || getegid() != getgid(); /* the program keeps the privileges that the caller has gained */
  return S_ISREG(file->st_mode) && (user || group || already);
}

/* Returns 1 if the program has an interpreter segment, which names the loader; 0 if not; -1 if it cannot be read. */
static int has_interpreter(int fd, const Elf64_Ehdr *header) {
  for (unsigned i = 0; i < header->e_phnum && i < 64; i++) {
    Elf64_Phdr segment;
    size_t offset = header->e_phoff + (size_t)i * sizeof segment;
    if (read_at(fd, &segment, sizeof segment, offset) != (ssize_t)sizeof segment) return -1;
    if (segment.p_type == PT_INTERP) return 1;
  }
  return 0;
}

/* The loader started as a program has no interpreter segment, but honours LD_PRELOAD. */
static bool is_loader(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
  return strncmp(name, "ld-linux", 8) == 0 || strncmp(name, "ld.so", 5) == 0 || strncmp(name, "ld-2.", 5) == 0;
}

static void check_elf(int fd, const Elf64_Ehdr *header, const char *path) {
  struct stat file;
  if (fstat(fd, &file) == 0 && gains_privileges(&file))
    loss_add(LOSS_unrecorded_setuid);
  else if (header->e_ident[EI_CLASS] == ELFCLASS64 && has_interpreter(fd, header) == 0 && !is_loader(path))
    loss_add(LOSS_unrecorded_static);
}

/* Returns the interpreter of a "#!" line, terminated in place; null = there is none. */
static const char *interpreter_in(char *line) {
  char *start = line + 2 + strspn(line + 2, " \t");
  start[strcspn(start, " \t\n")] = '\0';
  return *start != '\0' ? start : NULL;
}

void executable_check_open(int fd, const char *path, bool script) {
  union {
    Elf64_Ehdr elf;
    char line[256];
  } head;
  ssize_t got = read_at(fd, &head, sizeof head - 1, 0);
  if (got < 4) return;
  head.line[got] = '\0';
  if (memcmp(head.line, "#!", 2) == 0) {
    const char *interpreter = script ? interpreter_in(head.line) : NULL;
    if (interpreter != NULL) executable_check_path(AT_FDCWD, interpreter, false);
  } else if (got >= (ssize_t)sizeof head.elf && memcmp(head.line, ELFMAG, SELFMAG) == 0) {
    check_elf(fd, &head.elf, path);
  }
}

/* A program may be executable without being readable. */
static void check_unreadable(int directory, const char *path) {
  struct stat file;
  if (fstatat(directory, path, &file, 0) == 0 && gains_privileges(&file)) loss_add(LOSS_unrecorded_setuid);
}

void executable_check_path(int directory, const char *path, bool script) {
  int fd = open_file(directory, path);
  if (fd < 0) {
    check_unreadable(directory, path);
    return;
  }
  executable_check_open(fd, path, script);
  syscall(SYS_close, fd);
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
