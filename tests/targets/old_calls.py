"""Calls every C function with one of the older calling conventions, and every type without ``tp_vectorcall``.

They are found by enumeration: functions of the modules that are built into the interpreter (and of those that are named
as arguments), methods of types, and types, of which the modules and ``object.__subclasses__()`` lead to all. Arguments
are found by trying values; each callable is tried in a child of its own, with limits, so that a crash or a loop without
an end does no harm. Uses:

    old_calls.py find FILE [MODULE...]    writes the cases, with their arguments, and why the rest has none
    old_calls.py run FILE SECONDS NAME... calls each of these cases for so many seconds of CPU time, in a child and in a
                                          function of its own; prints when, as one JSON object for each case

``__new__`` is left out: all are one function, which calls what the type calls.
"""

import _strptime  # noqa: F401 (imported by time.strptime, when the child may no longer read it)
import ctypes
import gc
import importlib
import inspect
import itertools
import json
import mmap
import os
import re
import resource
import signal
import struct
import sys
import tempfile
import time
import types

from old_calls_values import KNOWN, VALUES, Plain, make

METH_VARARGS, METH_FASTCALL, METH_METHOD = 0x1, 0x80, 0x200
HEAP_TYPE = 1 << 9
#: Offsets in bytes: of PyMethodDef, of the objects that have one, and of a type. The same from CPython 3.10 to 3.13.
METHOD_FUNCTION, METHOD_FLAGS = 8, 16
DEFINITION = {"builtin_function_or_method": 16, "method_descriptor": 40, "classmethod_descriptor": 40}
DESCRIPTOR_VECTORCALL = 48
DEALLOC, CALL, INIT, ALLOC, NEW, VECTORCALL = 48, 128, 296, 304, 312, 400
#: They end, stop, wait, fork, start threads, crash, write into any address, or change what this program needs.
NEVER = re.compile(
    r"(^|[._])(_?exit|abort|kill\w*|pthread_kill|exec\w*|spawn\w*|posix_spawnp?|v?fork\w*|system|popen|wait|wait3|wait4"
    r"|waitpid|waitid|input|breakpoint|\w*sleep|pause|alarm|setitimer|set_wakeup_fd|sigwait\w*|sigtimedwait|start_new\w*"
    r"|start_joinable_thread|interrupt_main|stack_size|clock_settime\w*|sethostname|_sigsegv|_sigabrt|_sigfpe|_sigill"
    r"|_stack_overflow|_read_null|_fatal_error\w*|dump_traceback_later|settrace\w*|setprofile\w*|setrecursionlimit"
    r"|set_threshold|PyObj_FromPtr|call_cdeclfunction|call_function|resize|setr(e[su])?[ug]id|sete?[ug]id|chroot"
    r"|getaddrinfo|gethostby\w+|getnameinfo)$"
)
#: A call should take so long. Other calls are kept if there are none of this length; a longer one is not.
SHORTEST_NS, LONGEST_NS, NEVER_LONGER_NS = 5_000, 200_000, 3_000_000
ATTEMPT_S, SEARCH_S, RESTARTS = 0.2, 0.7, 12
BATCH_NS, MOST_IN_BATCH = 5_000_000, 5_000
#: Sizes in bytes of the blocks of Python's allocator, and what an empty bytes object takes.
LARGEST_SMALL, SMALL_STEP, BYTES_HEAD = 512, 16, bytes.__basicsize__
#: A case may last so many times its CPU time, if its arguments have to be made anew for each call.
MOST_TIMES_AS_LONG = 20


# ---- what there is --------------------------------------------------------------------------------------------------


def word(address, kind=ctypes.c_void_p):
    return kind.from_address(address).value or 0


def slot(cls, offset):
    return word(id(cls) + offset)


def definition(function):
    """Address of a function's PyMethodDef."""
    return word(id(function) + DEFINITION[type(function).__name__])


def is_old(function):
    flags = word(definition(function) + METHOD_FLAGS, ctypes.c_int)
    return flags & METH_VARARGS and not flags & (METH_FASTCALL | METH_METHOD)


def modules(names):
    for name in names:
        try:
            yield name, importlib.import_module(name)
        except Exception:
            print(f"not imported: {name}", file=sys.stderr)


def all_classes():
    """All classes, each once, in the order of their creation."""
    found, waiting = {}, [object]
    while waiting:
        cls = waiting.pop()
        if cls not in found:
            found[cls] = None
            waiting += type.__subclasses__(cls)
    return list(found)


def images():
    """Ranges of executable code: start, end, offset in the file, file."""
    with open("/proc/self/maps") as file:
        lines = [line.split(maxsplit=5) for line in file]
    chosen = [line for line in lines if "x" in line[1] and len(line) > 5]
    return [(*(int(each, 16) for each in line[0].split("-")), int(line[2], 16), line[5].strip()) for line in chosen]


def interpreter_code():
    """The executable code of the file that the interpreter is in."""
    file = next(image[3] for image in images() if image[0] <= slot(type, CALL) < image[1])
    return [image[:2] for image in images() if image[3] == file]


def is_linked(kind, function, code):
    """Whether it belongs to the interpreter's own file, not to a shared library."""
    mine = [word(definition(function) + METHOD_FUNCTION)] if kind != "type" else []
    if kind == "type":
        mine = [slot(function, offset) for offset in (NEW, INIT, DEALLOC)]
    return all(any(start <= address < end for start, end in code) for address in mine if address)


def callables(names):
    """Name to (kind, callable): functions, class methods and static methods, methods, and types."""
    found, classes = {}, {}
    for name, module in modules([*sys.builtin_module_names, *names]):
        for value in vars(module).values():
            if type(value) is types.BuiltinFunctionType and is_old(value):
                found.setdefault(id(value), (f"{value.__module__ or name}.{value.__name__}", "function", value))
            elif isinstance(value, type):
                classes[value] = None
    for cls in all_classes():
        if not cls.__flags__ & HEAP_TYPE or slot(cls, DEALLOC) != slot(Plain, DEALLOC):
            classes[cls] = None
    for cls in classes:
        title = f"{cls.__module__}.{cls.__qualname__}"
        for name, value in list(vars(cls).items()):
            kind = type(value).__name__
            if kind == "method_descriptor" and is_old(value):
                found[id(value)] = (f"{title}.{name}", "method", value)
            elif kind == "classmethod_descriptor" and is_old(value):
                found[id(value)] = (f"{title}.{name}", "function", value.__get__(None, cls))
            elif (
                kind == "staticmethod" and type(value.__func__) is types.BuiltinFunctionType and is_old(value.__func__)
            ):
                found[id(value)] = (f"{title}.{name}", "function", value.__func__)
        if not slot(cls, VECTORCALL):
            found[id(cls)] = (title, "type", cls)
    code = interpreter_code()
    return numbered(each for each in found.values() if names or is_linked(each[1], each[2], code))


def numbered(found):
    """Equal names get numbers."""
    by_name = {}
    for name, kind, value in sorted(found, key=lambda each: each[:2]):
        same = sum(other == name or other.startswith(f"{name}#") for other in by_name)
        by_name[f"{name}#{same + 1}" if same else name] = (kind, value)
    return by_name


def check_offsets():
    """The layout of types: some whose answer is known."""
    assert slot(list, VECTORCALL) and slot(tuple, VECTORCALL) and slot(type, CALL) == slot(type, CALL)
    assert not slot(bytearray, VECTORCALL) and not slot(slice, VECTORCALL) and not slot(Plain, VECTORCALL)
    assert slot(Plain, NEW) == slot(object, NEW) and slot(Plain, DEALLOC) != slot(object, DEALLOC)
    assert (
        is_old(dict.update)
        and is_old(sys.getsizeof)
        and not is_old(len)
        and not is_old(isinstance)
        and not is_old(list.pop)
    )


# ---- what can be called with what -------------------------------------------------------------------------------------


def parts(function, kind, count, selves):
    """Choices for each value of a call with so many arguments: names of VALUES, or of constructed instances."""
    rest = [list(VALUES)] * count
    return [selves, *rest] if kind == "method" else rest


def timed(function, arguments):
    """Nanoseconds of a call; None = it raises an exception."""
    clock = time.perf_counter_ns
    try:
        start = clock()
        function(*arguments)
        return clock() - start
    except BaseException:
        return None


def worth(took_ns):
    """How good a length is; less is better."""
    if took_ns < SHORTEST_NS:
        return 1, -took_ns
    return (0, abs(took_ns - 50_000)) if took_ns <= LONGEST_NS else (2, took_ns)


def search(function, kind, selves, constructed, first, shared, out):
    """Tries calls from the ``first`` on, in a child. Writes what is better than all before, one JSON object a line. Three
    arguments are tried only if fewer are never accepted."""
    end, number, best = time.monotonic() + SEARCH_S, 0, None
    for count in range(4):
        if (count == 3 and (best or shared[8])) or (best and best[0] == 0):
            break
        for names in itertools.product(*parts(function, kind, count, selves)):
            number += 1
            if number <= first:
                continue
            if time.monotonic() > end:
                return
            struct.pack_into("q", shared, 0, number)
            arguments = [make(name, constructed) for name in names]
            signal.setitimer(signal.ITIMER_REAL, ATTEMPT_S)
            took_ns = timed(function, arguments)
            if took_ns is None or took_ns > NEVER_LONGER_NS:
                continue
            shared[8] = 1
            if best is not None and worth(took_ns) >= best:
                continue
            again = [timed(function, [make(name, constructed) for name in names]) for _ in range(3)]
            if None in again:
                continue
            took_ns = min(took_ns, *again)
            if best is None or worth(took_ns) < best:
                best = worth(took_ns)
                os.write(out, json.dumps([took_ns, *names]).encode() + b"\n")


def limit():
    """What a child may do: nothing that outlives it, and little that costs anything."""
    for name, most in (("RLIMIT_AS", 4 << 30), ("RLIMIT_FSIZE", 1 << 20), ("RLIMIT_CORE", 0), ("RLIMIT_CPU", 20)):
        resource.setrlimit(getattr(resource, name), (most, most))
    os.chdir(tempfile.gettempdir())
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    silent()


def silent():
    null = os.open(os.devnull, os.O_RDWR)
    for each in range(3):
        os.dup2(null, each)


def in_child(action, *arguments, limits=True):
    """Runs it in a child. Returns how the child ended, 0 = as it should, and what it wrote into the pipe."""
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(source)
            limit() if limits else silent()
            action(*arguments, sink)
            status = 0
        finally:
            os._exit(status)
    os.close(sink)
    with open(source, "rb") as file:
        text = file.read()
    return os.waitpid(child, 0)[1], text.decode(errors="replace")


def found_arguments(function, kind, selves, constructed):
    """Names of arguments, or None; and how many attempts ended the child."""
    shared, lines, ended = mmap.mmap(-1, 4096), [], 0
    first = 0
    for _ in range(RESTARTS):
        status, text = in_child(search, function, kind, selves, constructed, first, shared)
        lines += [json.loads(line) for line in text.splitlines() if line.endswith("]")]
        if not status:
            break
        ended += 1
        first = struct.unpack_from("q", shared)[0]
    best = min(lines, key=lambda line: worth(line[0]), default=None)
    return best, ended


def known(name, function):
    """Arguments that need no search, and the time of a call: those of KNOWN, and as many values as a structure has."""
    fields = getattr(function, "n_sequence_fields", None)
    names = [f"tuple:{fields}"] if isinstance(fields, int) else KNOWN.get(name)
    took_ns = names and timed(function, [make(each, {}) for each in names])
    return [took_ns, *names] if took_ns else None


def keeps(function, names, constructed, out):
    """Whether the same arguments can be used again and again: the call neither fails nor becomes shorter or longer."""
    arguments = [make(name, constructed) for name in names]
    signal.setitimer(signal.ITIMER_REAL, 5)
    times = [timed(function, arguments) for _ in range(60)]
    if None in times:
        return
    before, after = min(times[:3]), min(times[-20:])
    if after > before / 2 and min(times[-20:]) < 2 * max(before, 500):
        os.write(out, b"keeps")


def keyword_of(function, count):
    """Name of the last argument if it can be passed by keyword."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        return None
    last = found[count - 1] if 0 < count <= len(found) else None
    return last.name if last is not None and last.kind is last.POSITIONAL_OR_KEYWORD else None


def accepts(function, names, keyword, constructed, out):
    *arguments, last = (make(name, constructed) for name in names)
    signal.setitimer(signal.ITIMER_REAL, ATTEMPT_S)
    function(*arguments, **{keyword: last})
    os.write(out, b"accepts")


def instances(cls, constructed):
    """Names of values that are instances of the class."""
    mine = [name for name, make_value in VALUES.items() if isinstance(make_value(), cls)]
    others = [f"new:{title}" for title, (made, _) in constructed.items() if issubclass(made, cls)]
    return mine[:3] + others[: max(3, 6 - len(mine))]


def one(name, kind, function, constructed):
    """The cases of one callable, and why it has none."""
    if NEVER.search(name):
        return [], "it is never called"
    if kind == "type" and not slot(function, NEW):
        return [], "the type has no tp_new"
    selves = instances(function.__objclass__, constructed) if kind == "method" else []
    if kind == "method" and not selves:
        return [], "no instance was found"
    best, ended = known(name, function), 0
    if best is None:
        best, ended = found_arguments(function, kind, selves, constructed)
    if best is None:
        return [], "no arguments were found" + (", and some calls ended the process or did not end" if ended else "")
    took_ns, *names = best
    _, text = in_child(keeps, function, names, constructed)
    base = {"callable": name, "kind": kind, "arguments": names, "took_ns": took_ns, "fresh": text != "keeps"}
    cases = [base | {"keyword": None}]
    keyword = keyword_of(function, len(names))
    if keyword and in_child(accepts, function, names, keyword, constructed)[1] == "accepts":
        cases.append(base | {"keyword": keyword})
    if kind == "type":
        constructed[name] = (function, names)
    return cases, None


def find(path, names):
    check_offsets()
    every, constructed = callables(names), {}
    cases, reasons = [], {}
    for name, (kind, function) in sorted(every.items(), key=lambda each: each[1][0] != "type"):
        mine, reason = one(name, kind, function, constructed)
        cases += mine
        if reason:
            reasons[name] = [kind, reason]
    for number, case in enumerate(cases):
        title = re.sub(r"\W", "_", case["callable"])
        case["name"] = f"old_{number}_{title}" + ("_keyword" if case["keyword"] else "")
    counts = [kind for kind, _ in every.values()]
    made = {name: arguments for name, (_, arguments) in constructed.items()}
    result = {"counts": {kind: counts.count(kind) for kind in set(counts)}, "modules": names, "constructed": made}
    with open(path, "w") as file:
        json.dump(result | {"cases": cases, "reasons": reasons}, file)


# ---- the calls ------------------------------------------------------------------------------------------------------


def function_of(case):
    """A function with the case's name and with the call on a line of its own, in a plain loop."""
    names = [f"a{number}" for number in range(len(case["arguments"]))]
    passed = names[:]
    if case["keyword"]:
        passed[-1] = f"{case['keyword']}={passed[-1]}"
    called = "function"
    if case["kind"] == "method":
        called = f"{passed.pop(0)}.{case['callable'].rpartition('.')[2].partition('#')[0]}"
    targets = f"({', '.join(names)},)" if names else "_"
    source = (
        f"def {case['name']}(function, batch):\n    for {targets} in batch:\n        {called}({', '.join(passed)})\n"
    )
    scope = {}
    exec(compile(source, __file__, "exec"), scope)
    return scope[case["name"]]


def entered(kind, function):
    """Addresses of what a call enters in C, and through which function."""
    if kind == "type":
        mine = {slot(function, NEW), slot(function, INIT)} - {0}
        return {"entered": sorted(mine), "through": slot(type(function), CALL)}
    through = word(id(function) + DESCRIPTOR_VECTORCALL) if kind == "method" else slot(type(function), CALL)
    return {"entered": [word(definition(function) + METHOD_FUNCTION)], "through": through}


def filler():
    """A block of each size that Python's allocator has, so that the objects of the next window lie elsewhere. Where the last
    free block of a pool is taken and freed again in each call, allocating takes longer: InterruptedError() was 47 % native
    then instead of 36. Which process that happens in depends on its environment variables."""
    return [bytes(size - BYTES_HEAD) for size in range(LARGEST_SMALL, BYTES_HEAD, -SMALL_STEP)] + [0.5 * len(sys.argv)]


def run_case(case, function, constructed, seconds, out):
    """Runs it in a child, and writes the windows in time in which it ran. Without the garbage collector, which the loop runs
    in whichever instruction comes next, from 3.12 on."""
    gc.disable()
    signal.setitimer(signal.ITIMER_REAL, 20 + 30 * seconds)
    run, windows, spent_ns = function_of(case), [], 0
    count = min(MOST_IN_BATCH, max(20, BATCH_NS // max(case["took_ns"], 200)))
    batch, end, kept = None, time.monotonic() + MOST_TIMES_AS_LONG * seconds, []
    while spent_ns < seconds * 1e9 and time.monotonic() < end:
        if batch is None or case["fresh"]:
            batch = None
            makes = range(count) if case["fresh"] else range(1)
            batch = [[make(name, constructed) for name in case["arguments"]] for _ in makes]
            batch = batch if case["fresh"] else batch * count
        kept.append(filler())
        before, start = time.thread_time_ns(), time.monotonic_ns()
        run(function, batch)
        windows.append((start, time.monotonic_ns()))
        spent_ns += time.thread_time_ns() - before
    os.write(out, json.dumps(windows).encode())


def run(path, seconds, names):
    with open(path) as file:
        found = json.load(file)
    every = callables(found["modules"])
    constructed = {name: (every[name][1], arguments) for name, arguments in found["constructed"].items()}
    own = {name: slot(object, offset) for name, offset in (("new", NEW), ("init", INIT), ("alloc", ALLOC))}
    print(
        json.dumps(
            {"images": images(), "object": own, "type_call": slot(type, CALL), "tuple_dealloc": slot(tuple, DEALLOC)}
        )
    )
    for case in found["cases"]:
        if case["name"] not in names:
            continue
        kind, function = every[case["callable"]]
        status, text = in_child(run_case, case, function, constructed, seconds, limits=False)
        windows = json.loads(text) if not status and text else []
        print(
            json.dumps({"name": case["name"], "windows": windows, "status": status} | entered(kind, function)),
            flush=True,
        )


if sys.argv[1] == "find":
    find(sys.argv[2], sys.argv[3:])
else:
    run(sys.argv[2], float(sys.argv[3]), set(sys.argv[4:]))
