/* Finds a loaded image by an address, and symbols by the image's hash tables.
 *
 * The loader uses these tables only for names that somebody looks up in the image. Nobody may have done that, so damaged
 * tables are harmless, and are read here as if they were. */
#include "shared/interpreter/elf_image.h"

#include "shared/base.h"
#include "shared/saferead.h"

#define MOST_NAME 128
#define MOST_IN_CHAIN 4096 /* symbols that share a bucket: damaged tables may have cycles */

/* ---- the image ---- */

static void read_dynamic(struct elf_image *image, const ElfW(Dyn) * entry) {
  for (; entry->d_tag != DT_NULL; entry++) {
    const void *address = (const void *)elf_image_address(image, entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) image->symbols = address;
    if (entry->d_tag == DT_STRTAB) image->names = address;
    if (entry->d_tag == DT_GNU_HASH) image->gnu_hash = address;
    if (entry->d_tag == DT_HASH) image->hash = address;
  }
}

void elf_image_read(const struct dl_phdr_info *info, struct elf_image *out) {
  const ElfW(Dyn) *dynamic = NULL;
  *out = (struct elf_image){.bias = info->dlpi_addr, .start = UINTPTR_MAX, .removed = info->dlpi_subs};
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + segment->p_vaddr, end = start + segment->p_memsz;
    if (segment->p_type == PT_DYNAMIC) dynamic = (const void *)start;
    if (segment->p_type == PT_LOAD && start < out->start) out->start = start;
    if (segment->p_type == PT_LOAD && end > out->end) out->end = end;
  }
  if (dynamic) read_dynamic(out, dynamic);
}

struct search {
  uintptr_t address;
  struct elf_image *found;
};

/* The range of an image may have holes in which others lie. */
static int visit(struct dl_phdr_info *info, size_t size, void *data) {
  const struct search *search = data;
  bool is_it = false;
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + segment->p_vaddr;
    is_it |= segment->p_type == PT_LOAD && search->address - start < segment->p_memsz;
  }
  if (is_it) elf_image_read(info, search->found);
  return is_it;
}

bool elf_image_find(uintptr_t address, struct elf_image *out) {
  struct search search = {address, out};
  return dl_iterate_phdr(visit, &search) != 0;
}

static int count_removed(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  *(unsigned long long *)data = info->dlpi_subs;
  return 1;
}

unsigned long long elf_images_removed(void) {
  unsigned long long removed = 0;
  dl_iterate_phdr(count_removed, &removed);
  return removed;
}

/* ---- symbols ---- */

static bool is_named(const char *at, const char *name) {
  char found[MOST_NAME];
  size_t size = strlen(name) + 1;
  return size <= sizeof found && safe_read(found, at, size) && memcmp(found, name, size) == 0;
}

static const elf_symbol *defined_as(const struct elf_image *image, uint32_t index, const char *name) {
  const elf_symbol *at = &image->symbols[index];
  elf_symbol symbol;
  if (!safe_read(&symbol, at, sizeof symbol) || symbol.st_shndx == SHN_UNDEF) return NULL;
  return is_named(image->names + symbol.st_name, name) ? at : NULL;
}

static const elf_symbol *find_by_gnu_hash(const struct elf_image *image, const char *name) {
  uint32_t head[3], hash = 5381, index, link = 0;
  if (!safe_read(head, image->gnu_hash, sizeof head) || !head[0]) return NULL;
  uint32_t buckets = head[0], first = head[1];
  size_t bloom_words = (size_t)head[2] * (sizeof(ElfW(Addr)) / sizeof hash);
  const uint32_t *bucket = image->gnu_hash + 4 + bloom_words, *chain = bucket + buckets;
  for (const char *at = name; *at; at++) hash = hash * 33 + (uint8_t)*at;
  if (!safe_read(&index, bucket + hash % buckets, sizeof index) || !index || index < first) return NULL;
  for (int i = 0; i < MOST_IN_CHAIN && !(link & 1); i++, index++) {
    if (!safe_read(&link, chain + (index - first), sizeof link)) return NULL;
    const elf_symbol *symbol = (link | 1) == (hash | 1) ? defined_as(image, index, name) : NULL;
    if (symbol) return symbol;
  }
  return NULL;
}

static const elf_symbol *find_by_hash(const struct elf_image *image, const char *name) {
  uint32_t buckets, hash = 0, index;
  if (!safe_read(&buckets, image->hash, sizeof buckets) || !buckets) return NULL;
  for (const char *at = name; *at; at++) {
    hash = (hash << 4) + (uint8_t)*at;
    hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
  }
  const uint32_t *link = image->hash + 2 + hash % buckets, *chain = image->hash + 2 + buckets;
  for (int i = 0; i < MOST_IN_CHAIN && safe_read(&index, link, sizeof index) && index; i++, link = chain + index) {
    const elf_symbol *symbol = defined_as(image, index, name);
    if (symbol) return symbol;
  }
  return NULL;
}

const elf_symbol *elf_image_symbol(const struct elf_image *image, const char *name) {
  if (!image->symbols || !image->names) return NULL;
  return image->gnu_hash ? find_by_gnu_hash(image, name) : image->hash ? find_by_hash(image, name) : NULL;
}
