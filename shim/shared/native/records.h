/* Records of images and of functions on native stacks. */
#ifndef SCALENE_TRACE_SHARED_NATIVE_RECORDS_H
#define SCALENE_TRACE_SHARED_NATIVE_RECORDS_H

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/native/image.h"

#pragma GCC visibility push(hidden)

/* Writes a module record; false = the spool has no room. Context: signal. */
bool native_write_image(const struct image *image, const char *path, uint32_t thread);
/* Returns the record of a function without its head and thread. Its hash depends on the content only, so it is equal in
 * all processes. Context: signal. */
struct record_native native_node(uint64_t parent, uint64_t image, uint64_t address, bool gap);
/* Writes it; false = no chunk is available. Context: signal. */
bool native_write_node(const struct record_native *node, uint32_t thread);

#pragma GCC visibility pop

#endif
