"""Blocks whose sizes count them, each published in a shared file once it is there, by a program and its child.

``progress.py FILE``: the file holds four numbers of 8 bytes, how many blocks were made and the pid, of each of the two.
"""

import mmap
import os
import sys
import time

FIRST_BYTES = (100_003, 200_003)  # of block 0 of the program and of its child
BLOCKS = 1500


def publish(shared, who):
    at = 16 * who
    shared[at + 8 : at + 16] = os.getpid().to_bytes(8, "little")
    for number in range(1, BLOCKS + 1):
        block = bytearray(FIRST_BYTES[who] + number - 1)  # one byte more is allocated
        shared[at : at + 8] = number.to_bytes(8, "little")
        del block
        if number % 10 == 0:
            time.sleep(0.003)


with open(sys.argv[1], "r+b") as file:
    shared = mmap.mmap(file.fileno(), 32)
child = os.fork()
publish(shared, int(child == 0))
if child:
    os.waitpid(child, 0)
