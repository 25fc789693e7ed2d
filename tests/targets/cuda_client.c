/* Calls CUDA the ways that libraries do: linked (-DLINKED), through a weak reference (-DWEAK), by dlsym, with a runtime of
 * its own inside (-DINSIDE, compiled together with the scripted runtime), while it is being loaded
 * (-DCONSTRUCTED), as a program of its own (-DMAIN). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef int copier(void *, const void *, size_t, int);
#if defined(LINKED) || defined(INSIDE)
copier cudaMemcpy;
int cudaMalloc(void **, size_t);
int cudaFree(void *);
static copier *const table[] = {cudaMemcpy}; /* a pointer in data */

int client_copy(void *to, const void *from, size_t size, int kind) { return cudaMemcpy(to, from, size, kind); }
int client_copy_by_table(void *to, const void *from, size_t size, int kind) {
  return ((copier *const volatile *)table)[0](to, from, size, kind);
}
void *client_allocate(size_t size) {
  void *block = NULL;
  return cudaMalloc(&block, size) ? NULL : block;
}
int client_free(void *block) { return cudaFree(block); }
#endif

#ifdef WEAK
int cudaMalloc(void **, size_t) __attribute__((weak));
int client_has_cuda(void) { return cudaMalloc != NULL; }
#endif

int client_copy_by_dlsym(const char *path, void *to, const void *from, size_t size, int kind) {
  copier *copy = (copier *)dlsym(dlopen(path, RTLD_NOW | RTLD_LOCAL), "cudaMemcpy");
  return copy ? copy(to, from, size, kind) : -1;
}
int client_copy_by_version(const char *path, void *to, const void *from, size_t size, int kind) {
  copier *copy = (copier *)dlvsym(dlopen(path, RTLD_NOW | RTLD_LOCAL), "cudaMemcpy", "libcudart.so.12");
  return copy ? copy(to, from, size, kind) : -1;
}
#ifdef CONSTRUCTED
__attribute__((constructor)) static void copy_at_load(void) {
  char *to = (char *)strtoul(getenv("COPY_TO"), NULL, 16), *from = (char *)strtoul(getenv("COPY_FROM"), NULL, 16);
  cudaMemcpy(to, from, 1000003, 1);
}
#endif
/* Another client, whose calls the loader binds when they are first made. */
int client_copy_by_another(const char *path, void *to, const void *from, size_t size, int kind) {
  copier *copy = (copier *)dlsym(dlopen(path, RTLD_LAZY | RTLD_LOCAL), "client_copy");
  return copy ? copy(to, from, size, kind) : -1;
}
#ifdef MAIN
/* Not Python, and linked with the runtime from the start. */
int main(void) {
  static char to[1000003], from[1000003];
  return client_copy(to, from, sizeof to, 1) || client_copy_by_table(to, from, 7, 2);
}
#endif
/* What a program asks to find out whether CUDA is there. */
void *client_probe(const char *name) { return dlsym(RTLD_DEFAULT, name); }
void *client_probe_next(const char *name) { return dlsym(RTLD_NEXT, name); }
