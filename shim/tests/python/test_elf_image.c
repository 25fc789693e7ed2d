/* Tests elf_image.c: the tables of images lead to the symbols that the loader finds. */
#include "shared/interpreter/elf_image.h"

#include <dlfcn.h>

#include "shared/saferead.h"
#include "shared/spool.h"
#include "tests/check.h"

struct spool_header *spool; /* null = not recording */
int elf_image_exported = 7;
int main(void);

static uintptr_t address_of(const struct elf_image *image, const char *name) {
  const elf_symbol *symbol = elf_image_symbol(image, name);
  return symbol ? image->bias + symbol->st_value : 0;
}

static void check_names(const struct elf_image *image) {
  check(address_of(image, "main") == (uintptr_t)&main);
  check(address_of(image, "elf_image_exported") == (uintptr_t)&elf_image_exported);
  check(elf_image_symbol(image, "elf_image_exported")->st_size == sizeof elf_image_exported);
  check(!elf_image_symbol(image, "dl_iterate_phdr")); /* undefined here */
  check(!elf_image_symbol(image, "no_such_name") && !elf_image_symbol(image, ""));
}

/* A loader that is never asked for a name does not notice these. */
static void check_damaged(struct elf_image image) {
  uint32_t wild_bucket[] = {1, 1, 1, 0, 0, 0, 0x10000000}, wild_size[] = {0x7fffffff, 1, 0x7fffffff, 0};
  uint32_t cycle[] = {1, 2, 1, 1, 1}, no_bucket[] = {0, 0, 0, 0}, wild_link[] = {1, 1, 0x10000000};
  const uint32_t *gnu[] = {wild_bucket, wild_size, no_bucket, (const uint32_t *)0x700000000};
  const uint32_t *old[] = {cycle, wild_link, no_bucket, (const uint32_t *)0x700000000};
  for (int i = 0; i < 4; i++) {
    image.gnu_hash = gnu[i];
    check(!elf_image_symbol(&image, "no_such_name"));
  }
  image.gnu_hash = NULL;
  for (int i = 0; i < 4; i++) {
    image.hash = old[i];
    check(!elf_image_symbol(&image, "no_such_name"));
  }
}

static void check_unreadable(struct elf_image image) {
  struct elf_image no_names = image, no_symbols = image;
  no_names.names = (const char *)0x700000000;
  no_symbols.symbols = (const elf_symbol *)0x700000000;
  check(!elf_image_symbol(&no_names, "main") && !elf_image_symbol(&no_symbols, "main"));
}

int main(void) {
  struct elf_image image, libc;
  safe_read_init();
  check(elf_image_find((uintptr_t)&main, &image) && image.gnu_hash && image.hash);
  check(image.start <= (uintptr_t)&main && image.end > (uintptr_t)&elf_image_exported);
  check_names(&image);
  check_damaged(image);
  check_unreadable(image);
  image.gnu_hash = NULL;
  check_names(&image);
  image.symbols = NULL;
  check(!elf_image_symbol(&image, "main"));
  uintptr_t getenv_address = (uintptr_t)dlsym(RTLD_DEFAULT, "getenv");
  check(elf_image_find(getenv_address, &libc) && address_of(&libc, "getenv") == getenv_address);
  check(!address_of(&libc, "elf_image_exported"));
  int on_stack = 0;
  check(!elf_image_find((uintptr_t)&on_stack, &image) && !elf_image_find(0, &image));
  check(elf_images_removed() == libc.removed);
  puts("ok");
  return 0;
}
