"""The script by which an interpreter loads the library for attached processes."""

from __future__ import annotations

import os
import re
from pathlib import Path

#: What the interpreter runs. It runs pending signal handlers when a script begins, after calls, and where loops go back. If one
#: raised an exception there, the program would never get it. So there is no call but that of the library, which ends with an
#: ImportError. The rest is only run if the library was not reached. (Without the last line, the function and its namespace would
#: hold each other.)
#: A thread whose callback of dl_iterate_phdr is Python waits for the GIL with the lock that a first dlopen waits for. Where
#: there may be one, ctypes loads the library first, by a call without the GIL, and with the lock of imports, for which a fork
#: by Python waits: a child that is forked within dlopen could load nothing. Unpacking makes calls without looking for signals.
_SCRIPT = """\
import sys, _imp
def library(): pass
library.name, library.origin, library.parent = "scalene_attached", {library!a}, ""
result = {result!a}
sys._scalene_trace = result + {command!a}
try:
    if "_ctypes" in sys.modules:
        foreign = sys.modules["_ctypes"]
        own, = map(foreign.dlopen, (None,))
        dlopen, = map(foreign.dlsym, (own,), ("dlopen",))
        load = map(foreign.call_function, (dlopen,), (({path!a}, 2),))
        hold, free = iter(_imp.acquire_lock, None), iter(_imp.release_lock, None)
        try:
            *_, = hold
            *_, = load
        finally:
            *_, = free
    _imp.create_dynamic(library)
except BaseException as error:
    if "_scalene_trace" in sys.__dict__:
        del sys._scalene_trace
        import posix
        try:
            result = posix.open(result, {flags}, 0o600)
        except OSError:
            pass
        else:
            try:
                posix.write(result, f"it cannot load the library: {{error!a}}\\n".encode())
            finally:
                posix.close(result)
del library
"""
#: The result if a signal handler has raised an exception before the library was loaded.
AGAIN = "again"
#: What is run if the script ends with an exception, which is that of a handler of the program. The library raises it again
#: where the program was.
_INTERRUPTED = """\
import sys
sys._scalene_raised = sys.exc_info()[1]
if "_scalene_trace" in sys.__dict__:
    del sys._scalene_trace
    import posix
    result = posix.open({result!a}, {flags}, 0o600)
    posix.write(result, b"again\\n")
    posix.close(result)
"""
#: As the first call of PyRun_SimpleString shall leave ``__main__``, in which it runs, as it is, nothing is bound or looked up there.
#: A list is filled without looking for signals.
_RUN = '[*(lambda: 0).__builtins__["map"]((lambda: 0).__builtins__["exec"], ({source!a},), ({{}},))]'
#: How the file for the result is opened; a number, since there is little room for the text.
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_INDENTATION = re.compile(r"^ +", re.MULTILINE)
#: What a text for PyRun_SimpleString begins with.
MARK = b"#scalene-trace\n"


def script_for(library: Path, result: Path, command: str) -> str:
    """The script that lets the library carry out a command, whose result is written to the file ``result``."""
    names = {"library": str(library), "path": os.fsencode(library)}
    return _SCRIPT.format(result=str(result), command=f"\n{command}", flags=_FLAGS, **names)


def text_for(library: Path, result: Path, command: str) -> bytes:
    """The same for PyRun_SimpleString, which prints an exception and gives the program another one for it."""
    script, interrupted = script_for(library, result, command), _INTERRUPTED.format(result=str(result), flags=_FLAGS)
    script, interrupted = (_INDENTATION.sub(lambda found: found[0][::4], each) for each in (script, interrupted))
    text = f"try: {_RUN.format(source=script)}\nexcept: {_RUN.format(source=interrupted)}\n"
    return MARK + text.encode("ascii")
