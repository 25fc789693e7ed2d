/* Attributes of an instance of a Python class, read from memory. */
#ifndef SCALENE_TRACE_OBJECTS_INSTANCES_H
#define SCALENE_TRACE_OBJECTS_INSTANCES_H

#include "shared/base.h"
#include "shared/stacks/pylayout.h"

#pragma GCC visibility push(hidden)

#define INSTANCE_NAME 24 /* the longest name of an attribute that can be found */
/* Stores the addresses of the `count` attributes with these names (0 = the instance has none of that name). False =
 * the object does not seem to be an instance of a Python class. Whoever writes to the memory in the meantime may cause
 * any result, but no fault. Context: signal. */
bool instance_attributes(const struct python_layout *layout, uintptr_t object, const char *const *names, int count,
                         uintptr_t *values);
/* Returns tp_flags of the type of the object at `object`; 0 = it does not seem to have a type. Context: signal. */
uint64_t instance_type_flags(uintptr_t object);

#pragma GCC visibility pop

#endif
