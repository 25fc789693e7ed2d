/* relocations.c: a slot is replaced only where the program, or the loader, has left it as it was expected. */
#include "inside/native/relocations.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/check.h"

void elf_image_read(const struct dl_phdr_info *info, struct elf_image *out) { (void)info, (void)out; }

static uintptr_t *page;
static size_t page_size;

static bool is_writable(void) { return syscall(SYS_getcpu, page + 1, NULL, NULL) == 0; }

static void test_a_writable_slot(void) {
  struct relocated image = {0};
  *page = 3;
  check(relocations_replace(&image, page, 3, 4) && *page == 4 && is_writable());
  check(relocations_replace(&image, page, 3, 5) && *page == 4);
}

/* As the program, or a relocation of its code, has it. */
static void test_a_slot_that_the_program_has_made_read_only(void) {
  struct relocated image = {0};
  *page = 3;
  check(!mprotect(page, page_size, PROT_READ));
  check(!relocations_replace(&image, page, 3, 4) && *page == 3 && !is_writable());
  check(!mprotect(page, page_size, PROT_NONE));
  check(!relocations_replace(&image, page, 3, 4));
  check(!mprotect(page, page_size, PROT_READ | PROT_WRITE));
}

static void test_a_slot_that_the_loader_has_made_read_only(void) {
  struct relocated image = {.read_only_start = (uintptr_t)page, .read_only_end = (uintptr_t)page + page_size};
  *page = 3;
  check(relocations_replace(&image, page, 3, 4) && *page == 4 && is_writable());
  check(!mprotect(page, page_size, PROT_READ));
  check(relocations_replace(&image, page, 4, 5) && *page == 5 && !is_writable());
  check(!mprotect(page, page_size, PROT_READ | PROT_WRITE));
}

int main(void) {
  page_size = (size_t)sysconf(_SC_PAGESIZE);
  page = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(page != MAP_FAILED);
  test_a_writable_slot();
  test_a_slot_that_the_program_has_made_read_only();
  test_a_slot_that_the_loader_has_made_read_only();
  puts("ok");
  return 0;
}
