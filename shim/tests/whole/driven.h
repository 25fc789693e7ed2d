/* Included before every source file of the test. It renames the functions that the shim interposes to driven_malloc,
 * driven_free and so on, in the shim and in its driver. So the sanitizer's own functions keep their names and stay
 * below the shim, and the work that the sanitizer and libc do for themselves does not run through instrumented code
 * before that is possible. */
#define EXPORTED_PREFIX "driven_"
#define RENAMED(pragma) _Pragma(#pragma)
#define INTERPOSED(result, name, arguments) RENAMED(redefine_extname name driven_##name)
#include "inside/core/interposed.h"
INTERPOSED(int, execv, (const char *, char *const[]))
INTERPOSED(int, execvp, (const char *, char *const[]))
INTERPOSED(int, execl, (const char *, const char *, ...))
INTERPOSED(int, execlp, (const char *, const char *, ...))
INTERPOSED(int, execle, (const char *, const char *, ...))
#undef INTERPOSED
#undef RENAMED

/* The compiler only renames functions that are declared before they are defined. */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
void free_sized(void *, size_t);
void free_aligned_sized(void *, size_t, size_t);
void *__memcpy_chk(void *, const void *, size_t, size_t);
void *__memmove_chk(void *, const void *, size_t, size_t);
