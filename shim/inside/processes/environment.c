/* The environment of a new image: adds what it needs to be recorded, whatever environment the program passes.
 *
 * All of it except environment_init and environment_remove_ours may run in a vfork child (exec.c describes the
 * consequences). */
#undef _FORTIFY_SOURCE
#include "inside/processes/environment.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/spool.h"

#define PRELOAD "LD_PRELOAD="
#define SPOOL "SCALENE_TRACE_SPOOL="
#define LISTING "LD_TRACE_LOADED_OBJECTS=" /* set by ldd: the loader lists the libraries, and starts no program */

static char library_entry[sizeof PRELOAD + PATH_MAX]; /* "LD_PRELOAD=/path/to/us" */
static char spool_entry[sizeof SPOOL + PATH_MAX];
static const char *const our_library = library_entry + sizeof PRELOAD - 1;

void environment_init(const char *library, const char *spool_path) {
  if (strlen(library) >= PATH_MAX || strlen(spool_path) >= PATH_MAX) return;
  strcpy(stpcpy(library_entry, PRELOAD), library);
  strcpy(stpcpy(spool_entry, SPOOL), spool_path);
}

static const char *value_of(const char *entry, const char *name_and_equals) {
  size_t length = strlen(name_and_equals);
  return strncmp(entry, name_and_equals, length) == 0 ? entry + length : NULL;
}

/* The loader accepts both as separators in LD_PRELOAD. */
static bool separates(char c) { return c == ':' || c == ' '; }

static size_t item_length(const char *item) { return strcspn(item, ": "); }

static bool is_our_library(const char *item, size_t length) {
  return strncmp(item, our_library, length) == 0 && our_library[length] == '\0';
}

static bool lists_our_library(const char *preload) {
  for (const char *at = preload; *at != '\0'; at += separates(*at)) {
    size_t length = item_length(at);
    if (length > 0 && is_our_library(at, length)) return true;
    at += length;
  }
  return false;
}

struct environment environment_read(char *const *entries) {
  static char *const none[] = {NULL};
  struct environment found = {.entries = entries != NULL ? entries : none};
  for (; found.entries[found.count] != NULL; found.count++) {
    const char *preload = value_of(found.entries[found.count], PRELOAD);
    const char *spool_value = value_of(found.entries[found.count], SPOOL);
    if (preload != NULL) found.preload = preload;
    if (spool_value != NULL) found.spool = spool_value;
    if (value_of(found.entries[found.count], LISTING) != NULL) found.lists_libraries = true;
  }
  return found;
}

static bool our_spool(const struct environment *found) {
  return found->spool != NULL && strcmp(found->spool, spool_entry + sizeof SPOOL - 1) == 0;
}

static bool has_library(const struct environment *found) {
  return found->preload != NULL && lists_our_library(found->preload);
}

static bool follows_children(void) { return (spool->features & FEATURE_CHILDREN) != 0; }

#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif

/* Checks the access of the effective user where the kernel supports it (from 5.8), else of the real user. */
static bool is_accessible(const char *path, int mode) {
  if (syscall(SYS_faccessat2, AT_FDCWD, path, mode, AT_EACCESS) == 0) return true;
  return errno == ENOSYS && syscall(SYS_faccessat, AT_FDCWD, path, mode) == 0;
}

/* Opens the file, because Landlock refuses that without a sign in the file's mode. */
static bool can_open(const char *path, int flags) {
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
  if (fd >= 0) syscall(SYS_close, fd);
  return fd >= 0 || errno == EMFILE || errno == ENFILE;
}

/* True if the file will be open to the next image as well: a user other than root loses capabilities by exec (setpriv
 * keeps them up to there), unless they are ambient; only the owner's rights are left then. */
static bool stays_accessible(const char *path) {
  struct stat about;
  uid_t user = (uid_t)syscall(SYS_geteuid);
  if (user == 0 || syscall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_DAC_OVERRIDE, 0, 0) == 1) return true;
  return syscall(SYS_newfstatat, AT_FDCWD, path, &about, 0) == 0 && about.st_uid == user;
}

/* True if a child can open our files. After chroot, setns or setuid they may be inaccessible. Then the child cannot be
 * recorded, and the loader would print on its stderr that it cannot preload our library. */
static bool files_are_accessible(void) {
  int error = errno;
  const char *spool_path = spool_entry + sizeof SPOOL - 1;
  bool library = is_accessible(our_library, R_OK) && can_open(our_library, O_RDONLY),
       file = library && is_accessible(spool_path, R_OK | W_OK) && stays_accessible(spool_path) &&
              can_open(spool_path, O_RDWR);
  if (!library) loss_add(LOSS_environment_lost);
  if (library && !file) loss_add(LOSS_process_slots);
  errno = error;
  return file;
}

enum environment_change environment_needed_change(const struct environment *found, bool takes_library) {
  if (library_entry[0] == '\0' || (found->spool != NULL && !our_spool(found))) return UNCHANGED;
  bool complete = found->spool != NULL && has_library(found), none = found->spool == NULL && !has_library(found);
  if (takes_library && !found->lists_libraries && recording() && follows_children() && files_are_accessible())
    return complete ? UNCHANGED : ADD_OURS;
  return none ? UNCHANGED : REMOVE_OURS;
}

/* One pointer for each entry, two for our variables, and the null; the new string follows them. */
static size_t pointers_needed(const struct environment *found) { return found->count + 3; }

size_t environment_bytes(const struct environment *found) {
  size_t entry = strlen(library_entry) + 2 + (found->preload != NULL ? strlen(found->preload) : 0);
  return pointers_needed(found) * sizeof(char *) + entry;
}

/* Writes LD_PRELOAD with our library first, then the program's. */
static void write_with(char *to, const struct environment *found) {
  to = stpcpy(to, library_entry);
  if (found->preload == NULL || found->preload[0] == '\0') return;
  *to++ = ':';
  strcpy(to, found->preload);
}

/* Writes LD_PRELOAD without our library; returns false if no other library remains. */
static bool write_without(char *to, const char *preload) {
  char *start = to = stpcpy(to, PRELOAD);
  for (const char *at = preload; *at != '\0'; at += separates(*at)) {
    size_t length = item_length(at);
    if (length > 0 && !is_our_library(at, length)) {
      if (to != start) *to++ = ':';
      memcpy(to, at, length);
      to += length;
    }
    at += length;
  }
  *to = '\0';
  return to != start;
}

static char *const *build_followed(const struct environment *found, void *memory) {
  char **out = memory, *text = (char *)(out + pointers_needed(found));
  bool keep = has_library(found);
  size_t used = 0;
  for (size_t i = 0; i < found->count; i++)
    if (keep || value_of(found->entries[i], PRELOAD) == NULL) out[used++] = found->entries[i];
  if (found->spool == NULL) out[used++] = spool_entry;
  if (!keep) {
    write_with(text, found);
    out[used++] = text;
  }
  out[used] = NULL;
  return out;
}

static char *const *build_unfollowed(const struct environment *found, void *memory) {
  char **out = memory, *text = (char *)(out + pointers_needed(found));
  bool remove = has_library(found), others = remove && write_without(text, found->preload);
  size_t used = 0;
  for (size_t i = 0; i < found->count; i++) {
    bool preload = value_of(found->entries[i], PRELOAD) != NULL;
    bool drop = (remove && preload) || value_of(found->entries[i], SPOOL) != NULL;
    if (!drop) out[used++] = found->entries[i];
  }
  if (others) out[used++] = text;
  out[used] = NULL;
  return out;
}

char *const *environment_build(const struct environment *found, enum environment_change change, void *memory) {
  return change == ADD_OURS ? build_followed(found, memory) : build_unfollowed(found, memory);
}

void environment_remove_ours(const struct environment *found) {
  if (!has_library(found)) return;
  char *preload = (char *)found->preload, *to = preload;
  for (const char *at = preload; *at != '\0'; at += separates(*at)) {
    size_t length = item_length(at);
    bool stays = length > 0 && !is_our_library(at, length);
    if (stays && to != preload) *to++ = ':';
    for (; length > 0; length--, at++)
      if (stays) *to++ = *at;
  }
  *to = '\0';
}
