/* Stand-ins for functions of the CUDA libraries. They are not exported, so a program that checks whether CUDA is
 * present gets the same answer as without the shim. hooks.c installs them where calls are made. */
#include "inside/cuda/stand_ins.h"

#include "inside/cuda/calls.h"
#include "inside/cuda/cuda.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/spool.h"

#define NONE (-1)
#define KIND(argument) (-1 - (argument))
static const struct cuda_call calls[] = {
#define CUDA_CALL(name, act, size, times, how) {#name, act, size, times, how},
#include "inside/cuda/call_list.h"
#undef CUDA_CALL
};
#define CALLS (sizeof calls / sizeof *calls)

const struct cuda_call *cuda_find(const char *name) {
  if (name[0] != 'c' || name[1] != 'u') return NULL;
  for (size_t i = 0; i < CALLS; i++) {
    if (strcmp(calls[i].name, name) == 0) return &calls[i];
  }
  return NULL;
}

/* ---- stand-ins: one for each function of each library, because a process may have two runtimes ---- */

/* bound[i] describes stand-in i: (index of the call + 1) << 56 | address of the real function. 0 = free. */
#define STAND_INS 256
#define ADDRESS_BITS 56
#define ADDRESS_MASK ((UINT64_C(1) << ADDRESS_BITS) - 1)
_Static_assert(CALLS < 255, "the number of a call fits a byte");
static _Atomic uint64_t bound[STAND_INS];

/* Lowest CUDA version in cuGetProcAddress that is supported: before it, functions with these names had other
 * arguments. */
#define SIZES_ARE_64_BIT 3020

/* Returns the entry for a name that was passed to the driver's own lookup. The driver chooses the function by the
 * caller's version and kind of default stream, so cuMemcpyHtoD yields cuMemcpyHtoD_v2. */
static const struct cuda_call *find_asked(const char *name, const struct cuda_call *by, const uintptr_t *a) {
  char text[64];
  size_t length = safe_read_some(text, name, sizeof text - 4);
  text[length] = 0;
  if (by->times >= 0 && (uint32_t)a[by->times] < SIZES_ARE_64_BIT) return NULL;
  const struct cuda_call *found = cuda_find(text);
  if (found) return found;
  shim_copy(text + strlen(text), "_v2", 4);
  return cuda_find(text);
}

static int look_up(cuda_function *real, const struct cuda_call *call, const uintptr_t *a) {
  int result = cuda_forward(real, a);
  int saved_errno = errno;
  void **out = (void **)a[1], *found;
  const struct cuda_call *asked = result == 0 && recording() ? find_asked((const char *)a[0], call, a) : NULL;
  if (asked && safe_read(&found, out, sizeof found) && found) *out = cuda_stand_in(found, asked);
  errno = saved_errno;
  return result;
}

static int call_stand_in(unsigned number, const uintptr_t *a) {
  uint64_t binding = atomic_load_explicit(&bound[number], memory_order_relaxed);
  const struct cuda_call *call = &calls[(binding >> ADDRESS_BITS) - 1];
  cuda_function *real = (cuda_function *)(binding & ADDRESS_MASK);
  return call->act == LOOK_UP ? look_up(real, call, a) : cuda_calls_make(real, call, a);
}

#define STAND_IN(n)                                                                                                    \
  static int stand_in_##n(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f, uintptr_t g,   \
                          uintptr_t h, uintptr_t i) {                                                                  \
    return call_stand_in(0x##n, (const uintptr_t[CUDA_ARGUMENTS]){a, b, c, d, e, f, g, h, i});                         \
  }
#define NAME(n) stand_in_##n,
#define FOR_16(each, high)                                                                                             \
  each(high##0) each(high##1) each(high##2) each(high##3) each(high##4) each(high##5) each(high##6) each(high##7)      \
      each(high##8) each(high##9) each(high##a) each(high##b) each(high##c) each(high##d) each(high##e) each(high##f)
/* clang-format off */
#define FOR_256(each)                                                                                                  \
  FOR_16(each, 0) FOR_16(each, 1) FOR_16(each, 2) FOR_16(each, 3) FOR_16(each, 4) FOR_16(each, 5) FOR_16(each, 6)      \
  FOR_16(each, 7) FOR_16(each, 8) FOR_16(each, 9) FOR_16(each, a) FOR_16(each, b) FOR_16(each, c) FOR_16(each, d)      \
  FOR_16(each, e) FOR_16(each, f)
/* clang-format on */
FOR_256(STAND_IN)
static cuda_function *const stand_ins[STAND_INS] = {FOR_256(NAME)};

static bool is_stand_in(const void *function) {
  for (int i = 0; i < STAND_INS; i++) {
    if ((void *)stand_ins[i] == function) return true;
  }
  return false;
}

void *cuda_stand_in(void *real, const struct cuda_call *call) {
  uint64_t address = (uint64_t)(uintptr_t)real, wanted = (uint64_t)(call - calls + 1) << ADDRESS_BITS | address;
  if (address & ~ADDRESS_MASK || is_stand_in(real)) return real;
  for (int i = 0; i < STAND_INS; i++) {
    uint64_t current = 0;
    if (atomic_compare_exchange_strong(&bound[i], &current, wanted) || current == wanted) return (void *)stand_ins[i];
  }
  loss_add(LOSS_device_unhooked);
  return real;
}
