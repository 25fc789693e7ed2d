"""Starts Python in every way, mostly with an environment that holds nothing of the recorder's.

Each process prints ``WAY PID VARIABLES``, with the names of the recorder's variables that it can see. ``last`` as first
argument: says so and ends.
"""

import ctypes
import os
import shutil
import subprocess
import sys

PATH = {"PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")}
NAME = os.path.basename(sys.executable)
SELF = os.path.abspath(__file__)
RUNS = {
    "execv": lambda a: os.execv(a[0], a),
    "execve": lambda a: os.execve(a[0], a, {}),
    "execl": lambda a: os.execl(a[0], *a),
    "execle": lambda a: os.execle(a[0], *a, {}),
    "execvpe": lambda a: os.execvpe(NAME, a, PATH),
    "fexecve": lambda a: os.execve(os.open(a[0], os.O_RDONLY), a, {}),
    "after_a_failure": lambda a: after_a_failure(a),
    "libc_execl": lambda a: libc_execl(a),
    "large_environment": lambda a: os.execve(a[0], a, {f"V{i}": "x" for i in range(3001)}),
}


def after_a_failure(words):
    try:
        os.execve("/nowhere", words, {})
    except FileNotFoundError:
        os.execve(words[0], words, {"LD_PRELOAD": ""})


def libc_execl(words):
    os.environ.clear()
    ctypes.CDLL(None).execl(words[0].encode(), *[word.encode() for word in words], None)


def words(way):
    return [sys.executable, "-S", SELF, "last", way]


def say(way):
    variables = [name for name in ("LD_PRELOAD", "SCALENE_TRACE_SPOOL") if name in os.environ]
    print(way, os.getpid(), ",".join(variables), flush=True)


def by_fork_and_exec():
    for way, run in RUNS.items():
        pid = os.fork()
        if pid == 0:
            run(words(way))
        os.waitpid(pid, 0)


def by_subprocess():
    subprocess.run(words("run"), check=True, env={})
    subprocess.run(words("run_spawned"), check=True, env={}, close_fds=False)
    subprocess.run([NAME, *words("run_path")[1:]], check=True, env=PATH)
    subprocess.run(words("run_preexec"), check=True, env={}, preexec_fn=os.getpid)
    subprocess.run([shutil.which("env"), "-i", *words("env_i")], check=True)
    subprocess.run(f"unset LD_PRELOAD; '{sys.executable}' -S '{SELF}' last shell", shell=True, check=True)


def by_spawn():
    os.waitpid(os.posix_spawn(sys.executable, words("posix_spawn"), {}), 0)
    os.waitpid(os.posix_spawnp(NAME, words("posix_spawnp"), PATH), 0)


def main():
    if sys.argv[1:2] == ["last"]:
        say(sys.argv[2])
        return
    by_fork_and_exec()
    by_subprocess()
    by_spawn()
    os.system(" ".join(f"'{word}'" for word in words("system")))
    say("first")
    os.execve(sys.executable, words("last"), {})


main()
