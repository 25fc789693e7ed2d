#include "inside/native/diverted.h"

#include <dlfcn.h>

#include "inside/native/relocations.h"
#include "shared/base.h"
#include "shared/loss.h"

#define MAX_DIVERSIONS 8
#define MAX_SLOTS 256 /* the calls of further images go through the shim */

struct slot {
  struct relocated image;
  uintptr_t *at;
  uintptr_t ours, libcs;
};
static struct slot slots[MAX_SLOTS];
static _Atomic int used;

struct search {
  const struct diversion *diversions;
  int count;
  uintptr_t ours[MAX_DIVERSIONS]; /* 0 = a library in front of the shim has its own */
};

static int find(const struct search *search, const char *name) {
  for (int i = 0; i < search->count; i++) {
    if (search->ours[i] && strcmp(search->diversions[i].name, name) == 0) return i;
  }
  return -1;
}

/* A slot that the loader fills at the first call points into its own image until then. */
static void divert(const struct relocated *image, const ElfW(Rela) * relocation, const struct search *search) {
  const elf_symbol *symbol = relocation_symbol(image, relocation);
  if ((int)ELF64_R_TYPE(relocation->r_info) != BY_CALL || symbol->st_shndx != SHN_UNDEF) return;
  int which = find(search, relocation_name(image, relocation)), number = atomic_load(&used);
  uintptr_t *at = relocation_slot(image, relocation);
  if (which < 0 || number == MAX_SLOTS || (uintptr_t)at % sizeof *at) return;
  if (*at != search->ours[which] && !relocations_hold(image, *at)) return;
  slots[number] = (struct slot){*image, at, search->ours[which], search->diversions[which].libcs};
  if (relocations_store(image, at, slots[number].libcs, true)) atomic_store(&used, number + 1);
}

static int divert_image(struct dl_phdr_info *info, size_t size, void *search) {
  struct relocated image;
  (void)size;
  if (!relocations_read(info, &image) || relocations_hold(&image, (uintptr_t)&divert_image)) return 0;
  for (size_t i = 0; image.tables[0] && i < image.counts[0]; i++) divert(&image, &image.tables[0][i], search);
  return 0;
}

/* Returns the function that the name leads to, if it is the shim's. */
static uintptr_t ours_of(const char *name) {
  Dl_info shim, found;
  void *function = dlsym(RTLD_DEFAULT, name);
  bool is_ours =
      function && dladdr(function, &found) && dladdr((void *)&divert_image, &shim) && found.dli_fbase == shim.dli_fbase;
  return is_ours ? (uintptr_t)function : 0;
}

void diverted_begin(const struct diversion *diversions, int count) {
  struct search search = {.diversions = diversions, .count = count < MAX_DIVERSIONS ? count : MAX_DIVERSIONS};
  for (int i = 0; i < search.count; i++) search.ours[i] = diversions[i].libcs ? ours_of(diversions[i].name) : 0;
  if (!relocations_begin()) return;
  dl_iterate_phdr(divert_image, &search);
  relocations_end();
}

void diverted_end(void) {
  if (likely(!atomic_load_explicit(&used, memory_order_relaxed))) return;
  if (!relocations_try_begin()) return; /* the next tick tries again */
  int count = atomic_load(&used);
  for (int i = 0; i < count; i++) {
    const struct slot *slot = &slots[i];
    if (*slot->at == slot->libcs && !relocations_store(&slot->image, slot->at, slot->ours, true))
      loss_add(LOSS_copies_diverted);
  }
  atomic_store(&used, 0);
  relocations_end();
}
