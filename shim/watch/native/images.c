/* The loaded images of another process, read from its loader's list.
 *
 * The shim reads the same list, but only at ticks: a thread may load a library and then wait at once. The list may change
 * while it is read, and a process may have made it up, so all reads are safe reads and loops are bounded. A segment of any
 * size may be listed: addresses in it are only read by safe reads. */
#include "watch/native/images.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shared/base.h"
#include "shared/native/image.h"
#include "shared/native/records.h"
#include "shared/saferead.h"

#define MAX_IMAGES 1024
#define MAX_LIBRARIES 1024
#define WRITTEN 4096

static struct loaded_library library;
static uint64_t written[WRITTEN]; /* ids of images whose record was written last in each place */

static void note(const struct image *image) {
  uint64_t *place = &written[image->id % WRITTEN];
  if (*place == image->id) return;
  *place = image->id;
  native_write_image(image, library.path, 0);
}

static void add_image(struct remote_images *images, const struct image *image) {
  if (images->count >= MAX_IMAGES || image->end <= image->start) return;
  int at = images->count++;
  for (; at > 0 && images->image[at - 1].start > image->start; at--) images->image[at] = images->image[at - 1];
  images->image[at] = *image;
  note(image);
}

/* The path is that of a process which may have become another one; the reads after it prove that it has not. */
static void name_main_program(pid_t pid) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  ssize_t length = readlink(path, library.path, sizeof library.path - 1);
  library.path[length < 0 ? 0 : length] = 0;
}

/* Reads the entries from `at` on; `first`: it is the executable's. */
static bool read_entries(struct remote_images *images, pid_t pid, uintptr_t at, bool first) {
  struct image image;
  for (int i = 0; at && i < MAX_LIBRARIES; i++, first = false) {
    if (first) name_main_program(pid);
    if (!library_read(&library, at, first ? &images->source : NULL)) return false;
    for (int segment = 0; segment < library.segments; segment++) {
      if (library_image(&library, segment, first, &images->source, &image)) add_image(images, &image);
    }
    images->last_link = at;
    at = library.next;
  }
  return true;
}

static bool read_all(struct remote_images *images, pid_t pid, const struct image_source *source) {
  static uint64_t generations;
  uintptr_t first;
  if (!images->image) images->image = malloc(MAX_IMAGES * sizeof *images->image);
  if (!images->image) return false;
  images->generation = ++generations;
  images->source = *source;
  images->count = 0;
  images->last_link = 0;
  return safe_read(&first, (void *)source->list, sizeof first) && read_entries(images, pid, first, true);
}

bool remote_images_refresh(struct remote_images *images, pid_t pid, uintptr_t source) {
  struct {
    struct image_source source;
    uintptr_t next;
  } now;
  struct iovec piece[2] = {{(void *)source, sizeof now.source},
                           {(void *)(images->last_link + offsetof(struct link_map, l_next)), sizeof now.next}};
  bool known = images->last_link && safe_read_all(&now, piece, 2);
  if (!known && !safe_read_all(&now, piece, 1)) return false;
  if (!known || memcmp(&now.source, &images->source, sizeof now.source) != 0) {
    if (read_all(images, pid, &now.source)) return true;
    remote_images_free(images);
    return false;
  }
  return !now.next || read_entries(images, pid, now.next, false);
}

const struct image *remote_images_find(const struct remote_images *images, uintptr_t address) {
  int low = 0, high = images->count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (images->image[middle].start <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low > 0 && address < images->image[low - 1].end ? &images->image[low - 1] : NULL;
}

void remote_images_free(struct remote_images *images) {
  free(images->image);
  *images = (struct remote_images){.generation = 0};
}
