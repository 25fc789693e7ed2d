"""A burst of 500 MB that is freed, then 50 KB a second, kept, for four seconds."""

import time

burst = [bytes(1_000_000) for _ in range(500)]
del burst
kept = []
for _ in range(80):
    kept.append(bytearray(2500))
    time.sleep(0.05)
