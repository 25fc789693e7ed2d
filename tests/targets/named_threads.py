"""Starts threads with names of every kind and says what Python calls them, by the system's ids. With an argument it ends
while two daemon threads run: by a signal of that name, or by _exit."""

import json
import os
import signal
import sys
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor

last = {}


def rest(seconds=0.02):
    last[threading.get_native_id()] = threading.current_thread()
    time.sleep(seconds)


def rename(*names):
    rest(0)
    for name in names:
        threading.current_thread().name = name
        time.sleep(0.03)


class Starting(threading.Thread):
    """Its attributes come before those of the base class, and it has a start of its own."""

    def __init__(self, **options):
        self.before = self._before = 1
        super().__init__(**options)

    def start(self):
        self.after = 1
        super().start()


class Crowded(threading.Thread):
    """Has too many attributes for the keys that its type shares."""

    def __init__(self, **options):
        for number in range(60):
            setattr(self, f"a{number}", number)
        super().__init__(**options)
        del self.a7


class Slotted(threading.Thread):
    __slots__ = ("a", "b")


class Mixed(types.SimpleNamespace, threading.Thread):
    """The dict is where a base class that is written in C has it."""

    __hash__, __eq__ = object.__hash__, object.__eq__

    def __init__(self, **options):
        threading.Thread.__init__(self, **options)


class Text(str):
    pass


class Directly(threading.Thread):
    """Its name is neither a str nor set by the base class."""

    def __init__(self, **options):
        super().__init__(**options)
        self._name = Text("w\xe4rme as text")


def all_kinds():
    found = [threading.Thread(target=rest, name="fetcher"), threading.Thread(target=rest), threading.Timer(0.01, rest)]
    found += [kind(target=rest, name=kind.__name__) for kind in (Starting, Crowded, Slotted, Mixed)]
    found += [
        threading.Thread(target=rename, args=("one", "two")),
        threading.Thread(target=rest, args=(0,), name="brief"),
    ]
    names = ("", "w\xe4rme", "\u6e29\u5ea6", "\U0001f321 ok", "\udc80", "a\x1b[31m\nb\0c", "long" * 100)
    found += [threading.Thread(target=rest, name=name) for name in names]
    found.append(threading.Thread(target=rest, name="as dict"))
    vars(found[-1])["more"] = 1
    found.append(Directly(target=rest))
    return found


def main():
    threads = all_kinds()
    for each in threads:
        each.start()
    with ThreadPoolExecutor(2, "pool") as pool:
        list(pool.map(rest, [0.02] * 4))
    for each in threads:
        each.join()
    for name in ("daemon", "renamed daemon"):
        threading.Thread(target=rest, args=(100,), name=name, daemon=True).start()
    time.sleep(0.05)
    threading.enumerate()[-1].name = "other name"
    how = sys.argv[1] if len(sys.argv) > 1 else "return"
    time.sleep(0.3 if how == "return" else 2)  # in which a busy machine lets the watcher see the rename
    print(json.dumps({str(tid): thread.name for tid, thread in last.items()}), flush=True)
    if how == "_exit":
        os._exit(0)
    if how != "return":
        os.kill(os.getpid(), getattr(signal, how))


main()
