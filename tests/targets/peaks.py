"""Two processes that hold so many bytes each for half a second: together, or one after the other ("in turn")."""

import os
import sys
import time


def hold(size, is_late):
    if is_late:
        time.sleep(1)
    block = b"x" * size
    time.sleep(0.5)
    del block
    time.sleep(0 if is_late else 1)


is_in_turn, size = sys.argv[1] == "in turn", int(sys.argv[2])
for number in range(2):
    if os.fork() == 0:
        hold(size, is_in_turn and number == 1)
        os._exit(0)
for _ in range(2):
    os.wait()
