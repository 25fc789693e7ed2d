"""Children that end in all ways, and waits of all kinds for them. Prints what the waits return.

Each child holds a block of 5 MB and uses 0.05 s of CPU time; its pid is known by the order of the forks.
"""

import os
import resource
import signal
import subprocess
import sys
import time


def child(end):
    sys.stdout.flush()
    if pid := os.fork():
        return pid
    block = bytearray(5_000_000)
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    end(len(block))
    os._exit(99)


def kills(number):
    return lambda _: os.kill(os.getpid(), number)


def exits(status):
    return lambda _: os._exit(status)


def shell(_):
    os.execv("/bin/sh", ["sh", "-c", "exit 6"])


def of(result, pid):
    """The result of a wait, without the pid and the usage."""
    return result[0] == pid, result[1], result[2].ru_maxrss > 5000 if len(result) > 2 else None


waits = {
    "waitpid": lambda pid: of(os.waitpid(pid, 0), pid),
    "wait": lambda pid: of(os.wait(), pid),
    "wait3": lambda pid: of(os.wait3(0), pid),
    "wait4": lambda pid: of(os.wait4(pid, 0), pid),
    "waitid": lambda pid: (lambda info: (info.si_pid == pid, info.si_code, info.si_status))(
        os.waitid(os.P_PID, pid, os.WEXITED)
    ),
}
ends = [exits(3), exits(200), kills(signal.SIGKILL), kills(signal.SIGTERM), kills(signal.SIGSEGV), shell]
for name, wait in waits.items():
    for end in ends:
        print(name, wait(child(end)))

# What does not reap leaves the child to the next wait; a stopped child has not ended.
pid = child(exits(4))
print("left", os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT).si_status, os.waitpid(pid, 0)[1])
pid = child(kills(signal.SIGSTOP))
stopped = os.waitpid(pid, os.WUNTRACED)[1]
print("stopped", os.WIFSTOPPED(stopped), os.waitpid(pid, os.WNOHANG))
os.kill(pid, signal.SIGCONT)
print("continued", os.waitpid(pid, 0)[1])
for call in (os.wait, lambda: os.waitpid(pid, 0), lambda: os.wait3(0), lambda: os.waitid(os.P_ALL, 0, os.WEXITED)):
    try:
        call()
    except ChildProcessError as error:
        print("none", error.errno)
print(subprocess.run([sys.executable, "-c", "raise SystemExit(9)"]).returncode, os.system("exit 4"))
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime > 1)
