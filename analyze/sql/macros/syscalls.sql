-- The name of a system call in which threads wait, on a processor: aarch64 (as the setting `machine`), NULL = not known,
-- others = x86-64. Calls without a name have their number as text.
CREATE OR REPLACE TEMP MACRO syscall_name_on(number, machine) AS coalesce(CASE WHEN machine IS NULL THEN NULL
    WHEN machine = 'aarch64' THEN MAP {
        4: 'io_getevents', 13: 'flistxattr', 22: 'epoll_pwait', 25: 'fcntl', 29: 'ioctl', 32: 'flock', 56: 'openat',
        57: 'close', 61: 'getdents64', 63: 'read', 64: 'write', 65: 'readv', 66: 'writev', 67: 'pread64',
        68: 'pwrite64', 69: 'preadv', 70: 'pwritev', 71: 'sendfile', 72: 'pselect6', 73: 'ppoll', 76: 'splice',
        79: 'newfstatat', 81: 'sync', 82: 'fsync', 83: 'fdatasync', 94: 'exit_group', 95: 'waitid', 98: 'futex',
        101: 'nanosleep', 115: 'clock_nanosleep', 117: 'ptrace', 124: 'sched_yield', 128: 'restart_syscall',
        133: 'rt_sigsuspend', 137: 'rt_sigtimedwait', 183: 'mq_timedreceive', 188: 'msgrcv', 192: 'semtimedop',
        193: 'semop', 202: 'accept', 203: 'connect', 206: 'sendto', 207: 'recvfrom', 211: 'sendmsg', 212: 'recvmsg',
        215: 'munmap', 220: 'clone', 221: 'execve', 222: 'mmap', 227: 'msync', 228: 'mlock', 233: 'madvise',
        242: 'accept4', 243: 'recvmmsg', 260: 'wait4', 270: 'process_vm_readv', 278: 'getrandom', 282: 'userfaultfd',
        285: 'copy_file_range', 426: 'io_uring_enter', 441: 'epoll_pwait2', 449: 'futex_waitv'
    }[number]
    ELSE MAP {
        0: 'read', 1: 'write', 2: 'open', 3: 'close', 4: 'stat', 7: 'poll', 9: 'mmap', 11: 'munmap', 16: 'ioctl',
        17: 'pread64', 18: 'pwrite64', 19: 'readv', 20: 'writev', 23: 'select', 24: 'sched_yield', 26: 'msync',
        28: 'madvise', 34: 'pause', 35: 'nanosleep', 40: 'sendfile', 42: 'connect', 43: 'accept', 44: 'sendto',
        45: 'recvfrom', 46: 'sendmsg', 47: 'recvmsg', 56: 'clone', 58: 'vfork', 59: 'execve', 61: 'wait4', 65: 'semop',
        70: 'msgrcv', 72: 'fcntl', 73: 'flock', 74: 'fsync', 75: 'fdatasync', 82: 'rename', 87: 'unlink',
        101: 'ptrace', 128: 'rt_sigtimedwait', 130: 'rt_sigsuspend', 149: 'mlock', 162: 'sync', 196: 'flistxattr',
        202: 'futex', 208: 'io_getevents', 217: 'getdents64', 219: 'restart_syscall', 220: 'semtimedop',
        230: 'clock_nanosleep', 231: 'exit_group', 232: 'epoll_wait', 243: 'mq_timedreceive', 247: 'waitid',
        257: 'openat', 262: 'newfstatat', 270: 'pselect6', 271: 'ppoll', 275: 'splice', 281: 'epoll_pwait',
        288: 'accept4', 295: 'preadv', 296: 'pwritev', 299: 'recvmmsg', 310: 'process_vm_readv', 318: 'getrandom',
        323: 'userfaultfd', 326: 'copy_file_range', 426: 'io_uring_enter', 441: 'epoll_pwait2', 449: 'futex_waitv'
    }[number] END, 'system call ' || number);

-- The same on the processor of the traces, if all have the same; else, the number as text.
CREATE OR REPLACE TEMP MACRO syscall_name(number) AS syscall_name_on(number, getvariable('machine'));
