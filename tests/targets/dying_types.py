"""3,000 classes with three objects each, dying in turn, so that addresses of classes and of their names are used again."""

import gc
import json

objects = 0
for number in range(3000):
    made = type(f"Dying{number:05}", (), {"__slots__": ("a", "b")})
    kept = [made(), made(), made()]
    objects += len(kept)
    del made, kept
    if number % 50 == 0:
        gc.collect()
print(json.dumps({"objects": objects}))
