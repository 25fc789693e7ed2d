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

#define MAX_IMAGES 4096
#define MAX_LIBRARIES 4096
#define WRITTEN 4096

static struct loaded_library library;
static uint64_t written[WRITTEN]; /* ids of images whose record was written last in each place */

static void note(const struct image *image) {
  uint64_t *place = &written[image->id % WRITTEN];
  if (*place == image->id) return;
  if (native_write_image(image, library.path, 0)) *place = image->id;
}

/* Returns how many images begin at or before `address`. */
static int count_before(const struct remote_images *images, uintptr_t address) {
  int low = 0, high = images->count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (images->image[middle].start <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

static void add_image(struct remote_images *images, const struct image *image) {
  if (image->end <= image->start) return;
  int at = count_before(images, image->start), left = images->count++ - at;
  struct image *place = &images->image[at];
  if ((at > 0 && place[-1].end > image->start) || (left && place->start < image->end)) images->overlaps = true;
  memmove(place + 1, place, (size_t)left * sizeof *place);
  *place = *image;
  note(image);
}

/* The path is that of a process which may have become another one; the reads after it prove that it has not. */
static void name_main_program(pid_t pid) {
  char path[32];
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  ssize_t length = readlink(path, library.path, sizeof library.path - 1);
  library.path[length < 0 ? 0 : length] = 0;
}

/* Reads the entry at `at`; false = it is not readable. */
static bool read_entry(struct remote_images *images, pid_t pid, uintptr_t at) {
  bool first = !images->last_link;
  struct image image;
  if (first) name_main_program(pid);
  if (!library_read(&library, at, first ? &images->source : NULL)) return false;
  for (int segment = 0; segment < library.segments && images->count < MAX_IMAGES; segment++) {
    if (library_image(&library, segment, first, &images->source, &image)) add_image(images, &image);
  }
  images->last_place = first ? images->source.list : images->last_link + offsetof(struct link_map, l_next);
  images->last_link = at;
  images->libraries++;
  return true;
}

/* Reads the entries from `at` on. */
static bool read_entries(struct remote_images *images, pid_t pid, uintptr_t at) {
  for (; at && images->count < MAX_IMAGES && images->libraries < MAX_LIBRARIES; at = library.next) {
    if (!read_entry(images, pid, at)) return false;
  }
  images->cut = at || images->count >= MAX_IMAGES;
  return true;
}

static bool read_all(struct remote_images *images, pid_t pid, const struct image_source *source) {
  static uint64_t generations;
  struct image *image = images->image ? images->image : malloc(MAX_IMAGES * sizeof *image);
  uintptr_t first;
  if (!image) return false;
  *images =
      (struct remote_images){.generation = ++generations, .source = *source, .given = images->given, .image = image};
  bool whole = safe_read(&first, (void *)source->list, sizeof first) && read_entries(images, pid, first);
  images->overlaps = false; /* so it is; a second time would not change it */
  return whole;
}

/* `known`: the source is that of the last time, and `last` and `next` were read: the last entry's place and what it holds. */
static bool bring_up_to_date(struct remote_images *images, pid_t pid, const struct image_source *source, bool known,
                             uintptr_t last, uintptr_t next) {
  if (known && images->cut) return true;
  known = known && last == images->last_link;
  if (known && read_entries(images, pid, next) && !images->overlaps) return true;
  if (read_all(images, pid, source)) return true;
  remote_images_free(images);
  return false;
}

static bool refresh_given(struct remote_images *images, pid_t pid) {
  uintptr_t now[2] = {0, 0};
  struct iovec piece[2] = {{(void *)images->last_place, sizeof now[0]},
                           {(void *)(images->last_link + offsetof(struct link_map, l_next)), sizeof now[1]}};
  bool known = images->last_link && (images->cut || safe_read_all(now, piece, 2)) &&
               memcmp(images->given, &images->source, sizeof images->source) == 0;
  return bring_up_to_date(images, pid, images->given, known, now[0], now[1]);
}

/* libc itself unloads libraries without the shim's notice. So the last entry counts only while the one before leads to it,
 * and the whole list is read again if what follows cannot be read, or lies where another library is known to be. */
bool remote_images_refresh(struct remote_images *images, pid_t pid, uintptr_t source) {
  struct {
    struct image_source source;
    uintptr_t last, next;
  } now = {.last = 0};
  struct iovec piece[3] = {{(void *)source, sizeof now.source},
                           {(void *)images->last_place, sizeof now.last},
                           {(void *)(images->last_link + offsetof(struct link_map, l_next)), sizeof now.next}};
  if (images->given) return refresh_given(images, pid);
  bool known = images->last_link && safe_read_all(&now, piece, images->cut ? 1 : 3);
  if (!known && !safe_read_all(&now, piece, 1)) return false;
  known = known && memcmp(&now.source, &images->source, sizeof now.source) == 0;
  return bring_up_to_date(images, pid, &now.source, known, now.last, now.next);
}

const struct image *remote_images_find(const struct remote_images *images, uintptr_t address) {
  int count = count_before(images, address);
  return count > 0 && address < images->image[count - 1].end ? &images->image[count - 1] : NULL;
}

void remote_images_free(struct remote_images *images) {
  free(images->image);
  *images = (struct remote_images){.given = images->given};
}
