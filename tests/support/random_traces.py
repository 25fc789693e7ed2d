"""Random traces (hypothesis), and a second computation in plain Python of what the queries find in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from scalene_trace.analyze.trace.selection import Selection
from tests.support.trace_builder import MS, SECOND, Row, TraceBuilder

FILES = ("/home/me/app.py", "/home/me/tool.py", "/usr/lib/python3.12/json/decoder.py", "<frozen runpy>")
USER_FILES = FILES[:2]
OPCODES = (
    None,
    "BINARY_OP",
    "CALL",
    "CALL_FUNCTION_EX",
    "CALL_PY_EXACT_ARGS",
    "CALL_BUILTIN_FAST",
    "CALL_KW",
    "CALL_NON_PY_GENERAL",
    "CALL_FUNCTION",
    None,
)
ALL_PROCESSES = Selection()
#: Libraries by module id (module 2 is in the trace under no name), functions as module, start, end and name.
MODULES = {1: "/usr/lib/libone.so.1", 3: "/x/site-packages/three/core.cpython-312-x86_64-linux-gnu.so"}
SYMBOLS = ((1, 0, 8, "first"), (1, 8, 12, "second"), (2, 3, 30, "third"), (3, 5, 15, "fourth"))
SPECIALISED = {"CALL_PY_EXACT_ARGS": "python", "CALL_BUILTIN_FAST": "builtin", "CALL_NON_PY_GENERAL": "builtin"}


@dataclass(frozen=True)
class Charge:
    """A tick, or a part of it, the stack it is charged to, and the one that was running then."""

    tick: Row
    stack: int | None
    part: float
    is_first: bool
    is_parallel: bool
    own_stack: int | None


frames = st.tuples(st.sampled_from(FILES), st.sampled_from("fgh"), st.sampled_from((1, 20)), st.integers(0, 3))
flags = st.fixed_dictionaries(
    {
        name: st.booleans()
        for name in ("eval_found", "vectorcall", "tp_call", "frame_setup", "type_call", "has_python", "gc")
    }
)
classes = st.sampled_from(("eval", "interpreter", "support", "extension", "shim", "unknown", "unread"))
moments = st.integers(0, 9 * SECOND)


@st.composite
def traces(draw: st.DrawFn) -> TraceBuilder:
    """A few processes with threads, ticks and footprint samples; bursts make threads with more than 20 ticks."""
    builder = TraceBuilder()
    stacks = [
        builder.stack(*each)
        for each in draw(st.lists(st.lists(frames, min_size=1, max_size=5), min_size=1, max_size=6))
    ]
    builder.settings["cpu_interval_ns"] = str(draw(st.sampled_from((10, 300))) * MS)
    for module, start, end, name in SYMBOLS:
        builder.add("symbol", module=module, start_offset=start, end_offset=end, name=name)
    for module, path in MODULES.items():
        builder.add("module", id=module, path=path, **{"class": "extension"})
    some_stack = st.sampled_from([*stacks, None])
    for index in range(draw(st.integers(1, 3))):
        _process(draw, builder, some_stack, index)
    return builder


def _process(draw: st.DrawFn, builder: TraceBuilder, some_stack: st.SearchStrategy[int | None], index: int) -> None:
    start_ns = draw(moments) if index else 0
    version = draw(st.sampled_from(("3.10.12", "3.12.4", None)))
    is_fork = index > 0 and draw(st.booleans())
    inherited = draw(st.integers(0, 40_000_000)) if is_fork else 0
    process = builder.process(
        start_ns, python_version=version, free_threaded=version and draw(st.sampled_from((None, False, False, True))),
        cause="fork" if is_fork else "root", parent=1 if is_fork else None,
        start_footprint_bytes=inherited, end_ns=draw(st.none() | st.integers(9 * SECOND, 12 * SECOND)),
        end_footprint_bytes=draw(st.none() | st.integers(0, 50_000_000)),
    )  # fmt: skip
    for _ in range(draw(st.integers(1, 4))):
        engine = draw(st.sampled_from(("perf", "perf", "none")))
        tid = draw(st.sampled_from((1000 + process, 5000, 5000)))
        start = {"starter": draw(st.none() | st.integers(1, 8)), "start_stack": draw(some_stack)}
        thread = builder.thread(process, cpu_ns=draw(st.integers(0, 500)) * MS, engine=engine, tid=tid, **start)
        for _ in range(draw(st.integers(0, 4))):
            _ticks(draw, builder, process, thread, some_stack)
    times = sorted(draw(st.lists(st.integers(start_ns, 9 * SECOND), max_size=6, unique=True)))
    footprint = inherited
    for t_ns in times:
        net = draw(st.sampled_from((11_000_003, -10_999_999, 23_000_017)))
        footprint += net
        builder.memory(
            t_ns, process, 1, draw(some_stack), net, footprint, python_allocated_bytes=draw(st.integers(0, abs(net)))
        )


def _ticks(
    draw: st.DrawFn, builder: TraceBuilder, process: int, thread: int, some_stack: st.SearchStrategy[int | None]
) -> None:
    columns = draw(flags) | {
        "pc_class": draw(classes),
        "opcode": draw(st.sampled_from(OPCODES)),
        "system_ns": draw(st.integers(0, 3)) * MS,
    }
    columns["extension_module"] = draw(st.sampled_from((None, None, 3)))
    columns["extension_offset"] = columns["extension_module"] and draw(st.integers(1, 20))
    columns["pc_module"] = draw(st.sampled_from((None, 1, 2)))
    columns["pc_offset"] = columns["pc_module"] and draw(st.integers(0, 20))
    for _ in range(draw(st.sampled_from((1, 1, 3, 25)))):
        builder.tick(draw(moments), process, thread, draw(some_stack), user_ns=draw(st.integers(0, 15)) * MS, **columns)


def oracle_votes(builder: TraceBuilder) -> dict[tuple[Any, Any], int]:
    """By stack and opcode: ticks in C functions that were called, minus ticks in work for Python objects. Work that is the
    same for types in C counts for little."""
    votes: dict[tuple[Any, Any], int] = defaultdict(int)
    for tick in builder.rows.get("cpu", []):
        if tick["frame_setup"] and tick["tp_call"]:
            votes[tick["stack"], tick["opcode"]] -= 1 if tick["type_call"] else 8
        elif tick["vectorcall"] and not tick["tp_call"] and (tick["type_call"] or not tick["frame_setup"]):
            votes[tick["stack"], tick["opcode"]] += 8
    return {key: vote for key, vote in votes.items() if vote and None not in key}


def oracle_classes(builder: TraceBuilder) -> Callable[[Row], str]:
    """The class of a tick of the trace."""
    processes = {row["process"]: row for row in builder.rows["process"]}
    votes = oracle_votes(builder)
    return lambda tick: _class(tick, processes[tick["process"]], votes)


def _class(tick: Row, process: Row, votes: Mapping[tuple[Any, Any], int]) -> str:
    """The rule, written once more."""
    version = process["python_version"]
    if tick["has_python"] and (process["free_threaded"] or tick["pc_class"] == "unread"):
        return "unclassified"
    if not tick["has_python"] or tick["extension_module"] or tick["pc_class"] in ("extension", "unknown"):
        return "native"
    opcode = tick["opcode"]
    is_call = opcode is not None and opcode.startswith("CALL")
    if opcode is None and tick["pc_class"] != "eval" and (tick["stack"] is not None or tick["torn"]):
        return "unclassified"
    if tick["pc_class"] == "eval" or (opcode is not None and not is_call):
        return "python"
    if SPECIALISED.get(opcode) == "python":
        return "python"
    if tick["tp_call"] and not tick["frame_setup"] and (tick["stack"], opcode) in votes:
        return "native" if votes[tick["stack"], opcode] > 0 else "python"
    if opcode in SPECIALISED:
        is_instance = opcode == "CALL_NON_PY_GENERAL" and tick["tp_call"] and tick["frame_setup"]
        return "python" if SPECIALISED[opcode] == "python" or is_instance else "native"
    if is_call and (version or "").startswith("3.10"):
        return "python" if tick["frame_setup"] else "native"
    if tick["tp_call"]:
        return "native" if tick["pc_class"] == "support" and not tick["frame_setup"] else "python"
    deep = is_call and not tick["eval_found"]
    star_call = opcode == "CALL_FUNCTION_EX" and not tick["frame_setup"]
    return "native" if tick["vectorcall"] or deep or star_call else "python"


def oracle_scales(builder: TraceBuilder) -> dict[int, float]:
    """Factor of each thread."""
    weights: dict[int, list[int]] = defaultdict(list)
    for tick in builder.rows.get("cpu", []):
        if tick["user_ns"] + tick["system_ns"] > 0:
            weights[tick["thread"]].append(tick["user_ns"] + tick["system_ns"])
    scales: dict[int, float] = {}
    small: dict[int, list[Row]] = defaultdict(list)
    for row in builder.rows["thread"]:
        if row["cpu_ns"] <= 0 or row["engine"] == "none":
            continue
        if len(weights[row["thread"]]) >= 20:
            ratio = row["cpu_ns"] / sum(weights[row["thread"]])
            scales[row["thread"]] = ratio if 0.5 <= ratio <= 2 else 1
        else:
            small[row["process"]].append(row)
    left: list[Row] = []
    for rows in small.values():
        if not _pool(rows, weights, scales):
            left += rows
    _pool(left, weights, scales)
    return scales


def _pool(rows: list[Row], weights: dict[int, list[int]], scales: dict[int, float]) -> bool:
    found = [weight for row in rows for weight in weights[row["thread"]]]
    if len(found) < 5:
        return False
    ratio = sum(row["cpu_ns"] for row in rows) / sum(found)
    scales |= {row["thread"]: ratio if 0.25 <= ratio <= 4 else 1 for row in rows}
    return True


def oracle_charges(builder: TraceBuilder) -> list[Charge]:
    """Every tick with the stacks it is charged to, in parts."""
    by_thread: dict[int, list[Row]] = defaultdict(list)
    for tick in builder.rows.get("cpu", []):
        by_thread[tick["thread"]].append(tick)
    pids = {row["process"]: row["pid"] for row in builder.rows["process"]}
    mains = {row["thread"] for row in builder.rows["thread"] if row["tid"] == pids[row["process"]]}
    helpers = {t for t, ticks in by_thread.items() if t not in mains and not any(row["has_python"] for row in ticks)}
    charges = []
    for tick in builder.rows.get("cpu", []):
        own, served = [tick["stack"]], [started_on(builder, tick)]
        if is_helper := tick["thread"] in helpers:
            python_threads = [ticks for ticks in by_thread.values() if ticks[0]["process"] == tick["process"]]
            found = [
                (stack_inside_native_code(builder, ticks, tick["t_ns"]), ticks[0]["thread"]) for ticks in python_threads
            ]
            own = [stack for stack, _ in found if stack is not None] or [None]
            served = [started_on(builder, {"stack": s, "thread": t}) for s, t in found if s is not None] or [None]
        for number, (stack, own_stack) in enumerate(zip(served, own, strict=True)):
            is_parallel = is_helper and stack is not None
            charges.append(Charge(tick, stack, 1 / len(served), number == 0, is_parallel, own_stack))
    return charges


def started_on(builder: TraceBuilder, tick: Row) -> int | None:
    """The stack that a tick is charged to: if its own has no line of the user's, the one on which its thread was started."""
    stack: int | None = tick["stack"]
    threads = {row["thread"]: row for row in builder.rows["thread"]}
    row: Row | None = threads[tick["thread"]]
    if stack is None or oracle_owner(builder, stack):
        return stack
    for _ in range(16):
        if row is None:
            break
        if oracle_owner(builder, row.get("start_stack")):
            return int(row["start_stack"])
        row = threads.get(row.get("starter") or 0)
    return stack


def stack_inside_native_code(builder: TraceBuilder, ticks: list[Row], t_ns: int) -> int | None:
    """The stack of a Python thread (its ticks in any order) if it was inside native code at ``t_ns``."""
    interval_ns = int(builder.settings["cpu_interval_ns"])
    class_of = oracle_classes(builder)
    known = [
        (
            tick["t_ns"],
            tick["stack"] or 10**9,
            tick["stack"] and class_of(tick) == "native",
        )
        for tick in ticks
        if tick["has_python"]
    ]
    known.sort(key=lambda each: (each[0], each[1], bool(each[2])))
    nearest = -1
    for index in range(len(known)):
        before_ns = known[index - 1][0]
        if index == 0 or t_ns >= before_ns + (known[index][0] - before_ns) // 2:
            nearest = index
    if nearest < 0 or not known[nearest][2]:
        return None
    own_ns, stack, _ = known[nearest]
    if -2 * interval_ns <= t_ns - own_ns < 2 * interval_ns:
        return stack
    other = nearest + (1 if t_ns >= own_ns else -1)
    if 0 <= other < len(known) and known[other][1:] == known[nearest][1:]:
        return stack if abs(known[other][0] - own_ns) <= 100 * interval_ns else None
    return None


def oracle_owner(builder: TraceBuilder, stack: int | None) -> tuple[str, int] | None:
    for file, _, first_line, number in frames_of(builder, stack):
        if file in USER_FILES:
            return file, number or first_line
    return None


def frames_of(builder: TraceBuilder, stack: int | None) -> list[tuple[str, str, int, int]]:
    by_id = {id_: key for key, id_ in builder.location_ids.items()}
    locations = next((key for key, id_ in builder.stack_ids.items() if id_ == stack), ())
    return [by_id[each] for each in locations]


def functions_on(builder: TraceBuilder, stack: int | None) -> set[tuple[str, str, int]]:
    """The user's functions on a stack, each once."""
    return {frame[:3] for frame in frames_of(builder, stack) if frame[0] in USER_FILES}


def within_window(charges: list[Charge], selection: Selection) -> list[Charge]:
    """The charges of the ticks of the selection."""
    wanted = {id(tick) for tick in within([charge.tick for charge in charges], selection)}
    return [charge for charge in charges if id(charge.tick) in wanted]


def within(rows: Iterable[Row], selection: Selection) -> list[Row]:
    """The rows of the selection."""
    return [
        row
        for row in rows
        if (selection.from_ns or 0) <= row["t_ns"] < (selection.to_ns or 10**18)
        and (not selection.processes or row["process"] in selection.processes)
        and (not selection.threads or row["thread"] in selection.threads)
    ]


def oracle_footprint(
    builder: TraceBuilder, t_ns: int, is_gone: bool = False, selection: Selection = ALL_PROCESSES
) -> int:
    """What the processes asked for hold at ``t_ns``; ``is_gone``: after those that end at this moment have ended."""
    ids = selection.processes
    processes = [row for row in builder.rows["process"] if not ids or row["process"] in ids]
    last_end = max((row["end_ns"] for row in processes if row["end_ns"] is not None), default=None)
    told = [
        (row["t_ns"], step, row) for step, kind in enumerate(("memory", "heap")) for row in builder.rows.get(kind, [])
    ]
    samples = [row for _, _, row in sorted(told, key=lambda each: each[:2])]
    return sum(_own(row, samples, t_ns, last_end, is_gone) for row in processes)


def _own(process: Row, samples: list[Row], t_ns: int, last_end: int | None, is_gone: bool) -> int:
    """What the process itself holds at ``t_ns``; ``is_gone``: after those that end at this moment have ended."""
    if t_ns < process["t_ns"]:
        return 0
    inherited: int = process["start_footprint_bytes"] if process["cause"] == "fork" else 0
    held: int = process["start_footprint_bytes"]
    for sample in samples:
        if sample["process"] == process["process"] and sample["t_ns"] <= t_ns:
            held = sample["footprint_bytes"]
    if process["end_ns"] is not None and process["end_ns"] <= t_ns:
        if last_end is not None and process["end_ns"] < last_end and (is_gone or process["end_ns"] < t_ns):
            return 0
        held = process["end_footprint_bytes"] if process["end_footprint_bytes"] is not None else held
    return max(0, held - inherited)


selections = st.builds(
    Selection,
    from_s=st.none() | st.integers(0, 4),
    to_s=st.none() | st.integers(5, 10),
    processes=st.just(()) | st.just((1,)),
    threads=st.just(()) | st.just((1, 3)),
)
