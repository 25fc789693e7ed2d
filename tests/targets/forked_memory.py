"""A process that holds 7.5 MB forks five children that allocate 2.6 MB each, all below the threshold of a sample."""

import os

held = bytearray(7_500_000)
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        more = bytearray(2_600_000)
        os._exit(0)
    os.waitpid(pid, 0)
