-- The name of a system call of x86-64 in which threads wait; others have their number as text.
CREATE OR REPLACE TEMP MACRO syscall_name(number) AS coalesce(MAP {
    0: 'read', 1: 'write', 2: 'open', 3: 'close', 4: 'stat', 7: 'poll', 9: 'mmap', 11: 'munmap', 16: 'ioctl',
    17: 'pread64', 18: 'pwrite64', 19: 'readv', 20: 'writev', 23: 'select', 24: 'sched_yield', 26: 'msync',
    28: 'madvise', 34: 'pause', 35: 'nanosleep', 40: 'sendfile', 42: 'connect', 43: 'accept', 44: 'sendto',
    45: 'recvfrom', 46: 'sendmsg', 47: 'recvmsg', 56: 'clone', 58: 'vfork', 59: 'execve', 61: 'wait4', 65: 'semop',
    70: 'msgrcv', 72: 'fcntl', 73: 'flock', 74: 'fsync', 75: 'fdatasync', 82: 'rename', 87: 'unlink', 101: 'ptrace',
    128: 'rt_sigtimedwait', 130: 'rt_sigsuspend', 149: 'mlock', 162: 'sync', 196: 'flistxattr', 202: 'futex',
    208: 'io_getevents', 217: 'getdents64', 219: 'restart_syscall', 220: 'semtimedop', 230: 'clock_nanosleep',
    231: 'exit_group', 232: 'epoll_wait', 243: 'mq_timedreceive', 247: 'waitid', 257: 'openat', 262: 'newfstatat',
    270: 'pselect6', 271: 'ppoll', 275: 'splice', 281: 'epoll_pwait', 288: 'accept4', 295: 'preadv', 296: 'pwritev',
    299: 'recvmmsg', 310: 'process_vm_readv', 318: 'getrandom', 323: 'userfaultfd', 326: 'copy_file_range',
    426: 'io_uring_enter', 441: 'epoll_pwait2', 449: 'futex_waitv'
}[number], 'system call ' || number);
