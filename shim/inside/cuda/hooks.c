/* Intercepts calls of the CUDA libraries: in the GOT slots through which other libraries call them, and in dlsym.
 *
 * If the shim exported cudaMalloc, every program would find a CUDA library that is not there. So the stand-ins
 * (stand_ins.c) are installed only once a CUDA library is loaded: each relocated slot that holds one of its functions
 * gets the stand-in, and dlsym returns the stand-in for the function. The loader does not report that it has loaded a
 * library, and dlopen cannot be wrapped because it depends on the address of its caller. But code that loads a library
 * next looks up a function in it. So each dlsym checks the loader's list, which costs one read if nothing was added. */
#include "inside/cuda/hooks.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/cuda/cuda.h"
#include "inside/cuda/stand_ins.h"
#include "inside/native/images.h"
#include "inside/native/relocations.h"
#include "shared/interpreter/elf_image.h"
#include "inside/python/late.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/spool.h"

#define MAX_LIBRARIES 4096
#define MAX_PROVIDERS 16

/* The loaded CUDA libraries. A new table is built aside and then swapped in, so a concurrent reader sees a complete
 * one. */
struct providers {
  int count;
  struct relocated library[MAX_PROVIDERS];
};
static struct providers tables[2];
static _Atomic(struct providers *) providers = &tables[0];

/* State of the last complete scan. */
static _Atomic(struct link_map *) seen_end; /* end of the loader's list */
static _Atomic uint32_t seen_closed_count;  /* images_closed_count() before it */

static _Atomic int scanning;            /* 1 while a thread scans; it guards all variables below */
static struct link_map *list_end;       /* end of the loader's list in this scan */
static unsigned long long seen_unloads; /* dlpi_subs of the last scan: number of libraries unloaded so far */
static struct providers *building;      /* table that this scan builds */
static uintptr_t hooked[MAX_LIBRARIES]; /* program headers of the libraries whose slots are done */
static int hooked_count;
static bool is_complete;         /* no library in this scan was still being loaded */
static int retries_left = 10000; /* how many more times, in all, a scan is repeated for such a library */

/* ---- the CUDA libraries ---- */

/* Returns the CUDA library that contains the address; null = none. */
static const struct relocated *provider_of(uintptr_t address) {
  const struct providers *now = atomic_load(&providers);
  for (int i = 0; i < now->count; i++) {
    if (relocations_hold(&now->library[i], address)) return &now->library[i];
  }
  return NULL;
}

static const char *base_of(const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL;
  return slash ? slash + 1 : path;
}

/* libcudart.so.12, libcudart-d0da41ae.so.11.0 (in a wheel), libcuda.so.1 */
static bool is_provider(const char *path) {
  const char *base = base_of(path);
  return base && (strncmp(base, "libcudart", 9) == 0 || strncmp(base, "libcuda.so", 10) == 0);
}

/* ---- lookup of a function by its name, for slots that the loader has not filled yet ---- */

static uintptr_t find_in(const struct relocated *library, const char *name) {
  const elf_symbol *symbol = elf_image_symbol(&library->image, name);
  return symbol ? library->image.bias + symbol->st_value : 0;
}

/* Returns the name under which other libraries depend on this one. */
static const char *soname_of(const struct relocated *library) {
  for (const ElfW(Dyn) *entry = library->dynamic; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_SONAME) return library->image.names + entry->d_un.d_val;
  }
  return base_of(library->path);
}

static bool is_linked_with(const struct relocated *library, const char *soname) {
  for (const ElfW(Dyn) *entry = library->dynamic; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_NEEDED && strcmp(base_of(library->image.names + entry->d_un.d_val), soname) == 0)
      return true;
  }
  return false;
}

/* Searches the CUDA libraries that `library` is linked with. Others must not be searched: a process may have two
 * runtimes, and a library that is linked with neither may call a function of that name in a third library. */
static uintptr_t find_for(const struct relocated *library, const char *name) {
  const struct providers *now = atomic_load(&providers);
  uintptr_t address = 0;
  for (int i = 0; i < now->count && !address; i++) {
    const struct relocated *provider = &now->library[i];
    if (is_linked_with(library, soname_of(provider))) address = find_in(provider, name);
  }
  return address;
}

/* ---- slots ---- */

/* Returns the real function that a slot leads to; 0 = it is not in a CUDA library. A slot that the loader fills at the
 * first call points into its own library until then. */
static uintptr_t real_function(const struct relocated *library, uintptr_t value, uint32_t type, const char *name) {
  if (provider_of(value)) return value;
  return type == BY_CALL && relocations_hold(library, value) ? find_for(library, name) : 0;
}

/* Returns false for a slot that the loader has not relocated yet: it holds 0, or an address as it stands in the
 * file. */
static bool is_filled(const struct relocated *library, const ElfW(Sym) * symbol, uintptr_t value) {
  if (ELF64_ST_BIND(symbol->st_info) == STB_WEAK && !value) return true;
  return !library->image.bias || value >= library->image.end - library->image.start;
}

/* Returns the intercepted function that a relocation refers to; null = none. */
static const struct cuda_call *call_of(const struct relocated *library, const ElfW(Rela) * relocation) {
  uint32_t type = (uint32_t)ELF64_R_TYPE(relocation->r_info);
  if (type != BY_CALL && type != BY_TABLE && type != BY_POINTER) return NULL;
  const elf_symbol *symbol = relocation_symbol(library, relocation);
  bool aligned = (library->image.bias + relocation->r_offset) % sizeof(uintptr_t) == 0;
  return symbol->st_shndx == SHN_UNDEF && aligned ? cuda_find(relocation_name(library, relocation)) : NULL;
}

static bool store(const struct relocated *library, uintptr_t *slot, uintptr_t value) {
  if (!relocations_begin()) return false;
  bool stored = relocations_store(library, slot, value, false);
  relocations_end();
  return stored;
}

/* Hooks a slot; returns false if the loader has not relocated it yet. */
static bool hook_slot(const struct relocated *library, const ElfW(Rela) * relocation) {
  const struct cuda_call *call = call_of(library, relocation);
  if (!call) return true;
  uintptr_t *slot = relocation_slot(library, relocation), value = *slot;
  if (!is_filled(library, relocation_symbol(library, relocation), value)) return false;
  uintptr_t real = real_function(library, value, (uint32_t)ELF64_R_TYPE(relocation->r_info), call->name);
  uintptr_t stand_in = real ? (uintptr_t)cuda_stand_in((void *)real, call) : real;
  if (stand_in != real && !store(library, slot, stand_in)) loss_add(LOSS_device_unhooked);
  return true;
}

static bool hook_slots(const struct relocated *library) {
  bool complete = true;
  for (int table = 0; table < 2; table++) {
    for (size_t i = 0; library->tables[table] && i < library->counts[table]; i++)
      complete &= hook_slot(library, &library->tables[table][i]);
  }
  return complete;
}

/* ---- the scan, under the loader's lock ---- */

/* Returns true if the library was not known yet. */
static bool add_hooked(uintptr_t header) {
  for (int i = 0; i < hooked_count; i++) {
    if (hooked[i] == header) return false;
  }
  if (hooked_count < MAX_LIBRARIES) hooked[hooked_count++] = header;
  return true;
}

static void find_end_of_list(void) {
  struct link_map *map = _r_debug.r_map;
  while (map && map->l_next) map = map->l_next;
  list_end = map;
}

/* After a library was unloaded, another one may be loaded at its address. */
static void begin_scan(const struct dl_phdr_info *info) {
  if (info->dlpi_subs != seen_unloads) hooked_count = 0;
  seen_unloads = info->dlpi_subs;
  building = atomic_load(&providers) == &tables[0] ? &tables[1] : &tables[0];
  building->count = 0;
  find_end_of_list();
}

static int find_provider(struct dl_phdr_info *info, size_t size, void *first) {
  (void)size;
  if (*(bool *)first) begin_scan(info);
  *(bool *)first = false;
  if (building->count == MAX_PROVIDERS || !is_provider(info->dlpi_name)) return 0;
  if (relocations_read(info, &building->library[building->count])) building->count++;
  return 0;
}

static int hook_library(struct dl_phdr_info *info, size_t size, void *unused) {
  struct relocated library;
  (void)size, (void)unused;
  if (is_provider(info->dlpi_name) || !add_hooked((uintptr_t)info->dlpi_phdr)) return 0;
  if (!relocations_read(info, &library) || relocations_hold(&library, (uintptr_t)&hook_library)) return 0;
  if (hook_slots(&library) || retries_left == 0) return 0;
  retries_left--;
  if (hooked_count) hooked_count--; /* it is the last entry: remove it, so that the next scan repeats it */
  is_complete = false;
  return 0;
}

static void scan_libraries(void) {
  bool first = true;
  is_complete = true;
  uint32_t closed = images_closed_count();
  dl_iterate_phdr(find_provider, &first);
  atomic_store(&providers, building);
  if (building->count) dl_iterate_phdr(hook_library, NULL);
  atomic_store(&seen_end, is_complete ? list_end : NULL);
  atomic_store(&seen_closed_count, closed);
}

/* True if no library was loaded since the last scan. The end of the list may only be read if no dlclose has begun
 * since, because dlclose frees it. */
static bool list_unchanged(void) {
  struct link_map *end = atomic_load(&seen_end);
  uint32_t closed = images_closed_count();
  return end && closed != UINT32_MAX && closed == atomic_load(&seen_closed_count) && !end->l_next;
}

/* Waits for a thread that scans, which may have begun before the caller's library was loaded. It does not wait for
 * ever, because that thread may wait for the loader's lock, which the caller may hold. */
static bool try_lock_scan(void) {
  for (int tries = 0; atomic_exchange(&scanning, 1); tries++) {
    if (tries == 1000) return false;
    syscall(SYS_sched_yield);
  }
  return true;
}

void cuda_hooks_refresh(void) {
  if (!recording() || !(spool->features & (FEATURE_COPY | FEATURE_MEMORY)) || list_unchanged()) return;
  int saved_errno = errno;
  if (try_lock_scan()) {
    scan_libraries();
    atomic_store(&scanning, 0);
  }
  errno = saved_errno;
}

void cuda_hooks_postfork_child(void) { atomic_store(&scanning, 0); }

/* ---- dlsym ---- */

#ifndef __SANITIZE_THREAD__
typedef void *dlsym_function(void *, const char *);
__attribute__((visibility("hidden"))) dlsym_function *cuda_real_dlsym;
__attribute__((visibility("hidden"), used)) void *cuda_before_dlsym(void *handle, const char *name);

/* The result of dlsym(RTLD_NEXT, ...) depends on the address of its caller. So this jumps to the real dlsym with the
 * caller's stack. */
ARCH_DLSYM_FUNCTION("cuda_before_dlsym", "cuda_real_dlsym");

static void *dlsym_not_found(void *handle, const char *name) {
  (void)handle, (void)name;
  return NULL;
}

static void find_real_dlsym(void) {
  void *real = dlvsym(RTLD_NEXT, "dlsym", ARCH_FIRST_GLIBC);
  cuda_real_dlsym = real ? (dlsym_function *)real : dlsym_not_found;
}

/* Returns the stand-in for the caller; null = the real dlsym answers. RTLD_DEFAULT searches the global scope first,
 * wherever it is called. RTLD_NEXT is left alone: its caller interposes CUDA functions itself. */
static void *stand_in_for(void *handle, const char *name) {
  bool any_provider = atomic_load(&providers)->count > 0;
  const struct cuda_call *call = any_provider && handle != RTLD_NEXT ? cuda_find(name) : NULL;
  void *real = call ? cuda_real_dlsym(handle, name) : NULL;
  void *given = real && provider_of((uintptr_t)real) ? cuda_stand_in(real, call) : NULL;
  return given == real ? NULL : given;
}

/* The lookup by the shim gives the same result, unless it depends on the caller. */
static SLOW_PATH void look_for_python(void *handle, const char *name) {
  if (handle != RTLD_NEXT) late_looked_up(cuda_real_dlsym(handle, name));
}

void *cuda_before_dlsym(void *handle, const char *name) {
  if (unlikely(!cuda_real_dlsym)) find_real_dlsym();
  if (!recording()) return NULL;
  if (late_is_wanted(name)) look_for_python(handle, name);
  cuda_hooks_refresh();
  return stand_in_for(handle, name);
}
#endif
