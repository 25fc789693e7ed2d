/* A loaded image and the slots in it through which it calls functions of others. */
#ifndef SCALENE_TRACE_NATIVE_RELOCATIONS_H
#define SCALENE_TRACE_NATIVE_RELOCATIONS_H

#include <elf.h>
#include <link.h>

#include "shared/interpreter/elf_image.h"
#include "shared/base.h"

#pragma GCC visibility push(hidden)

/* Kinds of slots: of a call, which the loader may fill at the first one; of a table of addresses; of a pointer in data. */
enum { BY_CALL = ARCH_RELOCATION_CALL, BY_TABLE = ARCH_RELOCATION_TABLE, BY_POINTER = ARCH_RELOCATION_POINTER };

/* A loaded image, with the parts of its dynamic section that its relocations need. */
struct relocated {
  const char *path;
  const ElfW(Dyn) * dynamic;
  struct elf_image image;
  uintptr_t read_only_start, read_only_end; /* PT_GNU_RELRO: the loader makes it read-only after relocation */
  const ElfW(Rela) * tables[2];             /* of calls, and all others with a symbol */
  size_t counts[2];
};

/* Reads what dl_iterate_phdr gives of an image. False = it has no relocations with names. Context: signal. */
bool relocations_read(const struct dl_phdr_info *info, struct relocated *out);
static inline bool relocations_hold(const struct relocated *image, uintptr_t address) {
  return address >= image->image.start && address < image->image.end;
}
/* The symbol of a relocation, the name of it, and the slot that it fills. */
static inline const elf_symbol *relocation_symbol(const struct relocated *image, const ElfW(Rela) * relocation) {
  return &image->image.symbols[ELF64_R_SYM(relocation->r_info)];
}
static inline const char *relocation_name(const struct relocated *image, const ElfW(Rela) * relocation) {
  return image->image.names + relocation_symbol(image, relocation)->st_name;
}
static inline uintptr_t *relocation_slot(const struct relocated *image, const ElfW(Rela) * relocation) {
  return (uintptr_t *)(image->image.bias + relocation->r_offset);
}
/* Begins to change slots. Changes exclude each other, because they may make the same page writable and read-only again.
 * Waits for other threads, but not for ever; false = in vain. Context: normal. */
bool relocations_begin(void);
/* The same, but returns false instead of waiting: a signal handler may have interrupted the thread that changes slots.
 * Context: signal. */
bool relocations_try_begin(void);
/* Ends a change. Context: signal. */
void relocations_end(void);
/* Forgets that a thread of the parent was changing slots. Context: signal. */
void relocations_postfork_child(void);
/* Between begin and end: stores a value in a slot of the image, and makes its page writable for that if necessary; false =
 * that fails. `loaded`: the image is known to be loaded completely. Context: signal. */
bool relocations_store(const struct relocated *image, uintptr_t *slot, uintptr_t value, bool loaded);

/* The same, unless the program or the loader has just stored another value than `expected` there, and never in a page that the
 * program itself has made read-only. Another thread may not be loading the image; of one that holds a value of ours, none is. Context:
 * signal. */
bool relocations_replace(const struct relocated *image, uintptr_t *slot, uintptr_t expected, uintptr_t value);

#pragma GCC visibility pop

#endif
