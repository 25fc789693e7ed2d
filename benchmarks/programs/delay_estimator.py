"""The estimator of the Scalene papers, for comparison: Python or native time from the delay of a signal.

After Berger, "Scalene: Scripting-Language Aware Profiling for Python" (2020, arXiv:2006.03879; its part on CPU
profiling of the main thread) and Berger, Stern and Altmayer Pizzorno, "Triangulating Python Performance Issues with
Scalene" (OSDI 2023; same part). The interpreter runs a Python signal handler between bytecodes only, so a signal that
arrives during a native call waits for its end. With a timer of interval q on CPU time and T the CPU time since the
handler ran last, q is counted as Python time and T - q as native time, both on the line that the handler finds.

``delay_estimator.py RESULT Q_SECONDS program.py [ARGS...]`` writes ``[[file, function, line, python_s, native_s]]``.
"""

import json
import pathlib
import runpy
import signal
import sys
import time

found = {}
last = 0.0
q = 0.01


def handler(_, frame):
    global last
    now = time.process_time()
    elapsed, last = now - last, now
    key = (frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno)
    python_s, native_s = found.get(key, (0.0, 0.0))
    found[key] = (python_s + q, native_s + max(0.0, elapsed - q))


def main():
    global last, q
    result, q = pathlib.Path(sys.argv[1]), float(sys.argv[2])
    sys.argv = sys.argv[3:]
    sys.path.insert(0, str(pathlib.Path(sys.argv[0]).parent))
    signal.signal(signal.SIGVTALRM, handler)
    last = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, q, q)
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        result.write_text(json.dumps([[*key, *value] for key, value in found.items()]))


main()
