"""Takes rights away from this process as services, containers and daemons do, and then runs a program.

``restrict.py WAY[,WAY…] [here] [WORDS…]``: each WAY names a function below. ``here`` does the work of ``limited_work.py`` in
this same process, then the words are executed. Exit status 77: this system cannot do that.
"""

import ctypes
import os
import resource
import struct
import sys

import limited_work
from bpf import ALLOW, ENOSYS, EPERM, JUMP_BITS, JUMP_EQUAL, LOAD, RETURN, SET_NO_NEW_PRIVS, install, instruction

LIBC = ctypes.CDLL(None, use_errno=True)
NOBODY = 65534
NEW_NAMESPACE = 0x20000
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 32, 4096, 16384, 1 << 18
DROP_BOUND, SET_MDWE, CAPSET = 24, 65, 126
KIB, MIB = 1024, 1 << 20


def checked(result, what):
    if result != 0:
        print(f"{what}: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        os._exit(77)


def prctl(option, value=0, address=None):
    zero = ctypes.c_ulong(0)
    return LIBC.prctl(option, ctypes.c_ulong(value), address or zero, zero, zero)


def limit(name, value):
    number = getattr(resource, "RLIMIT_" + name)
    resource.setrlimit(number, (value, value))


def mount(source, target, kind, flags, data=None):
    words = [each.encode() if each else None for each in (source, target, kind)]
    return LIBC.mount(*words, ctypes.c_ulong(flags), data.encode() if data else None)


def own_mounts():
    checked(LIBC.unshare(NEW_NAMESPACE), "unshare")
    checked(mount(None, "/", None, RECURSIVE | PRIVATE), "private mounts")


def ancestors(path):
    while path != "/":
        yield path
        path = os.path.dirname(path)


def open_interpreters():
    """Where other users may not enter the folder that the interpreters are in (root's own), it is covered by one that holds
    nothing else."""
    inner = sys.base_prefix
    for path in ancestors(sys.base_prefix):
        if os.stat(path).st_mode & 1:
            inner = path
            continue
        own_mounts()
        inside = os.open(inner, os.O_PATH)
        checked(mount("tmpfs", path, "tmpfs", 0, "mode=755"), "cover")
        os.mkdir(inner)
        checked(mount(f"/proc/self/fd/{inside}", inner, None, BIND | RECURSIVE), "bind")
        os.close(inside)


# ---- as systemd does ----


def no_new_privileges():
    checked(prctl(SET_NO_NEW_PRIVS, 1), "no_new_privs")


def memory_deny_write_execute():
    checked(prctl(SET_MDWE, 1), "MDWE")


def private_tmp():
    own_mounts()
    checked(mount("tmpfs", "/tmp", "tmpfs", 0), "tmpfs")


def read_only_files():
    """All of them but the folder that OPEN_FOLDER names."""
    own_mounts()
    with open("/proc/self/mounts") as file:
        points = [line.split()[1] for line in file]
    kept = os.environ.get("OPEN_FOLDER")
    if kept:
        checked(mount(kept, kept, None, BIND), "bind")
    for point in points:
        mount(None, point, None, REMOUNT | BIND | READ_ONLY)
    os.chdir(os.getcwd())  # the path leads to the new mount


def address_space():
    limit("AS", 1024 * MIB)


def few_descriptors():
    limit("NOFILE", 64)


def no_locked_memory():
    limit("MEMLOCK", 0)


def no_core():
    limit("CORE", 0)


def small_files():
    limit("FSIZE", 64 * KIB)


def no_files():
    limit("FSIZE", 0)


def small_stack():
    limit("STACK", 256 * KIB)


def little_data():
    limit("DATA", 1024 * MIB)


def no_signals():
    limit("SIGPENDING", 0)


def become(user):
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def ordinary_user():
    open_interpreters()
    become(NOBODY)


def no_processes():
    ordinary_user()
    limit("NPROC", 0)


def no_capabilities():
    """Of root: it stays the owner of files."""
    for number in range(64):
        prctl(DROP_BOUND, number)
    header, sets = struct.pack("Ii", 0x20080522, 0), bytes(24)
    checked(LIBC.syscall(CAPSET, header, sets), "capset")


# ---- as careless starters do ----


def mask_of_files():
    os.umask(0o777)


def mask_of_files_of_a_user():
    ordinary_user()
    os.umask(0o777)


def closed_input():
    os.close(0)


def closed_output():
    os.close(1)


def closed_errors():
    os.close(2)


def all_closed():
    os.closerange(0, 3)


def no_folder():
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir("../gone")


def no_home():
    os.environ.pop("HOME", None)


def no_temporary_files():
    os.environ["TMPDIR"] = "/proc/nowhere"


def no_environment():
    for name in list(os.environ):
        if not name.startswith(("LD_PRELOAD", "SCALENE", "WORK_")):
            del os.environ[name]


# ---- as daemons do, once they have what they need ----


def in_child():
    """What follows happens in a forked child; this process ends as the child does."""
    pid = os.fork()
    if pid:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)


def separated():
    """As the child of sshd that talks to strangers."""
    os.chroot(os.environ.get("EMPTY_FOLDER", "/proc/self/fdinfo"))
    os.chdir("/")
    become(NOBODY)
    no_new_privileges()
    for name in ("NOFILE", "FSIZE", "NPROC"):
        limit(name, 0)


# ---- as containers are run ----

#: System calls of x86-64 that Docker's default profile refuses to a container without capabilities: all that
#: seccomp/default.json of github.com/moby/profiles (commit cd3bed8, 2026-06-30) does not allow there.
REFUSED = (
    103,
    134,
    136,
    139,
    153,
    155,
    156,
    161,
    163,
    164,
    165,
    166,
    167,
    168,
    169,
    170,
    171,
    172,
    173,
    174,
    175,
    176,
    177,
    178,
    179,
    180,
    212,
    227,
    237,
    238,
    239,
    246,
    248,
    249,
    250,
    256,
    272,
    279,
    298,
    300,
    304,
    308,
    312,
    313,
    320,
    321,
    323,
    425,
    426,
    427,
    428,
    429,
    430,
    431,
    432,
    433,
    438,
    440,
    442,
    443,
    450,
)
CLONE, CLONE3, SOCKET, VSOCK, CLONE_NAMESPACES = 56, 435, 41, 40, 0x7E020000


def filter_of(refused):
    """Loads the number, then compares it; each comparison is followed by what it leads to."""
    code = [instruction(LOAD, 0, 0, 0)]
    for number in refused:
        code += [instruction(JUMP_EQUAL, 0, 1, number), instruction(RETURN, 0, 0, EPERM)]
    code += [instruction(JUMP_EQUAL, 0, 1, CLONE3), instruction(RETURN, 0, 0, ENOSYS)]
    for number, jump, value in ((CLONE, JUMP_BITS, CLONE_NAMESPACES), (SOCKET, JUMP_EQUAL, VSOCK)):
        code += [instruction(JUMP_EQUAL, 0, 4, number), instruction(LOAD, 0, 0, 16)]
        code += [instruction(jump, 0, 1, value), instruction(RETURN, 0, 0, EPERM), instruction(RETURN, 0, 0, ALLOW)]
    return [*code, instruction(RETURN, 0, 0, ALLOW)]


def docker_profile():
    try:
        install(filter_of(REFUSED))
    except OSError as error:
        checked(error.errno, "seccomp")


def container():
    """Root is read-only, /dev/shm has 64 MiB; user 1000 without capabilities, under Docker's profile."""
    read_only_files()
    checked(mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64m"), "shm")
    open_interpreters()
    become(1000)
    docker_profile()


for way in sys.argv[1].split(","):
    globals()[way]()
words = sys.argv[2:]
if words[0] == "here":
    limited_work.main()
    words = words[1:]
if words:
    os.execvp(words[0], words)
