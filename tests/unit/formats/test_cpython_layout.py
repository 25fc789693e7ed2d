"""The offsets in shim/shared/stacks/pylayout.c and shim/inside/python/objects.c against the headers of the interpreters that are installed."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from scalene_trace.recorder.attached.memory.queue import LAYOUTS, MAIN_STATE_313
from tests.support.arm64_machine import COMPILER, has_libc
from tests.support.interpreters import Interpreter, interpreters
from tests.support.paths import ROOT

SHIM = ROOT / "shim"
SOURCE = SHIM / "shared" / "stacks" / "pylayout.c"

#: Field of our table to member of a struct of CPython.
MEMBERS = {
    "interp_gc": ("PyInterpreterState", "gc.collecting"),
    "tstate_interp": ("PyThreadState", "interp"),
    "tstate_dict": ("PyThreadState", "dict"),
    "tstate_context": ("PyThreadState", "context"),
    "tstate_next": ("PyThreadState", "next"),
    "tstate_thread": ("PyThreadState", "thread_id"),
    "type_cached_keys": ("PyHeapTypeObject", "ht_cached_keys"),
    "code_flags": ("PyCodeObject", "co_flags"),
    "code_first_line": ("PyCodeObject", "co_firstlineno"),
    "code_file": ("PyCodeObject", "co_filename"),
    "code_line_table": ("PyCodeObject", "co_linetable"),
}
BY_VERSION = {
    "3.10": {
        "tstate_frame": ("PyThreadState", "frame"),
        "interp_threads": ("PyInterpreterState", "tstate_head"),
        "frame_code": ("PyFrameObject", "f_code"),
        "frame_previous": ("PyFrameObject", "f_back"),
        "frame_instruction": ("PyFrameObject", "f_lasti"),
        "code_name": ("PyCodeObject", "co_name"),
        "code_bytecode": ("PyCodeObject", "co_code"),
        "interp_modules": ("PyInterpreterState", "modules"),
        "generator_frame": ("PyGenObject", "gi_frame"),
        "generator_state": ("PyFrameObject", "f_state"),
        "frame_depth": ("PyFrameObject", "f_stackdepth"),
        "frame_values": ("PyFrameObject", "f_valuestack"),
        "frame_locals": ("PyFrameObject", "f_localsplus"),
    },
    "3.11": {
        "tstate_cframe": ("PyThreadState", "cframe"),
        "tstate_chunk": ("PyThreadState", "datastack_chunk"),
        "cframe_frame": ("_PyCFrame", "current_frame"),
        "frame_code": ("_PyInterpreterFrame", "f_code"),
        "interp_modules": ("PyInterpreterState", "modules"),
    },
    "3.12": {
        "tstate_cframe": ("PyThreadState", "cframe"),
        "cframe_frame": ("_PyCFrame", "current_frame"),
        "frame_code": ("_PyInterpreterFrame", "f_code"),
        "code_version": ("PyCodeObject", "co_version"),
        "interp_modules": ("PyInterpreterState", "imports.modules"),
    },
    "3.13": {
        "tstate_frame": ("PyThreadState", "current_frame"),
        "frame_code": ("_PyInterpreterFrame", "f_executable"),
        "code_version": ("PyCodeObject", "co_version"),
        "interp_modules": ("PyInterpreterState", "imports.modules"),
        "tstate_loop": ("_PyThreadStateImpl", "asyncio_running_loop"),
    },
    "3.14": {
        "tstate_frame": ("PyThreadState", "current_frame"),
        "tstate_tasks": ("_PyThreadStateImpl", "asyncio_tasks_head"),
        "tstate_bytes": ("struct { PyThreadState state; char behind; }", "behind"),
        "frame_code": ("_PyInterpreterFrame", "f_executable"),
        "frame_top": ("_PyInterpreterFrame", "stackpointer"),
        "code_version": ("PyCodeObject", "co_version"),
        "interp_modules": ("PyInterpreterState", "imports.modules"),
        "interp_generation": ("PyInterpreterState", "_code_object_generation"),
        "interp_tasks": ("PyInterpreterState", "asyncio_tasks_head"),
        "interp_next": ("PyInterpreterState", "next"),
        "tstate_loop": ("_PyThreadStateImpl", "asyncio_running_loop"),
    },
}
BY_VERSION["3.15"] = BY_VERSION["3.14"]
FROM_311 = {
    "interp_threads": ("PyInterpreterState", "threads.head"),
    "tstate_chunk": ("PyThreadState", "datastack_chunk"),
    "frame_previous": ("_PyInterpreterFrame", "previous"),
    "frame_owner": ("_PyInterpreterFrame", "owner"),
    "code_name": ("PyCodeObject", "co_qualname"),
    "code_bytecode": ("PyCodeObject", "co_code_adaptive"),
    "code_first_traceable": ("PyCodeObject", "_co_firsttraceable"),
    "generator_frame": ("PyGenObject", "gi_iframe"),
    "generator_state": ("PyGenObject", "gi_frame_state"),
    "frame_values": ("_PyInterpreterFrame", "localsplus"),
    "frame_locals": ("_PyInterpreterFrame", "localsplus"),
}
#: What the watcher reads of containers and types (shim/watch/reading/remote.c, shim/watch/tasks.c): the same in every version.
WATCHED = {
    "TYPE_NAME_AT": ("PyTypeObject", "tp_name"),
    "TYPE_BASIC_SIZE": ("PyTypeObject", "tp_basicsize"),
    "TYPE_FLAGS_AT": ("PyTypeObject", "tp_flags"),
    "TYPE_BASE": ("PyTypeObject", "tp_base"),
    "DICT_KEYS": ("PyDictObject", "ma_keys"),
    "DICT_USED": ("PyDictObject", "ma_used"),
    "SET_USED": ("PySetObject", "used"),
    "SET_MASK": ("PySetObject", "mask"),
    "SET_TABLE": ("PySetObject", "table"),
    "REFERENCE_OBJECT": ("PyWeakReference", "wr_object"),
}
#: What attributes of instances and the values of names are read by (shim/shared/objects/).
INSTANCES = {
    "TYPE_BASIC_SIZE": ("PyTypeObject", "tp_basicsize"),
    "TYPE_FLAGS": ("PyTypeObject", "tp_flags"),
    "TYPE_DICT_OFFSET": ("PyTypeObject", "tp_dictoffset"),
    "DICT_KEYS": ("PyDictObject", "ma_keys"),
    "DICT_VALUES": ("PyDictObject", "ma_values"),
    "INT_SIZE": ("PyVarObject", "ob_size"),
}
#: The same for the constants that objects and collections are read by, and where the counts of collections lie.
CONSTANTS = {
    "OBJECT_TYPE": ("PyObject", "ob_type"),
    "TYPE_NAME": ("PyTypeObject", "tp_name"),
    "TYPE_FLAGS": ("PyTypeObject", "tp_flags"),
}
COUNTS = {"collecting": ("PyInterpreterState", "gc.collecting"), "stats": ("PyInterpreterState", "gc.generation_stats")}
#: Where the list of interpreters begins, if the interpreter does not publish it.
RUNTIME = {"runtime_interpreters": ("_PyRuntimeState", "interpreters.head")}
#: Where they lie from 3.15 on: in a ring for each generation.
RINGS = {
    "GC_RINGS_BYTES": ("struct { struct gc_stats all; char behind; }", "behind"),
    "GC_RING_ITEM": ("struct gc_stats", "young.items[1]"),
    "GC_RING_COUNTS": ("struct gc_stats", "young.items[0].collections"),
    "collected": ("struct gc_stats", "young.items[0].collected"),
    "uncollectable": ("struct gc_stats", "young.items[0].uncollectable"),
    "ring 0": ("struct gc_stats", "young.items"),
    "ring 1": ("struct gc_stats", "old[0].items"),
    "ring 2": ("struct gc_stats", "old[1].items"),
    "end 0": ("struct gc_stats", "young.index"),
    "end 1": ("struct gc_stats", "old[0].index"),
    "end 2": ("struct gc_stats", "old[1].index"),
}
#: What free-threaded builds have otherwise: the header of objects, and from 3.14 on copies of bytecode.
FREE_THREADED = {
    "type": ("PyObject", "ob_type"),
    "size": ("PyVarObject", "ob_size"),
    "length": ("PyASCIIObject", "length"),
    "state": ("PyASCIIObject", "state"),
    "bytes": ("PyBytesObject", "ob_sval"),
    "ascii_data": ("struct { PyASCIIObject str; char behind; }", "behind"),
    "compact_data": ("struct { PyCompactUnicodeObject str; char behind; }", "behind"),
}
FIXED = {
    "OBJECT_TYPE": "type",
    "VAR_SIZE": "size",
    "STR_LENGTH": "length",
    "STR_STATE": "state",
    "BYTES_SIZE": "size",
    "BYTES_DATA": "bytes",
}
COPIES = {"frame_copy": ("_PyInterpreterFrame", "tlbc_index"), "code_copies": ("PyCodeObject", "co_tlbc")}
PUBLISHED_COPIES = {"frame_copy": "interpreter_frame.tlbc_index", "code_copies": "code_object.co_tlbc"}
#: The queue of calls for the main thread (recorder/attached/memory/queue.py): in which struct it is, and its last fields.
QUEUES = {
    "3.10": ("PyInterpreterState", "ceval.pending", "lock", "calls_to_do", "last"),
    "3.11": ("PyInterpreterState", "ceval.pending", "lock", "calls_to_do", "last"),
    "3.12": ("_PyRuntimeState", "ceval.pending_mainthread", "lock", "calls_to_do", "last"),
    "3.13": ("_PyRuntimeState", "ceval.pending_mainthread", "mutex", "npending", "next"),
}
INSTRUCTION = {"3.11": "prev_instr", "3.12": "prev_instr"}
#: What else must be included.
HEADERS = {
    "3.13": ("pycore_tstate.h",),
    "3.14": ("pycore_tstate.h", "pycore_interpframe_structs.h", "pycore_debug_offsets.h"),
    "3.15": ("pycore_tstate.h", "pycore_interpframe_structs.h", "pycore_debug_offsets.h"),
}
#: Position of the published offsets that pylayout.c reads: of each, the group and the field of _Py_DebugOffsets.
PUBLISHED = {
    "DEBUG_VERSION": "version",
    "DEBUG_FREE_THREADED": "free_threaded",
    "DEBUG_RUNTIME_BYTES": "runtime_state.size",
    "DEBUG_INTERPRETER_BYTES": "interpreter_state.size",
    "runtime_interpreters": "runtime_state.interpreters_head",
    "interp_next": "interpreter_state.next",
    "interp_threads": "interpreter_state.threads_head",
    "interp_gc": "interpreter_state.gc",
    "interp_modules": "interpreter_state.imports_modules",
    "interp_generation": "interpreter_state.code_object_generation",
    "tstate_bytes": "thread_state.size",
    "tstate_next": "thread_state.next",
    "tstate_interp": "thread_state.interp",
    "tstate_frame": "thread_state.current_frame",
    "tstate_thread": "thread_state.thread_id",
    "tstate_chunk": "thread_state.datastack_chunk",
    "frame_previous": "interpreter_frame.previous",
    "frame_code": "interpreter_frame.executable",
    "frame_instruction": "interpreter_frame.instr_ptr",
    "frame_values": "interpreter_frame.localsplus",
    "frame_locals": "interpreter_frame.localsplus",
    "frame_owner": "interpreter_frame.owner",
    "frame_top": "interpreter_frame.stackpointer",
    "code_file": "code_object.filename",
    "code_name": "code_object.qualname",
    "code_line_table": "code_object.linetable",
    "code_first_line": "code_object.firstlineno",
    "code_bytecode": "code_object.co_code_adaptive",
    "ascii_data": "unicode_object.asciiobject_size",
    "collecting": "gc.collecting",
    "generator_frame": "gen_object.gi_iframe",
    "generator_state": "gen_object.gi_frame_state",
}
PUBLISHED_SINCE_315 = {
    "type_cached_keys": "heap_type_object.ht_cached_keys",
    "compact_data": "unicode_object.compactunicodeobject_size",
    "RINGS_315": "gc.generation_stats",
    "RINGS_BYTES_315": "gc.generation_stats_size",
}


def our_table(version: str, free_threaded: bool = False) -> dict[str, int]:
    """The row of ``layouts`` for a version: field to offset. That of the free-threaded build is the second."""
    major, minor = version.split(".")
    start = SOURCE.read_text().split(f".version = 0x{int(major):x}{int(minor):02x},")[1 + free_threaded]
    row = start.split("}", 1)[0]
    return {name: int(value) for name, value in re.findall(r"\.(\w+) = (-?\d+)\b", row)}


def members(version: str) -> dict[str, tuple[str, str]]:
    """What to ask the headers of a version."""
    found = MEMBERS | BY_VERSION[version]
    if version != "3.10":
        found |= FROM_311 | {"frame_instruction": ("_PyInterpreterFrame", INSTRUCTION.get(version, "instr_ptr"))}
    if version in ("3.11", "3.12", "3.13"):
        found["frame_depth"] = ("_PyInterpreterFrame", "stacktop")
    return found


def our_constants() -> dict[str, int]:
    """The offsets that are constants: the same in every version."""
    text = (SHIM / "inside" / "python" / "objects.c").read_text() + SOURCE.with_suffix(".h").read_text()
    return {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)$", text, re.MULTILINE)}


def constants_below(folder: Path) -> dict[str, int]:
    """The offsets that the files of a folder define."""
    text = "".join(path.read_text() for path in sorted(folder.rglob("*.c")))
    return {name: int(value) for name, value in re.findall(r"#define (\w+) (\d+)\b", text)}


def real_offsets(
    python: Interpreter,
    folder: Path,
    wanted: dict[str, tuple[str, str]],
    cross_compiler: str | None = None,
    free_threaded: bool = False,
    more: str = "",
) -> dict[str, int]:
    """The same by offsetof, compiled against the interpreter's own headers, for this machine or another processor, with or
    without the GIL. ``more``: C code that is compiled too.

    The compiled code is not run: each offset is the size of an array.
    """
    query = "import sysconfig; print(sysconfig.get_path('include'))"
    include = subprocess.run([python.path, "-c", query], capture_output=True, text=True, check=True).stdout.strip()
    arrays = [f"char at_{name}[1 + offsetof({struct}, {member})];" for name, (struct, member) in wanted.items()]
    frame = "#include <internal/pycore_frame.h>" if python.name != "3.10" else "#include <frameobject.h>"
    state = [f"#include <internal/{name}>" for name in ("pycore_runtime.h", *HEADERS.get(python.name, ()))]
    includes = ["#include <Python.h>", "#include <internal/pycore_interp.h>", frame, *state, "#include <stddef.h>"]
    build = ["#define Py_BUILD_CORE 1", *(["#define Py_GIL_DISABLED 1"] if free_threaded else [])]
    (folder / "offsets.c").write_text("\n".join([*build, *includes, *arrays, more, ""]))
    compiler = cross_compiler or shutil.which("cc")
    assert compiler, "a C compiler is needed"
    # Debian keeps pyconfig.h in a folder named after the processor.
    if cross_compiler and not (folder / "aarch64-linux-gnu").exists():
        (folder / "aarch64-linux-gnu").symlink_to(Path(include).parent / "x86_64-linux-gnu")
    folders = (include, f"{include}/internal", Path(include).parent, folder)
    options = ["-w", "-fno-common", *(f"-I{each}" for each in folders)]
    subprocess.run([compiler, *options, "-c", "-o", folder / "offsets.o", folder / "offsets.c"], check=True)
    symbols = subprocess.run(
        ["readelf", "-sW", folder / "offsets.o"], capture_output=True, text=True, check=True
    ).stdout
    found = re.findall(r"^ *\d+: [0-9a-f]+ +(0x[0-9a-f]+|\d+) OBJECT .* at_(\w+)$", symbols, re.MULTILINE)
    offsets = {name: int(size, 0) - 1 for size, name in found}
    assert offsets.keys() == wanted.keys()
    return offsets


@pytest.fixture(params=interpreters(), ids=lambda each: each.name)
def with_headers(request: pytest.FixtureRequest) -> Interpreter:
    """An interpreter whose headers are installed."""
    python: Interpreter = request.param
    query = "import sysconfig, os; print(os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h')))"
    if subprocess.run([python.path, "-c", query], capture_output=True, text=True).stdout.strip() != "True":
        pytest.skip("the headers of this interpreter are not installed")
    return python


def test_our_offsets_are_those_of_the_headers(with_headers: Interpreter, tmp_path: Path) -> None:
    ours, real = our_table(with_headers.name), real_offsets(with_headers, tmp_path, members(with_headers.name))
    assert {name: ours[name] for name in real} == real


def rows_of(version: str) -> int:
    """How many builds of a version our table has: one, or two with the free-threaded one."""
    major, minor = version.split(".")
    return SOURCE.read_text().count(f".version = 0x{int(major):x}{int(minor):02x},")


def test_strings_are_read_as_they_are(with_headers: Interpreter, tmp_path: Path) -> None:
    """Where the kind and the flags of a str lie in its state, in each build; and where the addresses of copies begin."""
    states = ["{.state = {.kind = 7}}", "{.state = {.compact = 1}}", "{.state = {.ascii = 1}}"]
    section = f'__attribute__((section("strs"))) const PyASCIIObject states[] = {{{", ".join(states)}}};'
    wanted = {"state": ("PyASCIIObject", "state"), "each": ("struct { PyASCIIObject str; char behind; }", "behind")}
    copies = {"addresses": ("_PyCodeArray", "entries")} if with_headers.version >= (3, 14) else {}
    for free_threaded in (False, True)[: rows_of(with_headers.name)]:
        asked = wanted | (copies if free_threaded else {})
        real = real_offsets(with_headers, tmp_path, asked, free_threaded=free_threaded, more=section)
        subprocess.run(["objcopy", "-O", "binary", "-j", "strs", "offsets.o", "strs.bin"], cwd=tmp_path, check=True)
        data = (tmp_path / "strs.bin").read_bytes()
        places = [real["each"] * number + real["state"] for number in range(3)]
        shift = our_table(with_headers.name, free_threaded).get("str_shift", 0)
        assert [int.from_bytes(data[at : at + 4], "little") >> shift for at in places] == [7 << 2, 1 << 5, 1 << 6]
        assert real.get("addresses", 8) == our_constants()["COPIES_ADDRESSES"]


def test_offsets_of_free_threaded_builds_are_those_of_the_headers(with_headers: Interpreter, tmp_path: Path) -> None:
    """The interpreter itself is another build, but its headers are the same ones."""
    assert rows_of(with_headers.name) == (2 if with_headers.version >= (3, 13) else 1)
    if rows_of(with_headers.name) == 1:
        return
    copies = COPIES if with_headers.version >= (3, 14) else {}
    wanted = members(with_headers.name) | FREE_THREADED | copies | COUNTS
    ours, real = our_table(with_headers.name, True), real_offsets(with_headers, tmp_path, wanted, free_threaded=True)
    assert copies.keys() <= ours.keys() and members(with_headers.name).keys() <= ours.keys()
    assert {name: ours[name] for name in wanted if name in ours} == {
        name: real[name] for name in wanted if name in ours
    }
    fixed = {name: our_constants()[name] + ours["object_header"] for name in FIXED}
    assert fixed == {name: real[field] for name, field in FIXED.items()}
    assert ours["gc_counts"] == real["stats"] - real["collecting"]


def test_the_offsets_are_the_same_on_arm64(with_headers: Interpreter, tmp_path: Path) -> None:
    cross_compiler = shutil.which(COMPILER)
    if not cross_compiler or not has_libc(cross_compiler) or platform.machine() != "x86_64":
        pytest.skip(f"this needs {COMPILER} on x86-64")
    wanted = members(with_headers.name) | RUNTIME | CONSTANTS | COUNTS | WATCHED
    ours, real = (real_offsets(with_headers, tmp_path, wanted, each) for each in (None, cross_compiler))
    differing = {name for name in wanted if ours[name] != real[name]}
    assert differing == ({"interp_generation", "interp_tasks"} if with_headers.version >= (3, 14) else set())
    if differing:  # the first is published, and the second keeps its distance
        assert len({each["interp_tasks"] - each["interp_generation"] for each in (ours, real)}) == 1


def test_containers_and_types_lie_where_the_watcher_reads_them(with_headers: Interpreter, tmp_path: Path) -> None:
    ours = constants_below(SHIM / "watch")
    assert {name: ours[name] for name in WATCHED} == real_offsets(with_headers, tmp_path, WATCHED)


def test_attributes_lie_where_we_read_them(with_headers: Interpreter, tmp_path: Path) -> None:
    ours = constants_below(SHIM / "shared" / "objects")
    assert {name: ours[name] for name in INSTANCES} == real_offsets(with_headers, tmp_path, INSTANCES)


def test_objects_types_and_counts_lie_where_we_read_them(with_headers: Interpreter, tmp_path: Path) -> None:
    ours, real = our_constants(), real_offsets(with_headers, tmp_path, CONSTANTS | COUNTS)
    assert {name: ours[name] for name in CONSTANTS} == {name: real[name] for name in CONSTANTS}
    assert our_table(with_headers.name)["gc_counts"] == real["stats"] - real["collecting"]


def test_rings_of_counts_lie_where_we_read_them(with_headers: Interpreter, tmp_path: Path) -> None:
    if with_headers.version < (3, 15):
        pytest.skip("this version has no rings")
    ours, item = our_constants(), our_constants()["GC_RING_ITEM"]
    ours |= {"collected": ours["GC_RING_COUNTS"] + 8, "uncollectable": ours["GC_RING_COUNTS"] + 16}
    table = re.findall(r"rings\[\] = {(.*)};", (SHIM / "inside" / "python" / "objects.c").read_text())[0]
    for number, (at, items) in enumerate(re.findall(r"{(\d+), (\d+)}", table)):
        ours |= {f"ring {number}": int(at), f"end {number}": int(at) + item * int(items)}
    real = real_offsets(with_headers, tmp_path, {name.replace(" ", "_"): each for name, each in RINGS.items()})
    assert {name: ours[name] for name in RINGS} == {name: real[name.replace(" ", "_")] for name in RINGS}


def test_published_offsets_stand_where_we_read_them(with_headers: Interpreter, tmp_path: Path) -> None:
    if with_headers.version < (3, 14):
        pytest.skip("this version's offsets are those of our table")
    text, column = SOURCE.read_text(), with_headers.version[1] - 14
    rows = re.findall(r"{(\d+), (\d+), FIELD\((\w+)\)", text)
    ours = {row[2]: int(row[column]) for row in rows if row[column] != "0"}
    ours |= {name: int(at) for name, at in re.findall(r"#define (DEBUG_\w+) (\d+)$", text, re.MULTILINE)}
    ours["collecting"] = int(re.findall(rf"#define COLLECTING_3{14 + column} (\d+)", text)[0])
    if column:
        ours |= {name: int(re.findall(rf"#define {name} (\d+)", text)[0]) for name in ("RINGS_315", "RINGS_BYTES_315")}
    published = PUBLISHED | PUBLISHED_COPIES | (PUBLISHED_SINCE_315 if column else {})
    wanted = {name: ("_Py_DebugOffsets", member) for name, member in published.items()}
    assert ours == real_offsets(with_headers, tmp_path, wanted)


@pytest.mark.parametrize("with_headers", [each for each in interpreters() if each.name in QUEUES], indirect=True)
def test_the_queue_of_calls_is_where_the_headers_say(with_headers: Interpreter, tmp_path: Path) -> None:
    version = with_headers.version
    struct, queue, lock, signal, last = QUEUES[with_headers.name]
    in_queue = {"lock": lock, "signal": signal, "calls": "calls", "first": "first", "last": last, "second": "calls[1]"}
    wanted = {name: (struct, f"{queue}.{field}") for name, field in in_queue.items()}
    is_last = version[:2] == (3, 13)
    wanted["breaker"] = ("PyThreadState", "eval_breaker") if is_last else ("PyInterpreterState", "ceval.eval_breaker")
    wanted["limit"] = ("PyInterpreterState", "ceval.recursion_limit")
    wanted["finalizing"] = ("_PyRuntimeState", "_finalizing")
    if is_last:
        wanted |= {"main": ("_PyRuntimeState", "main_tstate"), "interp": ("PyThreadState", "interp")}
        wanted |= {"most": (struct, f"{queue}.max"), "at_once": (struct, f"{queue}.maxloop")}
    real = real_offsets(with_headers, tmp_path, wanted)
    ours = LAYOUTS[version[0] << 8 | version[1]]
    assert real.pop("second") == ours.calls + ours.stride
    assert (ours.first - ours.calls) == ours.count * ours.stride
    if is_last:
        assert (real.pop("main"), real.pop("interp")) == (MAIN_STATE_313, our_table("3.13")["tstate_interp"])
        assert (real.pop("most"), real.pop("at_once")) == (ours.signal + 4, ours.signal + 8)
    assert {name: getattr(ours, name) for name in real} == real
