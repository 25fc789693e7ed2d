/* Reads the loader's list of libraries, and what their ELF headers say.
 *
 * The list is read by safe reads and without the loader's lock. So entries may be freed at any moment, and in the watcher
 * they may be anything. */
#include "shared/native/image.h"

#include <elf.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/saferead.h"
#include "shared/stacks/hash.h"

static bool starts_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

static const char *name_of(const char *path) {
  const char *base = strrchr(path, '/');
  return base ? base + 1 : path;
}

static bool is_forwarding(const char *name) {
  return starts_with(name, "libffi.") || starts_with(name, "libffi-") || starts_with(name, "_cffi_backend.");
}

static bool is_support(const char *name) {
  static const char *const names[] = {
      "libc.so",  "libc-",      "libm.so",    "libm-",       "libmvec",     "ld-linux",    "ld-2",
      "ld.so",    "linux-vdso", "libpthread", "libdl",       "librt.",      "librt-",      "libutil",
      "libgcc_s", "libstdc++",  "libc++",     "libjemalloc", "libtcmalloc", "libmimalloc", "ld-musl"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (starts_with(name, names[i])) return true;
  }
  return false;
}

static uint32_t classify(const struct image *image, const char *path, bool main_program,
                         const struct image_source *source) {
  if (source->interpreter >= image->start && source->interpreter < image->end) return PC_INTERPRETER;
  if (source->shim >= image->start && source->shim < image->end) return PC_SHIM;
  if (main_program) return source->python_at_load ? PC_INTERPRETER : PC_EXTENSION;
  return is_support(name_of(path)) ? PC_SUPPORT : PC_EXTENSION;
}

static void read_string(char *to, uintptr_t from, size_t size) {
  size_t got = from ? safe_read_some(to, (void *)from, size - 1) : 0;
  to[got] = 0;
}

static void read_segments(struct loaded_library *library, const struct image_source *source) {
  uintptr_t headers = source ? source->headers : 0;
  size_t count = source ? source->header_count : 0;
  library->segments = 0;
  if (!source) {
    ElfW(Ehdr) header;
    if (!safe_read(&header, (void *)library->bias, sizeof header)) return;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return;
    headers = library->bias + header.e_phoff;
    count = header.e_phnum;
  }
  if (count > MAX_SEGMENTS) count = MAX_SEGMENTS;
  size_t got = safe_read_some(library->segment, (void *)headers, count * sizeof *library->segment);
  library->segments = (int)(got / sizeof *library->segment);
}

bool library_read(struct loaded_library *library, uintptr_t link, const struct image_source *source) {
  struct link_map map;
  if (!safe_read(&map, (void *)link, sizeof map)) return false;
  library->bias = map.l_addr;
  library->next = (uintptr_t)map.l_next;
  if (!source) read_string(library->path, (uintptr_t)map.l_name, sizeof library->path);
  read_segments(library, source);
  return true;
}

/* Finds .eh_frame_hdr and the segment that contains it. */
static void find_tables(const struct loaded_library *library, struct image *image) {
  const ElfW(Phdr) *segments = library->segment;
  int count = library->segments;
  uintptr_t tables = 0;
  for (int i = 0; i < count; i++) {
    if (segments[i].p_type == PT_GNU_EH_FRAME) tables = segments[i].p_vaddr;
  }
  for (int i = 0; tables && i < count; i++) {
    uintptr_t start = segments[i].p_vaddr;
    if (segments[i].p_type != PT_LOAD || tables < start || tables - start >= segments[i].p_filesz) continue;
    image->tables = image->bias + tables;
    image->tables_low = image->bias + start;
    image->tables_high = image->tables_low + segments[i].p_filesz;
  }
}

static uint64_t id_of(const struct image *image, const char *path) {
  uint64_t hash = hash_pair(image->start - image->bias, image->end - image->bias);
  hash = hash_pair(hash, image->pc_class);
  for (size_t left = strlen(path); left;) {
    uint64_t word = 0;
    size_t size = left < sizeof word ? left : sizeof word;
    memcpy(&word, path, size);
    hash = hash_pair(hash, word);
    path += size;
    left -= size;
  }
  return hash_not_zero(hash);
}

bool library_image(const struct loaded_library *library, int segment, bool main_program,
                   const struct image_source *source, struct image *out) {
  const ElfW(Phdr) *header = &library->segment[segment];
  if (header->p_type != PT_LOAD || !(header->p_flags & PF_X)) return false;
  *out = (struct image){.bias = library->bias, .start = library->bias + header->p_vaddr};
  out->end = out->start + header->p_memsz;
  find_tables(library, out);
  out->pc_class = classify(out, library->path, main_program, source);
  out->forwards = out->pc_class == PC_EXTENSION && is_forwarding(name_of(library->path));
  out->id = id_of(out, library->path);
  return true;
}
