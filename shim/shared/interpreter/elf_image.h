/* The symbols that one loaded image exports, read from its own tables. dlsym finds those of a library that was loaded with
 * RTLD_LOCAL only through the handle that the program has. */
#ifndef SCALENE_TRACE_SHARED_INTERPRETER_ELF_IMAGE_H
#define SCALENE_TRACE_SHARED_INTERPRETER_ELF_IMAGE_H

#include <elf.h>
#include <link.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

typedef ElfW(Sym) elf_symbol;

struct elf_image {
  uintptr_t bias, start, end; /* its segments lie in [start, end) */
  const elf_symbol *symbols;  /* null = the image exports none */
  const char *names;
  const uint32_t *gnu_hash, *hash; /* null = the image has no such table */
  unsigned long long removed;      /* how many images the loader had removed at that time */
};
/* Returns the address that a pointer of the dynamic section refers to. Most loaders have relocated it in place. */
static inline uintptr_t elf_image_address(const struct elf_image *image, uintptr_t pointer) {
  return pointer < image->bias ? image->bias + pointer : pointer;
}
/* Reads what dl_iterate_phdr gives of an image. Context: signal. */
void elf_image_read(const struct dl_phdr_info *info, struct elf_image *out);
/* Finds the image of the shim's namespace that contains the address. False = none does. Waits for a thread that adds or
 * removes an image. Context: normal. */
bool elf_image_find(uintptr_t address, struct elf_image *out);
/* Returns the definition of a symbol; null = the image defines none. The image must stay loaded. Context: signal. */
const elf_symbol *elf_image_symbol(const struct elf_image *image, const char *name);
/* Returns how many images the loader has removed so far. Context: normal. */
unsigned long long elf_images_removed(void);

#pragma GCC visibility pop

#endif
