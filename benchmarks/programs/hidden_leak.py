"""A leak beside temporaries: ``hidden_leak.py SECONDS TEMPORARY_BYTES PIECE_BYTES LEAK_BYTES_PER_S``.

Temporaries are made and dropped all the time, as fast as they can be. Prints what was leaked (bytes) and the seconds.
"""

import json
import sys
import time

seconds = float(sys.argv[1])
temporary, piece, rate = (int(text) for text in sys.argv[2:])
HEAD = sys.getsizeof(b"")
kept, pieces = [], 0
start, elapsed = time.monotonic(), 0.0
while elapsed < seconds:
    for _ in range(1_000_000 // temporary or 1):
        bytes(temporary)
    while pieces * piece < rate * elapsed:
        kept.append(bytes(piece - HEAD))  # LINE: leak
        pieces += 1
    elapsed = time.monotonic() - start
print(json.dumps({"leaked_bytes": pieces * piece, "seconds": elapsed}), flush=True)
