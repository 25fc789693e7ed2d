/* What musl lacks or calls differently, so that the shim, the watcher and their unit tests can be compiled with it. Programs
 * with musl are started without the shim (executable.h): no recording of one has been tested. */
#ifndef SCALENE_TRACE_LIBC_MUSL_H
#define SCALENE_TRACE_LIBC_MUSL_H

#include <stdint.h> /* says which libc it is */
#ifndef __GLIBC__

#include <dlfcn.h>
#include <link.h>
#include <sched.h> /* it declares memcpy, which base.h makes a macro */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

typedef int __rlimit_resource_t;

/* Other names of the functions without 64; the shim exports both. */
#undef mmap64
#undef setrlimit64
#undef prlimit64

/* The words of a sigset_t. */
#define __val __bits

extern struct r_debug *_dl_debug_addr;
#define _r_debug (*_dl_debug_addr)

/* There is one namespace. */
typedef long Lmid_t;
#define LM_ID_BASE 0
#define RTLD_DI_LMID 1
#define RTLD_DL_SYMENT 1
#define RTLD_DL_LINKMAP 2

/* Returns the symbol of an image at an address, or with a name; the other one is null. Its table of hashes, whose second
 * word is the number of symbols, must be of the old kind. */
static inline const ElfW(Sym) * musl_symbol(const struct link_map *map, const void *address, const char *name) {
  const ElfW(Sym) *symbols = NULL;
  const char *names = NULL;
  const uint32_t *hashes = NULL;
  for (const ElfW(Dyn) *entry = map->l_ld; entry && entry->d_tag; entry++) {
    uintptr_t value = entry->d_un.d_ptr < map->l_addr ? entry->d_un.d_ptr + map->l_addr : entry->d_un.d_ptr;
    if (entry->d_tag == DT_SYMTAB) symbols = (const ElfW(Sym) *)value;
    if (entry->d_tag == DT_STRTAB) names = (const char *)value;
    if (entry->d_tag == DT_HASH) hashes = (const uint32_t *)value;
  }
  for (uint32_t i = 0; symbols && names && hashes && i < hashes[1]; i++) {
    if (!symbols[i].st_shndx) continue;
    if (address && symbols[i].st_value + map->l_addr == (uintptr_t)address) return &symbols[i];
    if (name && !strcmp(names + symbols[i].st_name, name)) return &symbols[i];
  }
  return NULL;
}

/* Symbols have no versions. The shim uses it for dlsym, which it exports itself: the one of libc comes last. */
static inline void *dlvsym(void *handle, const char *name, const char *version) {
  void *found = NULL;
  (void)handle, (void)version;
  for (struct link_map *map = _dl_debug_addr->r_map; map; map = map->l_next) {
    const ElfW(Sym) *symbol = musl_symbol(map, NULL, name);
    if (symbol) found = (void *)(symbol->st_value + map->l_addr);
  }
  return found;
}

/* As in glibc: 0 = the address is in no image. */
static inline int dladdr1(const void *address, Dl_info *info, void **extra, int what) {
  *extra = NULL;
  if (!dladdr(address, info)) return 0;
  struct link_map *map = _dl_debug_addr->r_map;
  while (map && info->dli_fbase != (void *)map->l_addr) map = map->l_next;
  if (map && what == RTLD_DL_LINKMAP) *extra = map;
  if (map && what == RTLD_DL_SYMENT) *extra = (void *)musl_symbol(map, address, NULL);
  return 1;
}

#endif
#endif
