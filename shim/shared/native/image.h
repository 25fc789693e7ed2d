/* Loaded images (executable and libraries) of any process: how they are read from the loader's list. */
#ifndef SCALENE_TRACE_SHARED_NATIVE_IMAGE_H
#define SCALENE_TRACE_SHARED_NATIVE_IMAGE_H

#include <link.h>

#include "shared/base.h"

#pragma GCC visibility push(hidden)

struct image {
  uint64_t id;                       /* hash of its file's path and of this segment: equal in all processes */
  uintptr_t start, end;              /* of an executable segment */
  uintptr_t bias;                    /* load bias: ELF virtual address = address - bias */
  uintptr_t tables;                  /* .eh_frame_hdr, which leads to the unwind tables; 0 = there is none */
  uintptr_t tables_low, tables_high; /* the segment that contains it, as far as the file goes */
  uint32_t pc_class;                 /* PC_* */
  bool forwards;                     /* it calls what Python code has asked for: libffi */
  bool stays;                        /* loaded when the process started, so it is never unmapped */
};

/* What the watcher needs to know of the images of a process. The shim keeps it in the memory of the program. */
struct image_source {
  uintptr_t list;    /* address of the loader's list (r_map of _r_debug) */
  uintptr_t headers; /* program headers of the executable */
  uint32_t header_count;
  _Atomic uint32_t closed; /* number of calls of dlclose that have ended */
  uintptr_t interpreter;   /* an address in the interpreter's code; 0 = unknown */
  uintptr_t shim;          /* an address in the shim's code */
  uint64_t python_at_load; /* 1 = the executable is the interpreter, or was linked with it */
};

#define MAX_SEGMENTS 64
#define PATH_BYTES 1024
/* An entry of the loader's list. */
struct loaded_library {
  uintptr_t bias;
  uintptr_t next; /* address of the next entry; 0 = it is the last one */
  int segments;
  ElfW(Phdr) segment[MAX_SEGMENTS];
  char path[PATH_BYTES];
};

/* Reads the entry at `link`. `source`: it is that of the executable, whose path the caller stores; else null.
 * False = it is not readable. Context: signal. */
bool library_read(struct loaded_library *library, uintptr_t link, const struct image_source *source);
/* Stores a segment of the library; `stays` is false. False = it is not executable. Context: signal. */
bool library_image(const struct loaded_library *library, int segment, bool main_program,
                   const struct image_source *source, struct image *out);

#pragma GCC visibility pop

#endif
