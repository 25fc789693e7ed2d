/* Where calls of the CUDA libraries are met: in the slots through which other libraries call them, and in dlsym.
 *
 * A shim that exported cudaMalloc would make every program believe that CUDA is there. So the stand-ins (stand_ins.c)
 * are put in place only where a CUDA library has been loaded, behind the loader's back: each slot of a relocation that
 * holds one of its functions gets the stand-in, and dlsym gives it out in the function's place. The loader tells nobody
 * that it has loaded something, and dlopen cannot be wrapped, as it looks at its caller. But what loads a library asks
 * it for a function next: at each dlsym the list is looked at, which takes one read when nothing was added. */
#include "inside/cuda/hooks.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/cuda/cuda.h"
#include "inside/cuda/stand_ins.h"
#include "inside/stacks/images.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/spool.h"

#define MAX_LIBRARIES 4096
#define MAX_PROVIDERS 16

enum { BY_CALL = R_X86_64_JUMP_SLOT, BY_TABLE = R_X86_64_GLOB_DAT, BY_POINTER = R_X86_64_64 };

/* What the loader has read of a library. */
struct library {
  const char *path;
  const ElfW(Dyn) * dynamic;
  uintptr_t bias, start, end;               /* of all its segments */
  uintptr_t read_only_start, read_only_end; /* written by the loader and closed since */
  const ElfW(Sym) * symbols;
  const char *names;
  const uint32_t *hash; /* DT_GNU_HASH */
  const ElfW(Rela) * tables[2];
  size_t counts[2];
};

/* The CUDA libraries. Made aside and swapped: who asks meanwhile sees a whole one. */
struct providers {
  int count;
  struct library library[MAX_PROVIDERS];
};
static struct providers tables[2];
static _Atomic(struct providers *) providers = &tables[0];

/* What the last look that is over has covered. */
static _Atomic(struct link_map *) last; /* of the loader's list */
static _Atomic uint32_t closed_then;    /* images_closed_count */

static _Atomic int busy;               /* somebody looks. All below is his: */
static struct link_map *reached;       /* as `last`, of this look */
static unsigned long long subs_then;   /* libraries unloaded so far */
static struct providers *found;        /* of this look */
static uintptr_t known[MAX_LIBRARIES]; /* program headers of libraries whose slots were gone through */
static int known_count;
static bool is_whole;        /* no library of this look was being loaded */
static int patience = 10000; /* how often such ones are waited for in all */

/* ---- reading a library ---- */

static uintptr_t at(const struct library *library, uintptr_t pointer) {
  return pointer < library->bias ? library->bias + pointer : pointer; /* most loaders have relocated it in place */
}

static void read_dynamic(struct library *library, const ElfW(Dyn) * entry) {
  size_t relative = 0;
  for (; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_SYMTAB) library->symbols = (const void *)at(library, entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) library->names = (const void *)at(library, entry->d_un.d_ptr);
    if (entry->d_tag == DT_GNU_HASH) library->hash = (const void *)at(library, entry->d_un.d_ptr);
    if (entry->d_tag == DT_JMPREL) library->tables[0] = (const void *)at(library, entry->d_un.d_ptr);
    if (entry->d_tag == DT_PLTRELSZ) library->counts[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
    if (entry->d_tag == DT_RELA) library->tables[1] = (const void *)at(library, entry->d_un.d_ptr);
    if (entry->d_tag == DT_RELASZ) library->counts[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
    if (entry->d_tag == DT_RELACOUNT) relative = entry->d_un.d_val;
  }
  if (!library->tables[1] || relative > library->counts[1]) return;
  library->tables[1] += relative; /* those without a symbol come first */
  library->counts[1] -= relative;
}

static bool read_library(const struct dl_phdr_info *info, struct library *out) {
  const ElfW(Dyn) *dynamic = NULL;
  *out = (struct library){.path = info->dlpi_name, .bias = info->dlpi_addr, .start = UINTPTR_MAX};
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + segment->p_vaddr, end = start + segment->p_memsz;
    if (segment->p_type == PT_LOAD && start < out->start) out->start = start;
    if (segment->p_type == PT_LOAD && end > out->end) out->end = end;
    if (segment->p_type == PT_DYNAMIC) dynamic = (const void *)start;
    if (segment->p_type != PT_GNU_RELRO) continue;
    out->read_only_start = start;
    out->read_only_end = end;
  }
  out->dynamic = dynamic;
  if (dynamic) read_dynamic(out, dynamic);
  return dynamic && out->symbols && out->names;
}

static bool holds(const struct library *library, uintptr_t address) {
  return address >= library->start && address < library->end;
}

/* The CUDA library that the address lies in; null = in none. */
static const struct library *provider_of(uintptr_t address) {
  const struct providers *now = atomic_load(&providers);
  for (int i = 0; i < now->count; i++) {
    if (holds(&now->library[i], address)) return &now->library[i];
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

/* ---- a function by its name, for slots that the loader has not filled yet ---- */

static uint32_t hash_of(const char *name) {
  uint32_t hash = 5381;
  for (; *name; name++) hash = hash * 33 + (uint8_t)*name;
  return hash;
}

static uintptr_t find_in(const struct library *library, const char *name) {
  if (!library->hash || !library->hash[0]) return 0;
  uint32_t buckets = library->hash[0], first = library->hash[1], bloom_words = library->hash[2], hash = hash_of(name);
  const uint32_t *bucket = library->hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / 4), *chain = bucket + buckets;
  uint32_t index = bucket[hash % buckets];
  if (index < first) return 0;
  for (;; index++) {
    const ElfW(Sym) *symbol = &library->symbols[index];
    if ((chain[index - first] | 1) == (hash | 1) && strcmp(library->names + symbol->st_name, name) == 0)
      return symbol->st_shndx != SHN_UNDEF ? library->bias + symbol->st_value : 0;
    if (chain[index - first] & 1) return 0;
  }
}

/* The name under which others need it. */
static const char *soname_of(const struct library *library) {
  for (const ElfW(Dyn) *entry = library->dynamic; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_SONAME) return library->names + entry->d_un.d_val;
  }
  return base_of(library->path);
}

static bool is_linked_with(const struct library *library, const char *soname) {
  for (const ElfW(Dyn) *entry = library->dynamic; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_NEEDED && strcmp(base_of(library->names + entry->d_un.d_val), soname) == 0) return true;
  }
  return false;
}

/* In the CUDA libraries that it is linked with: a process may have two runtimes, and a library that is linked with none
 * may be answered by another one's function of that name. */
static uintptr_t find_for(const struct library *library, const char *name) {
  const struct providers *now = atomic_load(&providers);
  uintptr_t address = 0;
  for (int i = 0; i < now->count && !address; i++) {
    const struct library *provider = &now->library[i];
    if (is_linked_with(library, soname_of(provider))) address = find_in(provider, name);
  }
  return address;
}

/* ---- slots ---- */

/* Another thread may be loading the library just now: then the loader has still to write to these pages, and to close
 * them. Writes back what is there, by a call that fails where memory is closed. 0 = open, else an errno. */
static int writing_fails(uintptr_t *slot) {
  uintptr_t value = *slot;
  struct iovec from = {&value, sizeof value}, to = {slot, sizeof *slot};
  ssize_t written = syscall(SYS_process_vm_writev, syscall(SYS_getpid), &from, 1, &to, 1, 0);
  return written == sizeof value ? 0 : written < 0 ? errno : EFAULT;
}

/* The loader closes whole pages. */
static bool store(const struct library *library, uintptr_t *slot, uintptr_t value) {
  uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE), mask = ~(page_size - 1), page = (uintptr_t)slot & mask;
  bool may_be_closed = page >= (library->read_only_start & mask) && page < (library->read_only_end & mask);
  int failure = may_be_closed ? writing_fails(slot) : 0;
  if (failure && failure != EFAULT) return false;
  if (failure && syscall(SYS_mprotect, page, page_size, PROT_READ | PROT_WRITE)) return false;
  __atomic_store_n(slot, value, __ATOMIC_RELEASE);
  if (failure) syscall(SYS_mprotect, page, page_size, PROT_READ);
  return true;
}

/* The real function behind a slot; 0 = it is none of a CUDA library's. A slot that the loader fills at the first call
 * points into its own library until then. */
static uintptr_t behind(const struct library *library, uintptr_t value, uint32_t type, const char *name) {
  if (provider_of(value)) return value;
  return type == BY_CALL && holds(library, value) ? find_for(library, name) : 0;
}

/* What the loader has not come to yet holds nothing, or an address as it stands in the file. */
static bool is_filled(const struct library *library, const ElfW(Sym) * symbol, uintptr_t value) {
  if (ELF64_ST_BIND(symbol->st_info) == STB_WEAK && !value) return true;
  return !library->bias || value >= library->end - library->start;
}

/* The watched function that a relocation is about; null = none. */
static const struct cuda_call *call_of(const struct library *library, const ElfW(Rela) * relocation) {
  uint32_t type = (uint32_t)ELF64_R_TYPE(relocation->r_info);
  if (type != BY_CALL && type != BY_TABLE && type != BY_POINTER) return NULL;
  const ElfW(Sym) *symbol = &library->symbols[ELF64_R_SYM(relocation->r_info)];
  bool aligned = (library->bias + relocation->r_offset) % sizeof(uintptr_t) == 0;
  return symbol->st_shndx == SHN_UNDEF && aligned ? cuda_find(library->names + symbol->st_name) : NULL;
}

/* False when the loader has not come to it yet. */
static bool take_slot(const struct library *library, const ElfW(Rela) * relocation) {
  const struct cuda_call *call = call_of(library, relocation);
  if (!call) return true;
  uintptr_t *slot = (uintptr_t *)(library->bias + relocation->r_offset), value = *slot;
  if (!is_filled(library, &library->symbols[ELF64_R_SYM(relocation->r_info)], value)) return false;
  uintptr_t real = behind(library, value, (uint32_t)ELF64_R_TYPE(relocation->r_info), call->name);
  uintptr_t stand_in = real ? (uintptr_t)cuda_stand_in((void *)real, call) : real;
  if (stand_in != real && !store(library, slot, stand_in)) loss_add(LOSS_device_unhooked);
  return true;
}

static bool take_slots(const struct library *library) {
  bool whole = true;
  for (int table = 0; table < 2; table++) {
    for (size_t i = 0; library->tables[table] && i < library->counts[table]; i++)
      whole &= take_slot(library, &library->tables[table][i]);
  }
  return whole;
}

/* ---- going through the libraries, under the loader's lock ---- */

/* True when it was not known. */
static bool note_known(uintptr_t header) {
  for (int i = 0; i < known_count; i++) {
    if (known[i] == header) return false;
  }
  if (known_count < MAX_LIBRARIES) known[known_count++] = header;
  return true;
}

static void note_end_of_list(void) {
  struct link_map *map = _r_debug.r_map;
  while (map && map->l_next) map = map->l_next;
  reached = map;
}

/* Where a library was unloaded, another may lie. */
static void begin_scan(const struct dl_phdr_info *info) {
  if (info->dlpi_subs != subs_then) known_count = 0;
  subs_then = info->dlpi_subs;
  found = atomic_load(&providers) == &tables[0] ? &tables[1] : &tables[0];
  found->count = 0;
  note_end_of_list();
}

static int find_provider(struct dl_phdr_info *info, size_t size, void *first) {
  (void)size;
  if (*(bool *)first) begin_scan(info);
  *(bool *)first = false;
  if (found->count == MAX_PROVIDERS || !is_provider(info->dlpi_name)) return 0;
  if (read_library(info, &found->library[found->count])) found->count++;
  return 0;
}

static int take_library(struct dl_phdr_info *info, size_t size, void *unused) {
  struct library library;
  (void)size, (void)unused;
  if (is_provider(info->dlpi_name) || !note_known((uintptr_t)info->dlpi_phdr)) return 0;
  if (!read_library(info, &library) || holds(&library, (uintptr_t)&take_library)) return 0;
  if (take_slots(&library) || patience == 0) return 0;
  patience--;
  if (known_count) known_count--; /* it is the last: to be gone through again */
  is_whole = false;
  return 0;
}

static void scan_libraries(void) {
  bool first = true;
  is_whole = true;
  uint32_t closed = images_closed_count();
  dl_iterate_phdr(find_provider, &first);
  atomic_store(&providers, found);
  if (found->count) dl_iterate_phdr(take_library, NULL);
  atomic_store(&last, is_whole ? reached : NULL);
  atomic_store(&closed_then, closed);
}

/* The end of the list is there as long as no dlclose has begun since. */
static bool nothing_came(void) {
  struct link_map *end = atomic_load(&last);
  uint32_t closed = images_closed_count();
  return end && closed != UINT32_MAX && closed == atomic_load(&closed_then) && !end->l_next;
}

/* Waits a little for who is at it: he may have begun before the caller's library was there. Not for ever, as he may
 * wait for the loader's lock, which the caller may hold. */
static bool take_turn(void) {
  for (int tries = 0; atomic_exchange(&busy, 1); tries++) {
    if (tries == 1000) return false;
    syscall(SYS_sched_yield);
  }
  return true;
}

void cuda_hooks_refresh(void) {
  if (!recording() || !(spool->features & (FEATURE_COPY | FEATURE_MEMORY)) || nothing_came()) return;
  int saved_errno = errno;
  if (take_turn()) {
    scan_libraries();
    atomic_store(&busy, 0);
  }
  errno = saved_errno;
}

void cuda_hooks_postfork_child(void) { atomic_store(&busy, 0); }

/* ---- dlsym ---- */

#ifndef __SANITIZE_THREAD__
typedef void *dlsym_function(void *, const char *);
__attribute__((visibility("hidden"))) dlsym_function *cuda_real_dlsym;
__attribute__((visibility("hidden"), used)) void *cuda_before_dlsym(void *handle, const char *name);

/* What dlsym(RTLD_NEXT, ...) finds depends on where it is called: the real one is jumped to, with the caller's
 * stack. */
__asm__(".pushsection .text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "  .cfi_startproc\n"
        "  endbr64\n"
        "  push %rdi\n"
        "  .cfi_adjust_cfa_offset 8\n"
        "  push %rsi\n"
        "  .cfi_adjust_cfa_offset 8\n"
        "  sub $8, %rsp\n"
        "  .cfi_adjust_cfa_offset 8\n"
        "  call cuda_before_dlsym\n"
        "  add $8, %rsp\n"
        "  .cfi_adjust_cfa_offset -8\n"
        "  pop %rsi\n"
        "  .cfi_adjust_cfa_offset -8\n"
        "  pop %rdi\n"
        "  .cfi_adjust_cfa_offset -8\n"
        "  test %rax, %rax\n"
        "  jne 1f\n"
        "  mov cuda_real_dlsym(%rip), %rax\n"
        "  jmp *%rax\n"
        "1: ret\n"
        "  .cfi_endproc\n"
        ".size dlsym, . - dlsym\n"
        ".popsection\n");

static void *found_nothing(void *handle, const char *name) {
  (void)handle, (void)name;
  return NULL;
}

static void find_real(void) {
  void *real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  cuda_real_dlsym = real ? (dlsym_function *)real : found_nothing;
}

/* The stand-in that the caller gets; null = the real dlsym answers. RTLD_DEFAULT asks the global scope first, wherever
 * it is called; behind RTLD_NEXT is somebody who stands in front of CUDA himself. */
static void *stand_in_for(void *handle, const char *name) {
  bool there = atomic_load(&providers)->count > 0;
  const struct cuda_call *call = there && handle != RTLD_NEXT ? cuda_find(name) : NULL;
  void *real = call ? cuda_real_dlsym(handle, name) : NULL;
  void *given = real && provider_of((uintptr_t)real) ? cuda_stand_in(real, call) : NULL;
  return given == real ? NULL : given;
}

void *cuda_before_dlsym(void *handle, const char *name) {
  if (unlikely(!cuda_real_dlsym)) find_real();
  if (!recording()) return NULL;
  cuda_hooks_refresh();
  return stand_in_for(handle, name);
}
#endif
