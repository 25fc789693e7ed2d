/* Put before every file: the functions that the shim stands in front of are called driven_malloc, driven_free and so
 * on, by the shim and by its driver alike. So a sanitizer's own stay in their place, below the shim, and what they and
 * libc do for themselves does not pass through instrumented code before that can run. */
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

/* The compiler renames what is declared before it is defined. */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
void free_sized(void *, size_t);
void free_aligned_sized(void *, size_t, size_t);
void *__memcpy_chk(void *, const void *, size_t, size_t);
void *__memmove_chk(void *, const void *, size_t, size_t);
