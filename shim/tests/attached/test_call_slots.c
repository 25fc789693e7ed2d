/* slots.c: which slots of which images are led here and back, by images that are made up. */
#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include "inside/attached/attached.h"
#include "inside/attached/loader.h"
#include "inside/native/relocations.h"
#include "shared/interpreter/elf_image.h"
#include "shared/loss.h"
#include "tests/check.h"

/* ---- libc, by invented addresses ---- */

#define LIBC ((uintptr_t)0x7000000)
static const char *const names[] = {"malloc", "free", "realloc"};
enum { MALLOC, FREE, REALLOC, NAMES };

static uintptr_t libcs(int name) { return LIBC + 16 * ((uintptr_t)name + 1); }

void *__wrap_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name) {
  (void)handle;
  for (int i = 0; i < NAMES; i++) {
    if (strcmp(name, names[i]) == 0) return (void *)libcs(i);
  }
  return NULL;
}
long syscall(long number, ...) { return number; }
int attached_prctl(int option, ...) { return option; }
void free_sized(void *block, size_t size);
void free_sized(void *block, size_t size) { (void)block, (void)size; }
void free_aligned_sized(void *block, size_t alignment, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size) { (void)block, (void)alignment, (void)size; }

/* ---- images ---- */

enum { EXECUTABLE, LIBC_IMAGE, ALLOCATOR, LIBRARY, IMAGES };
#define IMAGE_BYTES 0x1000000
#define START(image) (LIBC + IMAGE_BYTES * (uintptr_t)((image) - LIBC_IMAGE)) /* of its code */
#define UNFILLED(image) (START(image) + 0x100)
#define ELSEWHERE 0x90000000

static struct {
  uintptr_t slot[NAMES];
  elf_symbol symbol[NAMES];
  ElfW(Rela) relocation[NAMES];
  bool has_allocator;
} image[IMAGES];
static unsigned long long loads, unloads;
static bool is_loaded[IMAGES];
static int visits; /* of the list of images */
static bool holds_locks, is_refused;
static enum loader_locks locks;
static int losses;

static void load(int number, bool has_allocator) {
  is_loaded[number] = true;
  image[number].has_allocator = has_allocator;
  for (int i = 0; i < NAMES; i++) {
    image[number].slot[i] = UNFILLED(number);
    image[number].symbol[i].st_name = (uint32_t)(8 * i);
    image[number].relocation[i] = (ElfW(Rela)){8 * (uintptr_t)i, ELF64_R_INFO((uintptr_t)i, (uintptr_t)BY_CALL), 0};
  }
  loads++;
}

static void unload(int number) {
  is_loaded[number] = false;
  unloads++;
}

int __wrap_dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *data);
int __wrap_dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *data) {
  int result = 0;
  visits++;
  check(holds_locks);
  for (int i = 0; i < IMAGES && !result; i++) {
    struct dl_phdr_info info = {.dlpi_phnum = (ElfW(Half))i, .dlpi_adds = loads, .dlpi_subs = unloads};
    if (is_loaded[i]) result = visit(&info, sizeof info, data);
  }
  return result;
}

void elf_image_read(const struct dl_phdr_info *info, struct elf_image *out) {
  int number = info->dlpi_phnum;
  *out = (struct elf_image){.bias = (uintptr_t)image[number].slot,
                            .start = START(number),
                            .end = START(number) + IMAGE_BYTES,
                            .symbols = image[number].symbol,
                            .names = "malloc\0\0free\0\0\0\0realloc"};
}
const elf_symbol *elf_image_symbol(const struct elf_image *from, const char *name) {
  for (int i = 0; i < IMAGES; i++) {
    if (from->symbols == image[i].symbol && image[i].has_allocator && strcmp(name, "free") == 0) return image[i].symbol;
  }
  return NULL;
}
bool relocations_read(const struct dl_phdr_info *info, struct relocated *out) {
  *out = (struct relocated){.tables = {image[info->dlpi_phnum].relocation}, .counts = {NAMES}};
  elf_image_read(info, &out->image);
  return true;
}
bool relocations_replace(const struct relocated *of, uintptr_t *slot, uintptr_t expected, uintptr_t value) {
  (void)of;
  check(*slot == expected);
  if (!is_refused) *slot = value;
  return !is_refused;
}

bool loader_begin(enum loader_locks wanted) {
  locks = wanted;
  holds_locks = true;
  return true;
}
void loader_end(void) { holds_locks = false; }
bool attached_is_on(void) { return true; }
static int64_t now_ns = 1;
int64_t clock_now_ns(void) { return now_ns; }
void loss_add(enum loss loss) { losses += loss == LOSS_attached_slots; }

/* ---- tests ---- */

static void begin(void) {
  for (int i = 0; i < IMAGES; i++) is_loaded[i] = false;
  load(EXECUTABLE, false);
  load(LIBC_IMAGE, true);
}

static void lead_here(void) {
  check(loader_begin(BOTH_LOCKS));
  slots_lead_here();
  loader_end();
}

static bool is_here(int number, int name) {
  static const uintptr_t ours[] = {(uintptr_t)&malloc, (uintptr_t)&free, (uintptr_t)&realloc};
  return image[number].slot[name] == ours[name];
}

static void test_here_and_back(void) {
  begin();
  load(LIBRARY, false);
  image[LIBRARY].slot[MALLOC] = libcs(MALLOC);
  lead_here();
  for (int i = 0; i < NAMES; i++) check(is_here(EXECUTABLE, i) && is_here(LIBC_IMAGE, i) && is_here(LIBRARY, i));
  check(loader_begin(LIST_LOCK));
  slots_lead_back();
  loader_end();
  for (int i = 0; i < NAMES; i++) check(image[LIBRARY].slot[i] == libcs(i));
}

static void test_an_image_with_a_call_that_leads_elsewhere(void) {
  begin();
  load(LIBRARY, false);
  image[LIBRARY].slot[REALLOC] = ELSEWHERE;
  lead_here();
  check(is_here(EXECUTABLE, MALLOC) && !is_here(LIBRARY, MALLOC) && image[LIBRARY].slot[FREE] == UNFILLED(LIBRARY));
}

/* What is not filled yet may come to lead there. */
static void test_beside_another_allocator(void) {
  begin();
  load(ALLOCATOR, true);
  load(LIBRARY, false);
  image[LIBRARY].slot[REALLOC] = libcs(REALLOC); /* as if the other one had none */
  lead_here();
  check(is_here(EXECUTABLE, MALLOC) && !is_here(LIBRARY, MALLOC) && !is_here(LIBRARY, REALLOC));
  image[LIBRARY].slot[FREE] = libcs(FREE);
  lead_here();
  check(is_here(LIBRARY, MALLOC) && is_here(LIBRARY, FREE) && is_here(LIBRARY, REALLOC));
}

static void test_when_the_other_allocator_has_gone(void) {
  begin();
  load(ALLOCATOR, true);
  lead_here();
  unload(ALLOCATOR);
  load(LIBRARY, false);
  lead_here();
  check(is_here(LIBRARY, MALLOC));
  load(ALLOCATOR, true);
  load(LIBRARY, false);
  lead_here();
  check(!is_here(LIBRARY, MALLOC));
}

static void test_images_are_looked_for_with_both_locks(void) {
  begin();
  lead_here();
  load(LIBRARY, false);
  slots_refresh(now_ns += 1000000000);
  check(locks == BOTH_LOCKS && is_here(LIBRARY, MALLOC));
  image[LIBRARY].slot[MALLOC] = libcs(MALLOC); /* the loader was about to fill it */
  slots_refresh(now_ns += 1000000000);
  check(is_here(LIBRARY, MALLOC));
  visits = 0;
  slots_refresh(now_ns + 1000);
  check(!visits);
}

static void test_slots_that_cannot_be_written_to_are_one_loss(void) {
  begin();
  is_refused = true;
  lead_here();
  lead_here();
  is_refused = false;
  check(losses == 1);
}

int main(void) {
  check(slots_are_libcs());
  test_here_and_back();
  test_an_image_with_a_call_that_leads_elsewhere();
  test_beside_another_allocator();
  test_when_the_other_allocator_has_gone();
  test_images_are_looked_for_with_both_locks();
  test_slots_that_cannot_be_written_to_are_one_loss();
  puts("ok");
  return 0;
}
