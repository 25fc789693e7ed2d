/* Tests elf_image.c: the tables of images lead to the symbols that the loader finds. */
#include "inside/python/elf_image.h"

#include <dlfcn.h>

#include "tests/check.h"

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

int main(void) {
  struct elf_image image, libc;
  check(elf_image_find((uintptr_t)&main, &image) && image.gnu_hash && image.hash);
  check(image.start <= (uintptr_t)&main && image.end > (uintptr_t)&elf_image_exported);
  check_names(&image);
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
