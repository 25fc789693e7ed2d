"""Uses a scripted device (tests/support/standins/scripted_nvml.c): says in its script what it does there, and does it. No GPU is there."""

import json
import os
import subprocess
import sys
import threading
import time

SCRIPT = os.environ["SCRIPTED_NVML"]
MIB = 1 << 20
watches = {}
over = threading.Event()


def say(what, value, device=0, pid=None):
    """One event of the script, from now on."""
    line = f"{time.time_ns() // 1000} {device} {os.getpid() if pid is None else pid} {what} {value}\n"
    script = os.open(SCRIPT, os.O_WRONLY | os.O_APPEND)
    os.write(script, line.encode())
    os.close(script)


def busy(percent, call):
    """The device is busy while ``call`` runs: how many seconds of kernels that were."""
    start = time.time()
    say("busy", percent)
    call()
    say("busy", 0)
    return (time.time() - start) * percent / 100


def settle():
    time.sleep(0.15)  # LINE: settle


def synchronize(seconds):
    time.sleep(seconds)  # LINE: synchronize


def half(seconds):
    time.sleep(seconds)  # LINE: half


def idle(seconds):
    time.sleep(seconds)  # LINE: idle


def grow(steps):
    for step in steps:
        say("memory", step)
        time.sleep(0.6)  # LINE: grow


def shrunk():
    time.sleep(0.5)  # LINE: shrunk


def compute():
    """Pure Python until it is over, in a thread of its own."""
    number = 0
    while not over.is_set():
        number = (number * 31 + 7) % 1_000_003  # LINE: background


def doze():
    over.wait()  # LINE: doze


def lines(seconds):
    """Busy on one line, idle on another, half busy on a third, steps of memory on a fourth."""
    say("memory", MIB)
    time.sleep(0.6)  # the recorder has much to do at first
    settle()
    watches["synchronize"] = busy(100, lambda: synchronize(seconds))
    idle(seconds)
    watches["half"] = busy(40, lambda: half(seconds))
    settle()
    grow([100 * MIB + 1, 300 * MIB + 7, 200 * MIB + 3])
    say("memory", 50 * MIB + 11)
    settle()
    shrunk()
    time.sleep(float(os.environ.get("AFTERWARDS_S", "0.4")))


def beside(seconds):
    """The same while another thread computes."""
    background = threading.Thread(target=compute)
    background.start()
    lines(seconds)
    over.set()
    background.join()


def spin(seconds):
    """In a library that is named as CUDA's is, while a thread rests beside."""
    import ctypes

    wait = ctypes.CDLL(os.environ["SPINNING_CUDA"]).cuCtxSynchronize
    wait.argtypes = [ctypes.c_ulong]
    resting = threading.Thread(target=doze)
    resting.start()
    settle()
    watches["spin"] = busy(100, lambda: spinning(wait, seconds))
    idle(0.5)
    over.set()
    resting.join()


def spinning(wait, seconds):
    wait(round(seconds * 1e3))  # LINE: spin


def share(seconds):
    """This process and another one on the device at the same time."""
    child = subprocess.Popen([sys.executable, __file__, "child", str(seconds)], stdout=subprocess.PIPE)
    child.stdout.readline()
    settle()
    say("memory", 111 * MIB)
    watches["pid"] = os.getpid()
    watches["synchronize"] = busy(30, lambda: synchronize(seconds))
    watches["child"] = json.loads(child.communicate()[0].splitlines()[-1])
    idle(0.4)


def child(seconds):
    print("here", flush=True)
    settle()
    say("memory", 222 * MIB)
    watches["pid"] = os.getpid()
    watches["half"] = busy(60, lambda: half(seconds))
    idle(0.5)


def fail(seconds, code):
    """The device fails in the middle, and for good."""
    settle()
    watches["synchronize"] = busy(100, lambda: synchronize(seconds))
    settle()
    settle()
    say("fault", code, pid=0)
    watches["half"] = busy(100, lambda: half(seconds))
    watches["says"] = "done"


def recover(seconds, code):
    """The device fails for a moment."""
    settle()
    watches["synchronize"] = busy(100, lambda: synchronize(seconds))
    settle()
    say("fault", code, pid=0)
    settle()
    say("fault", 0, pid=0)
    watches["half"] = busy(100, lambda: half(seconds))
    idle(0.4)


def forever():
    say("memory", 7 * MIB)
    say("busy", 100)
    print(json.dumps({"pid": os.getpid()}), flush=True)
    time.sleep(600)  # LINE: forever


def instance(seconds):
    """The first MIG instance of the first device."""
    settle()
    say("memory", 77 * MIB, device=100)
    synchronize(seconds)


scenario, *words = sys.argv[1:]
globals()[scenario](*map(float, words))
print(json.dumps(watches))
