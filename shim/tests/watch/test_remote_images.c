/* remote_images and waiting_read, with lists of libraries that this process has made up: they are read as those of
 * another process. */
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/native/image.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "tests/check.h"
#include "watch/native/images.h"
#include "watch/native/waiting.h"

#define LIBRARIES 5000
#define HELD 4096
#define PAGE ((uintptr_t)4096)

static union {
  struct record_module module;
  struct record_native native;
  char bytes[PAGE];
} record;
struct spool_header *spool;
void *spool_claim(unsigned slots) { return slots * SPOOL_SLOT_BYTES <= sizeof record ? &record : NULL; }
static int written[64];
static uint64_t chain[64]; /* images of the last functions that were written, from the outermost */
void spool_publish(void *published, unsigned kind, unsigned slots) {
  (void)slots;
  if (kind == RECORD_NATIVE) chain[written[kind]] = ((struct record_native *)published)->image;
  written[kind]++;
}
int64_t clock_now_ns(void) { return 1; }

static struct link_map entry[LIBRARIES];
static struct link_map *first;
static struct image_source source = {.list = (uintptr_t)&first};
static struct remote_images images;
static char *code; /* a page for each library */

/* A library of one page at that place, of which all is code. */
static void put(struct link_map *at, int place) {
  char *elf = code + (uintptr_t)place * PAGE;
  Elf64_Ehdr header = {.e_ident = ELFMAG, .e_phoff = sizeof header, .e_phnum = 1};
  Elf64_Phdr segment = {.p_type = PT_LOAD, .p_flags = PF_X, .p_memsz = PAGE};
  memcpy(elf, &header, sizeof header);
  memcpy(elf + sizeof header, &segment, sizeof segment);
  *at = (struct link_map){.l_addr = (uintptr_t)elf, .l_name = "library"};
}

static void begin(int count) {
  memset(written, 0, sizeof written);
  remote_images_free(&images);
  for (int i = 0; i < count; i++) put(&entry[i], LIBRARIES - 1 - i);
  for (int i = 0; i + 1 < count; i++) entry[i].l_next = &entry[i + 1];
  first = &entry[0];
}

static bool refresh(void) { return remote_images_refresh(&images, getpid(), (uintptr_t)&source); }

static void put_call_before(uintptr_t address) {
#ifdef __aarch64__
  *(uint32_t *)(address - 4) = 0x94000000; /* BL */
#else
  *(uint8_t *)(address - 5) = 0xe8;
#endif
}

static const struct image *at(int place) {
  return remote_images_find(&images, (uintptr_t)code + (uintptr_t)place * PAGE + 99);
}

static void test_what_is_appended_is_read_alone(void) {
  begin(20);
  check(refresh() && !at(LIBRARIES - 1)); /* the executable has no headers here */
  uint64_t generation = images.generation;
  put(&entry[20], 7);
  entry[19].l_next = &entry[20];
  check(refresh() && images.generation == generation && at(7)->start == entry[20].l_addr);
  check(at(LIBRARIES - 2)->start == entry[1].l_addr && !at(8));
}

/* libc has unloaded the last library, which the shim does not notice, and its entry was overwritten. */
static void test_the_last_library_is_unloaded(void) {
  begin(20);
  check(refresh() && at(LIBRARIES - 20) && !at(LIBRARIES - 21));
  entry[18].l_next = NULL;
  memset(&entry[19], 0x55, sizeof entry[19]);
  check(refresh() && !at(LIBRARIES - 20) && at(LIBRARIES - 19));
  begin(20);
  check(refresh());
  put(&entry[20], 7);
  entry[18].l_next = &entry[20];
  check(refresh() && !at(LIBRARIES - 20) && at(7)->start == entry[20].l_addr);
}

/* The same with another one; what is loaded afterwards takes its place. */
static void test_a_library_is_replaced(void) {
  begin(20);
  check(refresh());
  uint64_t generation = images.generation;
  entry[9].l_next = &entry[11];
  put(&entry[20], LIBRARIES - 1 - 10);
  entry[20].l_addr += 16;
  memmove(code + (LIBRARIES - 11) * PAGE + 16, code + (LIBRARIES - 11) * PAGE, PAGE - 16);
  entry[19].l_next = &entry[20];
  check(refresh() && images.generation != generation && at(LIBRARIES - 11)->start == entry[20].l_addr);
  generation = images.generation;
  check(refresh() && images.generation == generation);
}

/* A search would find the caller of one that cannot be held, as if that one waited. */
static void test_more_libraries_than_can_be_held(void) {
  uintptr_t libc = (uintptr_t)code + (LIBRARIES - 2) * PAGE, caller = (uintptr_t)code + (LIBRARIES - 3) * PAGE + 200;
  uint64_t stack[512] = {[9] = caller};
  begin(HELD + 1);
  entry[1].l_name = "libc.so";
  put_call_before(caller);
  check(refresh() && images.cut && !at(LIBRARIES - 1 - HELD) && at(LIBRARIES - HELD));
  check(!waiting_read(&images, (uintptr_t)stack, libc + 99));
  entry[HELD - 1].l_next = NULL;
  source.closed++;
  check(refresh() && !images.cut && at(LIBRARIES - HELD));
  check(waiting_read(&images, (uintptr_t)stack, libc + 99));
  check(record.native.image == remote_images_find(&images, libc + 99)->id);
}

/* Python has called libc through libffi. */
static void test_what_forwards_a_call_is_left_out(void) {
  static char python[] = "_ctypes.so", libc[] = "libc.so", libffi[] = "/usr/lib/libffi.so.8", other[] = "libffix.so";
  char *names[] = {libc, libffi, python, other};
  uintptr_t return_address[4], waits;
  begin(5);
  for (int i = 0; i < 4; i++) {
    entry[i + 1].l_name = names[i];
    return_address[i] = entry[i + 1].l_addr + 200;
    put_call_before(return_address[i]);
  }
  waits = return_address[0] + 99;
  uint64_t stack[512] = {[9] = return_address[1], [19] = return_address[2]};
  check(refresh() && waiting_read(&images, (uintptr_t)stack, waits) && written[RECORD_NATIVE] == 2);
  check(chain[0] == remote_images_find(&images, return_address[2])->id);
  check(chain[1] == remote_images_find(&images, waits)->id);
  memset(written, 0, sizeof written);
  stack[9] = return_address[3];
  check(waiting_read(&images, (uintptr_t)stack, waits) && written[RECORD_NATIVE] == 2);
  check(chain[0] == remote_images_find(&images, return_address[3])->id);
}

/* Hostile: a stack of nothing else. */
static void test_a_stack_that_only_forwards(void) {
  static uint64_t stack[4096];
  begin(2);
  entry[1].l_name = "libffi.so";
  uintptr_t address = entry[1].l_addr + 200;
  put_call_before(address);
  for (int i = 0; i < 4096; i++) stack[i] = address;
  check(refresh() && !waiting_read(&images, (uintptr_t)stack, address));
}

/* It is read to the end once, and again if something was unloaded. */
static void test_an_endless_list(void) {
  begin(3);
  entry[2].l_next = &entry[1];
  check(refresh() && images.cut && images.libraries == HELD);
  uint64_t generation = images.generation;
  for (int i = 0; i < 9; i++) check(refresh() && images.libraries == HELD && images.generation == generation);
  source.closed++;
  check(refresh() && images.libraries == HELD && images.generation == generation + 1);
}

int main(void) {
  code = mmap(NULL, LIBRARIES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(code != MAP_FAILED);
  safe_read_of(getpid(), 0);
  test_what_is_appended_is_read_alone();
  test_the_last_library_is_unloaded();
  test_a_library_is_replaced();
  test_more_libraries_than_can_be_held();
  test_what_forwards_a_call_is_left_out();
  test_a_stack_that_only_forwards();
  test_an_endless_list();
  remote_images_free(&images);
  puts("ok");
  return 0;
}
