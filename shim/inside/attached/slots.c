/* Leads the program's calls of malloc and mmap here, through the slots by which images call functions of others. A slot is
 * led here only if it holds libc's function, or is one that the loader fills at the first call, and back only if it holds
 * ours. An image whose calls lead to another allocator is left alone: blocks of one must not be freed by the other. */
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "inside/attached/attached.h"
#include "inside/attached/loader.h"
#include "inside/core/next.h"
#include "inside/native/relocations.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/interpreter/elf_image.h"
#include "shared/loss.h"

void free_sized(void *, size_t);
void free_aligned_sized(void *, size_t, size_t);

struct call {
  const char *name;
  uintptr_t ours, libcs; /* libcs 0 = libc lacks it */
  bool allocates;        /* it belongs to malloc's family */
};
#define CALL(name, allocates) {#name, (uintptr_t)&name, 0, allocates}
static LASTING struct call calls[] = {CALL(malloc, true),
                                      CALL(free, true),
                                      CALL(calloc, true),
                                      CALL(realloc, true),
                                      CALL(reallocarray, true),
                                      CALL(memalign, true),
                                      CALL(posix_memalign, true),
                                      CALL(aligned_alloc, true),
                                      CALL(valloc, true),
                                      CALL(pvalloc, true),
                                      CALL(free_sized, true),
                                      CALL(free_aligned_sized, true),
                                      CALL(mmap, false),
                                      CALL(mmap64, false),
                                      CALL(munmap, false),
                                      CALL(mremap, false),
                                      CALL(mprotect, false),
                                      CALL(madvise, false),
                                      {"prctl", (uintptr_t)&attached_prctl, 0, false},
                                      CALL(syscall, false),
                                      CALL(dlsym, false)};
#define CALLS (sizeof calls / sizeof *calls)

static LASTING unsigned long long seen_loads, seen_unloads;
/* When images are visited again: the loader may have been about to fill a slot with libc's function. 0 = that was done. */
static LASTING _Atomic int64_t again_ns;
#define AGAIN_NS 100000000
static LASTING _Atomic int64_t look_ns; /* when a stop asks again whether images were loaded */
#define LOOK_NS 10000000

static void find_real(void) {
  for (size_t i = 0; i < CALLS; i++) calls[i].libcs = (uintptr_t)dlsym(RTLD_NEXT, calls[i].name);
}

/* ---- is malloc libc's? ---- */

/* An executable at a fixed address may list a function that it only calls, with the address of its own jump to it. */
bool slots_are_libcs(void) {
  Dl_info image;
  const ElfW(Sym) * symbol;
  find_real();
  for (size_t i = 0; i < CALLS; i++) {
    void *found = dlsym(RTLD_DEFAULT, calls[i].name);
    if (!found || (uintptr_t)found == calls[i].libcs) continue;
    symbol = NULL;
    if (!dladdr1(found, &image, (void **)&symbol, RTLD_DL_SYMENT) || !symbol || symbol->st_shndx != SHN_UNDEF)
      return false;
  }
  return calls[0].libcs != 0;
}

/* ---- one image ---- */

static const struct call *find_by_name(const char *name) {
  for (size_t i = 0; i < CALLS; i++) {
    if (calls[i].libcs && strcmp(calls[i].name, name) == 0) return &calls[i];
  }
  return NULL;
}

/* An image other than libc and the loader has an allocator of its own. */
static LASTING bool has_others;

/* Returns the call that a slot belongs to; null = none. */
static const struct call *call_of(const struct relocated *image, const ElfW(Rela) * relocation) {
  uint32_t type = (uint32_t)ELF64_R_TYPE(relocation->r_info);
  if (type != BY_CALL && type != BY_TABLE && type != BY_POINTER) return NULL;
  if (relocation->r_addend || (image->image.bias + relocation->r_offset) % sizeof(uintptr_t)) return NULL;
  return find_by_name(relocation_name(image, relocation));
}

static bool is_unfilled(const struct relocated *image, const ElfW(Rela) * relocation, uintptr_t value) {
  bool by_call = ELF64_R_TYPE(relocation->r_info) == BY_CALL;
  return by_call && relocation_symbol(image, relocation)->st_shndx == SHN_UNDEF && relocations_hold(image, value);
}

/* The executable at a fixed address, to whose jump other images' pointers may lead. */
static LASTING uintptr_t first_start, first_end;

/* The image that is visited has found malloc or free of libc. Others do without some of the rest, and get it from there. */
static bool finds_libcs;

static bool is_not_filled(const struct relocated *image, const ElfW(Rela) * relocation, const struct call *call) {
  uintptr_t value = *relocation_slot(image, relocation);
  bool is_pointer = ELF64_R_TYPE(relocation->r_info) == BY_POINTER;
  bool is_telling = call == &calls[0] || call == &calls[1]; /* malloc, free */
  return !is_telling || is_pointer || (value != call->libcs && value != call->ours);
}

/* Else an unfilled slot may come to lead to another allocator, if there is one, but for the executable's: that finds
 * first what all find (slots_are_libcs). */
static bool is_usual(const struct relocated *image, const ElfW(Rela) * relocation, const struct call *call) {
  uintptr_t value = *relocation_slot(image, relocation);
  if (is_unfilled(image, relocation, value))
    return !has_others || finds_libcs || value - first_start < first_end - first_start;
  return !value || value == call->libcs || value == call->ours || value - first_start < first_end - first_start ||
         value < image->image.end - image->image.start;
}

typedef bool visit_slot(const struct relocated *image, const ElfW(Rela) * relocation, const struct call *call);

/* Calls `visit` for each slot of a call until it returns false; returns whether it never has. */
static bool visit_all(const struct relocated *image, visit_slot *visit) {
  for (int table = 0; table < 2; table++) {
    for (size_t i = 0; image->tables[table] && i < image->counts[table]; i++) {
      const struct call *call = call_of(image, &image->tables[table][i]);
      if (call && !visit(image, &image->tables[table][i], call)) return false;
    }
  }
  return true;
}

/* A pointer in data is the image's own, which may have led it elsewhere. */
static bool is_usual_or_no_allocation(const struct relocated *image, const ElfW(Rela) * relocation,
                                      const struct call *call) {
  bool is_pointer = ELF64_R_TYPE(relocation->r_info) == BY_POINTER;
  return !call->allocates || is_pointer || is_usual(image, relocation, call);
}

/* Calls by a slot that cannot be written to are missing. It is tried again and again, so that is counted once. */
static bool lead_here(const struct relocated *image, const ElfW(Rela) * relocation, const struct call *call) {
  static bool is_counted; /* in this recording */
  uintptr_t *slot = relocation_slot(image, relocation), value = *slot;
  if (value != call->libcs && !is_unfilled(image, relocation, value)) return true;
  if (relocations_replace(image, slot, value, call->ours) || is_counted) return true;
  is_counted = true;
  loss_add(LOSS_attached_slots);
  return true;
}

static bool lead_back(const struct relocated *image, const ElfW(Rela) * relocation, const struct call *call) {
  uintptr_t *slot = relocation_slot(image, relocation);
  if (*slot == call->ours) relocations_replace(image, slot, call->ours, call->libcs);
  return true;
}

/* ---- all images ---- */

static bool read_image(const struct dl_phdr_info *info, struct relocated *image) {
  seen_loads = info->dlpi_adds;
  seen_unloads = info->dlpi_subs;
  return relocations_read(info, image) && !relocations_hold(image, (uintptr_t)&read_image);
}

static int lead_image_here(struct dl_phdr_info *info, size_t size, void *unused) {
  struct relocated image;
  (void)size, (void)unused;
  if (!read_image(info, &image)) return 0;
  if (!first_start) first_start = image.image.start, first_end = image.image.end;
  finds_libcs = !visit_all(&image, is_not_filled);
  if (visit_all(&image, is_usual_or_no_allocation)) {
    visit_all(&image, lead_here);
  } else {
    loss_add(LOSS_foreign_allocator);
  }
  return 0;
}

/* Notes whether the image has an allocator. The loader of an older glibc has one, for itself. */
static int look_for_allocator(struct dl_phdr_info *info, size_t size, void *unused) {
  struct elf_image image;
  (void)size, (void)unused;
  elf_image_read(info, &image);
  bool is_libc = calls[0].libcs >= image.start && calls[0].libcs < image.end;
  has_others = !is_libc && image.bias != getauxval(AT_BASE) &&
               (elf_image_symbol(&image, "malloc") || elf_image_symbol(&image, "free"));
  return has_others;
}

static int lead_image_back(struct dl_phdr_info *info, size_t size, void *unused) {
  struct relocated image;
  (void)size, (void)unused;
  if (read_image(info, &image)) visit_all(&image, lead_back);
  return 0;
}

/* Where slots are led: here by a thread that has seen that a recording is under way, back by the one that ends it. Both have
 * the loader's lock, so what is led here late cannot come after what was led back. */
void slots_lead_here(void) {
  dl_iterate_phdr(look_for_allocator, NULL);
  dl_iterate_phdr(lead_image_here, NULL);
  atomic_store(&again_ns, clock_now_ns() + AGAIN_NS);
}

void slots_lead_back(void) { dl_iterate_phdr(lead_image_back, NULL); }

static int has_changed(struct dl_phdr_info *info, size_t size, void *changed) {
  (void)size;
  *(bool *)changed = info->dlpi_adds != seen_loads || info->dlpi_subs != seen_unloads;
  return 1;
}

static void look(void) {
  bool changed = false;
  int64_t again = atomic_load(&again_ns);
  dl_iterate_phdr(has_changed, &changed);
  if (changed) {
    slots_lead_here();
  } else if (again && clock_now_ns() > again) {
    atomic_store(&again_ns, 0);
    dl_iterate_phdr(lead_image_here, NULL);
  }
}

void slots_refresh(int64_t now_ns) {
  int64_t due_ns = atomic_load(&look_ns);
  if (now_ns < due_ns || !atomic_compare_exchange_strong(&look_ns, &due_ns, now_ns + LOOK_NS) ||
      !loader_begin(BOTH_LOCKS)) /* the loader must not be about to make an image's pages read-only */
    return;
  if (attached_is_on()) look();
  loader_end();
}
