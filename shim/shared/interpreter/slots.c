/* Finds the functions through which instances of Python classes are made and called: slot_tp_call, slot_tp_init and
 * slot_tp_new. They are static, and most interpreters are delivered without the symbols of static functions. But the
 * interpreter has a table of them, with the name of the method and the offset of the slot: `slotdefs` in typeobject.c. It
 * is found in the interpreter's data by an entry's contents. */
#include "shared/interpreter/slots.h"

#include <elf.h>
#include <link.h>

#include "shared/base.h"

/* The beginning of an entry of slotdefs (struct wrapperbase). */
struct entry {
  const char *name;
  uint64_t offset; /* an int and zero padding */
  uintptr_t function;
};

#define MAX_LOADED 16

struct search {
  uintptr_t code; /* an address in the image */
  uintptr_t bias, moved;
  ElfW(Phdr) loaded[MAX_LOADED];
  int count;
};

static bool contains(const struct search *search, const ElfW(Phdr) * segment, uintptr_t address, size_t size) {
  uintptr_t start = search->bias + segment->p_vaddr;
  return address >= start && size <= segment->p_filesz && address - start <= segment->p_filesz - size;
}

/* Takes the segments of the image that contains the code. Returns 1 when it has found it. */
static int visit(struct dl_phdr_info *info, size_t size, void *data) {
  struct search *search = data;
  bool is_it = false;
  (void)size;
  search->bias = info->dlpi_addr;
  search->count = 0;
  for (int i = 0; i < info->dlpi_phnum && search->count < MAX_LOADED; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_R)) continue;
    search->loaded[search->count++] = *segment;
    is_it |= contains(search, segment, search->code, 1);
  }
  return is_it;
}

static bool is_text(const struct search *search, const char *at, const char *text) {
  size_t size = strlen(text) + 1;
  for (int i = 0; i < search->count; i++) {
    if (contains(search, &search->loaded[i], (uintptr_t)at, size)) return memcmp(at, text, size) == 0;
  }
  return false;
}

/* Looks for entries in one segment. False = two of them contradict each other. */
static bool find_in(const struct search *search, const ElfW(Phdr) * segment, const char *name, uint64_t offset,
                    uintptr_t *found) {
  uintptr_t at = (search->bias + segment->p_vaddr + 7) & ~(uintptr_t)7;
  for (; contains(search, segment, at, sizeof(struct entry)); at += sizeof(uint64_t)) {
    const struct entry *entry = (const struct entry *)at;
    if (entry->offset != offset || !is_text(search, entry->name + search->moved, name)) continue;
    if (*found && *found != entry->function + search->moved) return false;
    *found = entry->function + search->moved;
  }
  return true;
}

/* The function of the entry with that name and offset in the segments with these rights; 0 = there is none, or not one
 * alone. */
static uintptr_t find_where(const struct search *search, ElfW(Word) rights, const char *name, uint64_t offset) {
  uintptr_t found = 0;
  for (int i = 0; i < search->count; i++) {
    const ElfW(Phdr) *segment = &search->loaded[i];
    if ((segment->p_flags & (PF_W | PF_X)) == rights && !find_in(search, segment, name, offset, &found)) return 0;
  }
  return found;
}

/* From 3.14 on the table is constant, which puts it into read-only data where a program has a fixed address. */
static uintptr_t find(const struct search *search, const char *name, uint64_t offset) {
  uintptr_t found = find_where(search, PF_W, name, offset);
  return found ? found : find_where(search, 0, name, offset);
}

bool slots_find(const struct interpreter_place *place, uintptr_t code, struct python_slots *out) {
  struct search search = {.code = code, .moved = place->moved};
  *out = (struct python_slots){0, 0, 0};
  if (!code || !place->visit(visit, &search)) return false;
  out->call = find(&search, "__call__", TP_CALL);
  out->init = find(&search, "__init__", TP_INIT);
  out->new = find(&search, "__new__", TP_NEW);
  return out->call && out->init && out->new;
}
