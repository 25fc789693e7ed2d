"""Prints everything about itself that a profiler might change, on stdout and stderr."""

import json
import locale
import multiprocessing
import os
import signal
import sys
import threading

main = sys.modules["__main__"]
facts = {
    "argv": sys.argv,
    "orig_argv": sys.orig_argv,
    "flags": repr(sys.flags),
    "executable": sys.executable,
    "prefix": sys.prefix,
    "path": sys.path,
    "modules": sorted(sys.modules),
    "meta_path": [repr(type(each)) + getattr(each, "__name__", "") for each in sys.meta_path],
    "main": {name: repr(getattr(main, name, None)) for name in ("__name__", "__file__", "__package__", "__doc__")},
    "main_names": sorted(vars(main)),
    "handlers": {int(number): repr(signal.getsignal(number)) for number in sorted(signal.valid_signals())},
    "blocked": sorted(int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "threads": [thread.name for thread in threading.enumerate()],
    "tasks": len(os.listdir("/proc/self/task")),
    "trace": [repr(sys.gettrace()), repr(sys.getprofile())],
    "hooks": [repr(sys.excepthook), repr(sys.unraisablehook), repr(threading.excepthook)],
    "locale": [locale.setlocale(locale.LC_ALL), sys.getfilesystemencoding(), sys.stdout.encoding],
    "start_method": multiprocessing.get_start_method(),
    "stdin": [sys.stdin.isatty(), sys.stdin.read()],
    "umask": os.umask(0o22),
    "cwd": os.getcwd(),
    "switch_interval": sys.getswitchinterval(),
    "recursion_limit": sys.getrecursionlimit(),
}
print("some words for stderr", file=sys.stderr)
print(json.dumps(facts, indent=1))
