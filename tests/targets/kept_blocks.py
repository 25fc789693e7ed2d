"""Large blocks that are kept after a loop that copies gigabytes, in the process and in a forked child, and a line that keeps
less than a sample stands for."""

import os
import sys

text, part = "", "x" * 50_000
for _ in range(400):
    text += part  # LINE: copied
arrays = []
for _ in range(5):
    arrays.append(bytearray(40_000_000))  # LINE: arrays
once = bytearray(61_000_000)  # LINE: once
few = [bytes(400) for _ in range(9)]  # LINE: few
child = os.fork()
if not child:
    received = [bytearray(50_000_000) for _ in range(2)]  # LINE: received
    sys.exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
