/* Attributes of an instance of a Python class, read from memory. */
#ifndef SCALENE_TRACE_OBJECTS_INSTANCES_H
#define SCALENE_TRACE_OBJECTS_INSTANCES_H

#include "shared/base.h"
#include "shared/objects/reads.h"
#include "shared/stacks/pylayout.h"

#pragma GCC visibility push(hidden)

#define INSTANCE_NAME 24  /* the longest name of an attribute that can be found */
#define INSTANCE_VALUES 3 /* attributes that can be found at once */
#define INSTANCE_WORDS 12

/* Words that lead from an instance to its attributes, of which the last are the attributes themselves, in the order of
 * their names. As long as they are the same, so are the attributes. */
struct instance_path {
  uint32_t count;
  uintptr_t at[INSTANCE_WORDS], word[INSTANCE_WORDS];
};

/* Stores the addresses of the `count` attributes with these names (0 = the instance has none of that name), and the path
 * to them. False = the object does not seem to be an instance of a Python class. Whoever writes to the memory in the
 * meantime may cause any result, but no fault. Uses `reads`, and discards what is in it. Context: signal. */
bool instance_attributes(const struct python_layout *layout, uintptr_t object, const char *const *names, int count,
                         uintptr_t *values, struct instance_path *path, struct reads *reads);
/* Adds the words of the path to what will be read. Context: signal. */
void instance_path_add(const struct instance_path *path, struct reads *reads);
/* True if the words that were read are those of the path. Context: signal. */
bool instance_path_same(const struct instance_path *path, struct reads *reads);
/* Adds tp_flags of a type to what will be read. Context: signal. */
void instance_type_add(uintptr_t type, struct reads *reads);
/* Returns tp_flags of the type of the object at `object`; 0 = it does not seem to have a type. Stores the type.
 * Context: signal. */
uint64_t instance_type_flags(struct reads *reads, uintptr_t object, uintptr_t *type);

#pragma GCC visibility pop

#endif
