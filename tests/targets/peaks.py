"""Two processes that hold so many bytes each for half a second: together, or one after the other ("in turn")."""

import os
import socket
import sys
import time


def hold(size, other, is_first, is_in_turn):
    """The processes wait for each other, however busy the machine is."""
    if is_in_turn and not is_first:
        other.recv(1)
    block = b"x" * size
    if not is_in_turn:
        other.send(b"x")
        other.recv(1)
    time.sleep(0.5)
    del block
    if is_in_turn:
        other.send(b"x")
    if is_in_turn and is_first:
        other.recv(1)


is_in_turn, size = sys.argv[1] == "in turn", int(sys.argv[2])
ends = socket.socketpair()
for number in range(2):
    if os.fork() == 0:
        ends[1 - number].close()
        hold(size, ends[number], number == 0, is_in_turn)
        os._exit(0)
for end in ends:
    end.close()  # so that a process that waits learns of the other's death
for _ in range(2):
    os.wait()
