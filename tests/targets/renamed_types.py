"""A class that is renamed twice before each batch of objects: the second name may lie where that of the batch before did.
Prints how many names there are, and how many objects have each."""

import json

NAMES = 100
BATCH = 20
kept = []


class Before:
    __slots__ = ("a", "b")


def make():
    """The type of an object is read some allocations later: others follow, so that all are read under this name."""
    kept.extend(Before() for _ in range(BATCH))
    kept.extend(object() for _ in range(BATCH))


for number in range(NAMES):
    Before.__name__ = f"Unused{number:04}"
    Before.__name__ = f"Renamed{number:04}"
    make()
print(json.dumps({"names": NAMES, "batch": BATCH}))
