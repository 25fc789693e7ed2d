"""600 MB of small objects, all alive at the end. A ``bytes`` of 111 takes 144, which is a size class of pymalloc."""

import json

COUNT = 4_166_667


def build():
    keep = [None] * COUNT
    for i in range(COUNT):
        keep[i] = bytes(111)  # LINE: objects
    return keep


kept = build()
print(json.dumps({"objects": len(kept), "bytes": 144 * len(kept)}))
