/* A seccomp filter may kill the process for a system call that the program does not make. So the recording of memory ends
 * before the program sets one. */
#include <dlfcn.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "inside/attached/attached.h"
#include "inside/python/python.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/spool.h"

typedef long syscall_function(long, long, long, long, long, long, long);
__attribute__((visibility("hidden"))) LASTING syscall_function *attached_real_syscall;
static LASTING int (*real_prctl)(int, ...);

/* ---- functions that the program looks up, as ctypes does ---- */

typedef void *dlsym_function(void *, const char *);
__attribute__((visibility("hidden"))) LASTING dlsym_function *attached_real_dlsym;
__attribute__((visibility("hidden"), used)) void *attached_before_dlsym(void *handle, const char *name);

static void *dlsym_not_found(void *handle, const char *name) {
  (void)handle, (void)name;
  return NULL;
}

static void find_real_dlsym(void) {
  void *real = dlvsym(RTLD_NEXT, "dlsym", ARCH_FIRST_GLIBC);
  attached_real_dlsym = real ? (dlsym_function *)real : dlsym_not_found;
}

void *attached_before_dlsym(void *handle, const char *name) {
  if (unlikely(!attached_real_dlsym)) find_real_dlsym();
  if (!recording() || !name || handle == RTLD_NEXT) return NULL;
  bool is_prctl = strcmp(name, "prctl") == 0;
  if (!is_prctl && strcmp(name, "syscall") != 0) return NULL;
  void *libcs = is_prctl ? (void *)real_prctl : (void *)attached_real_syscall;
  if (!libcs || attached_real_dlsym(handle, name) != libcs) return NULL; /* another library's function of that name */
  return is_prctl ? (void *)&attached_prctl : (void *)&syscall;
}

/* The result of dlsym(RTLD_NEXT, ...) depends on the address of its caller. So this jumps to the real dlsym. */
__asm__(".hidden dlsym");
ARCH_DLSYM_FUNCTION("attached_before_dlsym", "attached_real_dlsym");

void filters_watch(void) {
  attached_real_syscall = (syscall_function *)dlsym(RTLD_NEXT, "syscall");
  real_prctl = (int (*)(int, ...))dlsym(RTLD_NEXT, "prctl");
}

static void before_filter(void) {
  if (!recording()) return;
  loss_add(LOSS_attached_memory_ended);
  attached_leave(python_holds_gil());
}

static bool sets_filter(long number, long a, long c) {
  if (number == SYS_prctl) return (int)a == PR_SET_SECCOMP;
  return number == SYS_seccomp &&
         ((uint32_t)a == SECCOMP_SET_MODE_STRICT || ((uint32_t)a == SECCOMP_SET_MODE_FILTER && c));
}

int attached_prctl(int option, ...) {
  va_list list;
  va_start(list, option);
  long b = va_arg(list, long), c = va_arg(list, long), d = va_arg(list, long), e = va_arg(list, long);
  va_end(list);
  if (option == PR_SET_SECCOMP) before_filter();
  return real_prctl(option, b, c, d, e);
}

__attribute__((visibility("hidden"), used)) long attached_call(long number, long a, long b, long c, long d, long e,
                                                               long f);
long attached_call(long number, long a, long b, long c, long d, long e, long f) {
  if (sets_filter(number, a, c)) before_filter();
  if (attached_real_syscall) return attached_real_syscall(number, a, b, c, d, e, f);
  long result = arch_system_call(number, a, b, c, d, e, f);
  if (result >= 0 || result < -4095) return result;
  errno = (int)-result;
  return -1;
}

/* Jumps to the real function, so that a system call that returns twice finds the caller's stack as it was. */
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
__asm__(".hidden syscall");
ARCH_SYSCALL_FUNCTION(TEXT(ARCH_PRCTL), TEXT(ARCH_SECCOMP), "attached_call", "attached_real_syscall");
_Static_assert(SYS_prctl == ARCH_PRCTL && SYS_seccomp == ARCH_SECCOMP, "as the code above has it");
