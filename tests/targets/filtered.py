"""Allows only what CPython needs for the rest, by a seccomp filter that kills, and works on: ``filtered.py``."""

import sys
import threading
import time

import bpf

#: read write close fstat poll lseek mmap mprotect munmap brk rt_sigaction rt_sigprocmask rt_sigreturn mremap madvise
#: select pselect6 clone exit gettid futex exit_group openat newfstatat clock_nanosleep set_robust_list getrandom rseq clone3
#: (and what reads of files need: ioctl, getdents64, stat, access).
ALLOWED = [
    0,
    1,
    3,
    5,
    7,
    8,
    9,
    10,
    11,
    12,
    13,
    14,
    15,
    25,
    28,
    23,
    56,
    60,
    186,
    202,
    231,
    257,
    262,
    230,
    273,
    318,
    334,
    435,
]
#: 3.14 names threads (prctl), and asks for the bounds of their stacks, for which libc calls sched_getaffinity.
ALLOWED += [16, 217, 4, 21, 270, 157, 204]


def work(rounds):
    kept = []
    for i in range(rounds):
        kept.append(bytearray(i % 50000))
        try:
            raise ValueError(str(i))
        except ValueError as error:
            kept.append(repr(error) * 10)
        if i % 100 == 0:
            kept.clear()
    return sum(map(hash, range(rounds)))


def main():
    other = threading.Thread(target=work, args=(20000,))
    other.start()
    work(5000)
    bpf.install(bpf.by_number(ALLOWED, bpf.ALLOW, bpf.KILL_PROCESS))
    work(20000)
    other.join()
    threads = [threading.Thread(target=work, args=(1000,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(0.01)
    print("done", work(1000))
    sys.exit(7)


main()
