"""Process trees. Every process works for the same CPU time and reports its pid and its CPU seconds to a file.

Prints the list of reports, the parent's own included.
"""

import concurrent.futures
import json
import multiprocessing
import os
import shlex
import subprocess
import sys
import tempfile
import time


def work(seconds):
    end = time.thread_time() + seconds
    x = 1
    while time.thread_time() < end:
        for i in range(20_000):
            x = (x * 31 + i) & 0xFFFFFF  # LINE: work


def child(seconds, folder):
    start = time.process_time()
    work(seconds)
    with open(os.path.join(folder, f"{os.getpid()}-{time.monotonic_ns()}"), "w") as file:
        json.dump({"pid": os.getpid(), "work_s": time.process_time() - start}, file)


def by_fork(seconds, folder):
    pids = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            child(seconds, folder)
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)


def by_pool(method, seconds, folder):
    with multiprocessing.get_context(method).Pool(3) as pool:
        pool.starmap(child, [(seconds, folder)] * 6)
        pool.close()
        pool.join()


def by_futures(seconds, folder):
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        for done in [pool.submit(child, seconds, folder) for _ in range(4)]:
            done.result()


def by_shell(seconds, folder):
    command = shlex.join(again(seconds, folder))
    subprocess.run(f"{command} & {command}; wait", shell=True, check=True)


def by_daemon(seconds, folder):
    """A daemon as the textbook makes it: its parent is gone, its session its own."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            child(seconds, folder)
        os._exit(0)
    os.wait()
    while not os.listdir(folder):
        time.sleep(0.02)
    time.sleep(0.1)


def again(seconds, folder):
    return [sys.executable, os.path.abspath(__file__), "child", str(seconds), folder]


def main():
    how, seconds = sys.argv[1], float(sys.argv[2])
    if how == "child":
        child(seconds, sys.argv[3])
        return
    folder = tempfile.mkdtemp() if len(sys.argv) < 4 else sys.argv[3]
    if how == "exec" and len(sys.argv) < 4:
        child(seconds, folder)
        os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), "exec", str(seconds), folder])
    if how == "fork":
        by_fork(seconds, folder)
    elif how == "subprocess":
        subprocess.run(again(seconds, folder), check=True)
        subprocess.run(again(seconds, folder), check=True, env={"PATH": os.environ["PATH"]})
    elif how in ("futures", "shell", "daemon"):
        {"futures": by_futures, "shell": by_shell, "daemon": by_daemon}[how](seconds, folder)
    elif how in ("pool-fork", "pool-spawn", "pool-forkserver"):
        by_pool(how.split("-")[1], seconds, folder)
    child(seconds, folder)
    reports = []
    for name in os.listdir(folder):
        with open(os.path.join(folder, name)) as file:
            reports.append(json.load(file))
        os.unlink(os.path.join(folder, name))
    os.rmdir(folder)
    print(json.dumps(reports))


if __name__ == "__main__":
    main()
