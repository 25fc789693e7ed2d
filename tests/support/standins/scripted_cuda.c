/* A stand-in for the CUDA libraries, for tests on machines without a GPU: "device memory" is host memory, and copies are
 * memmove. Nothing that is found with it is a measurement of a GPU.
 *
 * Compiled with -DDRIVER it is libcuda.so.1, with -DRUNTIME libcudart.so.12. The runtime does its work through the
 * driver, as NVIDIA's does: it opens libcuda.so.1 by name and asks cuGetProcAddress_v2 for every function. Compiled with
 * -DRUNTIME -DHIDDEN into another library, it is a statically linked runtime; with -DRUNTIME -DDRIVER, a runtime that
 * needs no driver, so that what is not seen of it is not seen at all.
 *
 * Errors, as NVIDIA's: 1 invalid value, 2 out of memory (1 TiB and more), 21 invalid direction, 35 no driver, 500 not
 * found. Each call sets errno to 77: it is the library's to change, and the shim's not to. */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef HIDDEN
#define API __attribute__((visibility("hidden")))
#else
#define API __attribute__((visibility("default")))
#endif

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DIRECTION = 21, NO_DRIVER = 35, NOT_FOUND = 500 };
typedef void *stream;

static int done(int result) {
  errno = 77;
  return result;
}

#ifdef DRIVER
typedef uintptr_t address;
#define MOST_BLOCKS 65536
static address blocks[MOST_BLOCKS];
static int lock;

static int replace(address before, address after) {
  int place = -1;
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) {}
  for (int i = 0; i < MOST_BLOCKS && place < 0; i++) {
    if (blocks[i] == before) place = i;
  }
  if (place >= 0) blocks[place] = after;
  __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
  return place >= 0;
}

static int allocate(address *out, size_t size) {
  if (!out || !size) return done(INVALID_VALUE);
  if (size >= (size_t)1 << 40) return done(OUT_OF_MEMORY);
  address block = (address)malloc(size);
  if (!replace(0, block)) return done(OUT_OF_MEMORY);
  *out = block;
  return done(OK);
}

static int release(address block) {
  if (!block || !replace(block, 0)) return done(block ? INVALID_VALUE : OK);
  free((void *)block);
  return done(OK);
}

static int move(address to, address from, size_t size) {
  if (!to || !from) return done(INVALID_VALUE);
  memmove((void *)to, (void *)from, size);
  return done(OK);
}

static int wait_a_moment(void) {
  struct timespec moment = {.tv_nsec = 20000000};
  nanosleep(&moment, NULL);
  return done(OK);
}

struct description {
  size_t from_x, from_y;
  unsigned from_type;
  address from[3];
  size_t from_pitch, to_x, to_y;
  unsigned to_type;
  address to[3];
  size_t to_pitch, width, height;
};

static address *place_of(address *place, unsigned type) { return &place[type == 1 ? 0 : 1]; }

static int move_described(const struct description *given) {
  struct description d = *given;
  address from = *place_of(d.from, d.from_type), to = *place_of(d.to, d.to_type);
  for (size_t row = 0; row < d.height; row++)
    memmove((char *)to + (d.to_y + row) * d.to_pitch + d.to_x, (char *)from + (d.from_y + row) * d.from_pitch + d.from_x,
            d.width);
  return done(OK);
}

#define COPIES(name, suffix)                                                                                           \
  API int name(address to, address from, size_t size) { return move(to, from, size); }                                 \
  API int name##suffix(address to, address from, size_t size) { return move(to, from, size); }
#define ASYNC_COPIES(name)                                                                                             \
  API int name(address to, address from, size_t size, stream s) { return (void)s, move(to, from, size); }              \
  API int name##_ptsz(address to, address from, size_t size, stream s) { return (void)s, move(to, from, size); }
COPIES(cuMemcpyHtoD_v2, _ptds)
COPIES(cuMemcpyDtoH_v2, _ptds)
COPIES(cuMemcpyDtoD_v2, _ptds)
COPIES(cuMemcpy, _ptds)
ASYNC_COPIES(cuMemcpyHtoDAsync_v2)
ASYNC_COPIES(cuMemcpyDtoHAsync_v2)
ASYNC_COPIES(cuMemcpyDtoDAsync_v2)
ASYNC_COPIES(cuMemcpyAsync)
API int cuMemcpy2D_v2(const struct description *d) { return move_described(d); }
API int cuMemcpy2DAsync_v2(const struct description *d, stream s) { return (void)s, move_described(d); }
API int cuMemAlloc_v2(address *out, size_t size) { return allocate(out, size); }
API int cuMemAllocManaged(address *out, size_t size, unsigned flags) { return (void)flags, allocate(out, size); }
API int cuMemAllocAsync(address *out, size_t size, stream s) { return (void)s, allocate(out, size); }
API int cuMemFree_v2(address block) { return release(block); }
API int cuMemFreeAsync(address block, stream s) { return (void)s, release(block); }
API int cuCtxSynchronize(void) { return wait_a_moment(); }
API int cuStreamSynchronize(stream s) { return (void)s, wait_a_moment(); }
API int cuEventSynchronize(void *event) { return (void)event, wait_a_moment(); }

/* Names have no suffix there: version and flags would choose between functions that are all the same here. */
API int cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *status) {
  static const struct {
    const char *name;
    void *function;
  } known[] = {
      {"cuMemcpyHtoD", cuMemcpyHtoD_v2},           {"cuMemcpyDtoH", cuMemcpyDtoH_v2},
      {"cuMemcpy", cuMemcpy},                      {"cuMemAlloc", cuMemAlloc_v2},
      {"cuMemAllocManaged", cuMemAllocManaged},    {"cuMemAllocAsync", cuMemAllocAsync},
      {"cuMemFree", cuMemFree_v2},                 {"cuMemFreeAsync", cuMemFreeAsync},
      {"cuCtxSynchronize", cuCtxSynchronize},      {"cuStreamSynchronize", cuStreamSynchronize},
      {"cuEventSynchronize", cuEventSynchronize},
  };
  (void)flags;
  *out = NULL;
  for (size_t i = 0; i < sizeof known / sizeof *known && version >= 3020; i++) {
    if (strcmp(known[i].name, name) == 0) *out = known[i].function;
  }
  if (status) *status = *out ? 0 : 1;
  return done(*out ? OK : NOT_FOUND);
}
API int cuGetProcAddress(const char *name, void **out, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, out, version, flags, NULL);
}
#endif

#ifdef RUNTIME
typedef int function(uintptr_t, ...);

#ifdef DRIVER
static function *driver(const char *name) {
  void *found = NULL;
  cuGetProcAddress_v2(name, &found, 12040, 0, NULL);
  return (function *)found;
}
#else
static function *driver(const char *name) {
  static int (*find)(const char *, void **, int, uint64_t, int *);
  void *found = NULL, *library = find ? NULL : dlopen("libcuda.so.1", RTLD_NOW);
  if (library) find = (int (*)(const char *, void **, int, uint64_t, int *))dlsym(library, "cuGetProcAddress_v2");
  if (find) find(name, &found, 12040, 0, NULL);
  return (function *)found;
}
#endif
#define DRIVER_CALL(name, ...)                                                                                         \
  static function *real;                                                                                               \
  if (!real) real = driver(name);                                                                                      \
  if (!real) return done(NO_DRIVER);                                                                                   \
  return real(__VA_ARGS__)

static int copy_to_device(void *to, const void *from, size_t size) {
  DRIVER_CALL("cuMemcpyHtoD", (uintptr_t)to, from, size);
}
static int copy_to_host(void *to, const void *from, size_t size) {
  DRIVER_CALL("cuMemcpyDtoH", (uintptr_t)to, from, size);
}
static int copy_anyhow(void *to, const void *from, size_t size) { DRIVER_CALL("cuMemcpy", (uintptr_t)to, from, size); }

static int copy(void *to, const void *from, size_t size, int kind) {
  if (kind < 0 || kind > 4) return done(INVALID_DIRECTION);
  if (kind == 1) return copy_to_device(to, from, size);
  return kind == 2 ? copy_to_host(to, from, size) : copy_anyhow(to, from, size);
}

static int copy_2d(char *to, size_t to_pitch, const char *from, size_t from_pitch, size_t width, size_t height,
                   int kind) {
  int result = OK;
  if (width > to_pitch || width > from_pitch) return done(INVALID_VALUE);
  for (size_t row = 0; row < height && !result; row++)
    result = copy(to + row * to_pitch, from + row * from_pitch, width, kind);
  return result;
}

#define TWICE(suffix, name, arguments, ...)                                                                            \
  API int name arguments { __VA_ARGS__; }                                                                              \
  API int name##suffix arguments { __VA_ARGS__; }
TWICE(_ptds, cudaMemcpy, (void *to, const void *from, size_t size, int kind), return copy(to, from, size, kind))
TWICE(_ptsz, cudaMemcpyAsync, (void *to, const void *from, size_t size, int kind, stream s),
      (void)s; return copy(to, from, size, kind))
TWICE(_ptds, cudaMemcpy2D, (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                            int kind),
      return copy_2d(to, to_pitch, from, from_pitch, width, height, kind))
TWICE(_ptsz, cudaMemcpy2DAsync,
      (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind, stream s),
      (void)s; return copy_2d(to, to_pitch, from, from_pitch, width, height, kind))
API int cudaMalloc(void **out, size_t size) { DRIVER_CALL("cuMemAlloc", (uintptr_t)out, size); }
API int cudaMallocManaged(void **out, size_t size, unsigned flags) {
  DRIVER_CALL("cuMemAllocManaged", (uintptr_t)out, size, flags);
}
API int cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height) {
  *pitch = (width + 511) & ~(size_t)511;
  return cudaMalloc(out, *pitch * height);
}
API int cudaMallocAsync(void **out, size_t size, stream s) { DRIVER_CALL("cuMemAllocAsync", (uintptr_t)out, size, s); }
API int cudaFree(void *block) {
  if (!block) return done(OK);
  DRIVER_CALL("cuMemFree", (uintptr_t)block);
}
API int cudaFreeAsync(void *block, stream s) { DRIVER_CALL("cuMemFreeAsync", (uintptr_t)block, s); }
API int cudaDeviceSynchronize(void) { DRIVER_CALL("cuCtxSynchronize", 0); }
API int cudaStreamSynchronize(stream s) { DRIVER_CALL("cuStreamSynchronize", (uintptr_t)s); }
API int cudaEventSynchronize(void *event) { DRIVER_CALL("cuEventSynchronize", (uintptr_t)event); }
#endif
