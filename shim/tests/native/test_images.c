/* Tests images.c with saferead.c, and the scan of evidence.c: addresses lead to their image, and the scan distinguishes
 * return addresses from other words. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "inside/native/own.h"
#include "inside/native/images.h"
#include "shared/clock.h"
#include "shared/saferead.h"
#include "shared/stacks/scratch.h"
#include "tests/check.h"
#include "tests/native/stand_ins.h"

int64_t clock_now_ns(void) { return 1; }

/* ---- an allocator in which each block is a mapping, so that what the loader frees in dlclose is unmapped ---- */

void *malloc(size_t size) {
  size_t bytes = (size + 16 + 4095) & ~(size_t)4095;
  size_t *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return NULL;
  *block = bytes;
  return block + 2;
}
void free(void *block) {
  size_t *start = block ? (size_t *)block - 2 : NULL;
  if (start) munmap(start, *start);
}
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *block, size_t size) {
  char *fresh = malloc(size);
  size_t before = block ? ((size_t *)block)[-2] - 16 : 0;
  if (fresh && block) memcpy(fresh, block, before < size ? before : size);
  if (fresh) free(block);
  return fresh;
}

/* ---- tests ---- */

static struct scratch scratch;
static struct native_evidence found;

/* The class of the image at `address`; -1 = none. */
static int class_at(uintptr_t address) {
  struct image image;
  return images_find(address, &image) ? (int)image.pc_class : -1;
}

__attribute__((noinline)) static uintptr_t callee(void) {
  uintptr_t registers[DWARF_REGISTERS];
  arch_registers_here(registers);
  evidence_scan((uintptr_t)&memcpy, registers[DWARF_STACK], &scratch, &found);
  return registers[DWARF_STACK];
}

/* Plays the bytecode loop: it calls another function, and its range ends where end_of_loop begins. */
__attribute__((noinline)) static uintptr_t loop(void) {
  volatile uintptr_t result = callee();
  return result;
}
static void end_of_loop(void) {}

static void test_addresses_find_their_image(void) {
  check(class_at((uintptr_t)&memcpy) == PC_SUPPORT && class_at((uintptr_t)&cos) == PC_SUPPORT);
  int on_stack = 0;
  check(class_at((uintptr_t)&on_stack) == -1 && class_at(0) == -1 && class_at(~(uintptr_t)0) == -1);
}

static void test_the_scan_stops_at_the_loop(void) {
  loop();
  check((found.flags >> TICK_PC_SHIFT & 7) == PC_SUPPORT && found.extension_pc == 0);
  check((found.flags & TICK_EVAL_FOUND) && !(found.flags & TICK_VECTORCALL));
}

/* Another function between the bytecode loop and the interrupted function. */
__attribute__((noinline)) static uintptr_t between(void) {
  volatile uintptr_t result = callee();
  return result;
}
static void end_of_between(void) {}

__attribute__((noinline)) static uintptr_t second_loop(void) {
  volatile uintptr_t result = between();
  return result;
}
static void end_of_second_loop(void) {}

static void test_calls_between_are_flagged(void) {
  python_symbols.eval = (struct address_range){(uintptr_t)&second_loop, (uintptr_t)&end_of_second_loop, 0};
  python_symbols.call[0] = (struct address_range){(uintptr_t)&between, (uintptr_t)&end_of_between, TICK_VECTORCALL};
  python_symbols.calls = 1;
  second_loop();
  check((found.flags & TICK_EVAL_FOUND) && (found.flags & TICK_VECTORCALL));
}

static void test_reads_stop_at_unmapped_memory(void) {
  const size_t page = arch_page_bytes();
  char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char copy[256];
  memset(pages, 'p', 2 * page);
  check(munmap(pages + page, page) == 0);
  errno = 7;
  check(safe_read(copy, pages + page - 96, 96) && !safe_read(copy, pages + page - 96, 97));
  check(safe_read_some(copy, pages + page - 96, 256) == 96 && safe_read_some(copy, pages + page, 8) == 0);
  check(!safe_read(copy, NULL, 1) && !safe_read(copy, (void *)~(uintptr_t)7, 8));
  struct iovec work[SAFE_READ_MANY];
  uintptr_t good[3] = {(uintptr_t)pages, (uintptr_t)pages + 8, (uintptr_t)pages + 16},
            bad[2] = {good[0], good[0] + page};
  check(safe_read_many(copy, good, 3, 8, work) && memcmp(copy, pages, 24) == 0 &&
        !safe_read_many(copy, bad, 2, 8, work));
  check(errno == 7);
  munmap(pages, page);
}

/* A library that libc.so does not need, of class PC_SUPPORT, with an address in its code. */
#define LIBRARY "libgcc_s.so.1"
static uintptr_t code_of(void *library) { return (uintptr_t)dlsym(library, "_Unwind_Resume") + 64; }

/* libc closes libraries too (those of locales, name services), without calling our dlclose. */
static void test_what_was_unloaded_is_not_touched(void) {
  void *library = dlopen(LIBRARY, RTLD_NOW);
  check(library && class_at(code_of(library)) == -1);
  images_refresh();
  check(class_at(code_of(library)) == PC_SUPPORT);
  uint64_t stack[64];
  for (size_t i = 0; i < 64; i++) stack[i] = code_of(library) + 8 * i;
  next.dlclose(library);
  evidence_scan((uintptr_t)&memcpy, (uintptr_t)stack, &scratch, &found);
  images_refresh();
  check(class_at(stack[0]) == -1);
}

static _Atomic int turns;

static void *load_and_unload(void *unused) {
  for (; atomic_load(&turns) < 300; atomic_fetch_add(&turns, 1)) {
    void *library = dlopen(LIBRARY, RTLD_NOW);
    check(library);
    if (atomic_load(&turns) % 2) {
      dlclose(library);
    } else {
      next.dlclose(library);
    }
  }
  return unused;
}

static void test_another_thread_loads_and_unloads(void) {
  pthread_t thread;
  void *library = dlopen(LIBRARY, RTLD_NOW);
  uint64_t stack[64];
  for (size_t i = 0; i < 64; i++) stack[i] = code_of(library) + 8 * i;
  dlclose(library);
  check(!pthread_create(&thread, NULL, load_and_unload, NULL));
  while (atomic_load(&turns) < 300) {
    images_refresh();
    evidence_scan((uintptr_t)&memcpy, (uintptr_t)stack, &scratch, &found);
  }
  pthread_join(thread, NULL);
}

int main(void) {
  next.dlclose = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");
  safe_read_init();
  check(!safe_read_refused());
  python_symbols.eval = (struct address_range){(uintptr_t)&loop, (uintptr_t)&end_of_loop, 0};
  images_init();
  test_addresses_find_their_image();
  test_the_scan_stops_at_the_loop();
  test_calls_between_are_flagged();
  test_reads_stop_at_unmapped_memory();
  test_what_was_unloaded_is_not_touched();
  test_another_thread_loads_and_unloads();
  puts("ok");
  return 0;
}
