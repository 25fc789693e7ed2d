"""From synthetic spools to tables: every column by hand computation."""

from __future__ import annotations

import hashlib
import io
import json
import random
import shutil
import struct
from typing import Any

import duckdb
import pytest

from scalene_trace.formats.cpython import opcodes
from scalene_trace.formats.errors import NotASpool, TraceError
from scalene_trace.formats.spool.chunks import CHUNKS_OFFSET
from scalene_trace.formats.spool.layout import struct_dtype
from scalene_trace.formats.spool.losses import shim_losses
from scalene_trace.formats.trace.integrity import check_trace
from scalene_trace.recorder.convert.finish import finish, recover
from scalene_trace.recorder.convert.kinds.ends import RootEnd
from scalene_trace.recorder.folder.facts import default_output, write_facts
from tests.support.conversion import BYTECODE, LINES, NAMES, event_count, facts, locations, rows, tables_of, with_stack
from tests.support.spool_builder import START_MONO_NS, C, SpoolBuilder


def tick(**fields: Any) -> dict[str, Any]:
    return {"thread": 3, "t_ns": START_MONO_NS + 77, "stack": 20, "opcodes": [255] * 6} | fields


def test_a_tick_has_its_stack_weight_clock_and_flags(tmp_path):
    builder = with_stack(SpoolBuilder().start()).add(
        "thread_start", thread=3, t_ns=START_MONO_NS + 5, cpu_start_ns=1_000, tid=44
    )
    flags = C["TICK_GC"] | C["TICK_EVAL_FOUND"] | C["TICK_NO_PYTHON"] | C["PC_EXTENSION"] << C["TICK_PC_SHIFT"]
    builder.add("tick", **tick(user_ns=9_999_991, system_ns=3, cpu_ns=8_500, flags=flags))
    tables = tables_of(builder, tmp_path)
    (row,) = rows(tables["cpu"])
    assert locations(tables, row["stack"]) == [("/app/main.py", "work", 11, 14), ("/app/main.py", "<module>", 1, 2)]
    assert (row["t_ns"], row["process"], row["thread"]) == (77, 1, 3)
    assert (row["user_ns"], row["system_ns"], row["clock_ns"]) == (9_999_991, 3, 7_500)
    assert row["pc_class"] == "extension"
    set_flags = {
        name
        for name in ("gc", "eval_found", "vectorcall", "tp_call", "frame_setup", "torn", "system_only")
        if row[name]
    }
    assert set_flags == {"gc", "eval_found"}
    assert row["has_python"] is False
    assert event_count(builder, tmp_path) == 1


def test_memory_samples_keep_their_signs(tmp_path):
    sizes = {"net_bytes": -10_485_767, "footprint_bytes": 5, "python_footprint_bytes": -4, "allocated_bytes": 3}
    builder = with_stack(SpoolBuilder()).add("memory", thread=3, t_ns=START_MONO_NS + 8, stack=10, **sizes)
    (row,) = rows(tables_of(builder, tmp_path)["memory"])
    assert row | sizes | {"t_ns": 8, "python_allocated_bytes": 0} == row


@pytest.mark.parametrize(
    ("unit", "read", "name"),
    [
        (1, [NAMES["LOAD_FAST"]], "LOAD_FAST"),
        (2, [NAMES["BINARY_OP_ADD_INT"]], "BINARY_OP_ADD_INT"),
        (3, [0, NAMES["BINARY_OP_ADD_INT"]], "BINARY_OP_ADD_INT"),  # inside the cache: one unit back
        (8, [0, 0, 0, 0, NAMES["CALL_PY_EXACT_ARGS"], 9], "CALL_PY_EXACT_ARGS"),
        (8, [255] * 6, "CALL"),  # not read: as it was stored
        (-1, [7] * 6, None),
        (99, [7] * 6, None),
    ],
)
def test_the_opcode_is_that_of_the_instruction_that_the_pointer_is_in(tmp_path, unit, read, name):
    builder = SpoolBuilder().code(2, line_table=LINES, bytecode=BYTECODE).add("node", hash=9, code=2, instruction=unit)
    builder.add("tick", **tick(stack=9, opcodes=[*read, *[255] * (6 - len(read))]))
    assert [row["opcode"] for row in rows(tables_of(builder, tmp_path)["cpu"])] == [name]


def test_an_unknown_python_version_gives_no_opcode_and_a_loss(tmp_path):
    builder = SpoolBuilder().code(2, first_line=7, python_version=0x03630000, line_table=LINES, bytecode=BYTECODE)
    builder.add("node", hash=9, code=2, instruction=2).add("tick", **tick(stack=9, opcodes=[1] * 6))
    tables = tables_of(builder, tmp_path)
    assert rows(tables["cpu"])[0]["opcode"] is None
    assert locations(tables, 1) == [("/app/main.py", "work", 7, 7)]
    found = [(row["name"], row["severity"], row["count"]) for row in rows(tables["loss"])]
    assert {("unknown_lines", "error", 1), ("unknown_opcodes", "error", 1)} <= set(found)


def test_instructions_without_their_families_are_unknown(tmp_path, monkeypatch):
    """Their lengths are those of their families, so the wrong instruction would be found."""
    facts = json.loads(opcodes.DATA_PATH.read_text())
    facts["3.15"]["base"] = {}
    monkeypatch.setattr(opcodes, "_table", lambda: facts)
    opcodes.instruction_set.cache_clear()
    builder = SpoolBuilder().code(2, python_version=0x030F02F0, line_table=LINES, bytecode=BYTECODE)
    builder.add("node", hash=9, code=2, instruction=2).add("tick", **tick(stack=9, opcodes=[1] * 6))
    try:
        tables = tables_of(builder, tmp_path)
    finally:
        opcodes.instruction_set.cache_clear()
    assert rows(tables["cpu"])[0]["opcode"] is None
    assert [row["name"] for row in rows(tables["loss"]) if row["name"].startswith("unknown")] == ["unknown_opcodes"]


def test_equal_chains_of_lines_are_one_stack_whatever_the_instruction(tmp_path):
    builder = with_stack(SpoolBuilder()).add("node", hash=21, parent=10, code=2, instruction=7)
    builder.add("tick", **tick()).add("tick", **tick(stack=21)).add("tick", **tick(stack=10))
    tables = tables_of(builder, tmp_path)
    ids = [row["stack"] for row in rows(tables["cpu"])]
    assert ids[0] == ids[1] != ids[2]
    assert len(rows(tables["stack"])) == 2


def test_the_stack_hash_depends_on_files_functions_and_lines_alone(tmp_path):
    (row,) = rows(tables_of(with_stack(SpoolBuilder()).add("tick", **tick()), tmp_path)["stack"])
    text = b"/app/main.py\0work\x0011\x0014\n/app/main.py\0<module>\x001\x002\n"
    assert row["hash"] == int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little", signed=True)


def test_a_tick_without_a_stack_or_with_a_lost_one_has_none(tmp_path):
    builder = with_stack(SpoolBuilder()).add("tick", **tick(stack=0)).add("tick", **tick(stack=555))
    tables = tables_of(builder, tmp_path)
    assert [row["stack"] for row in rows(tables["cpu"])] == [None, None]
    assert [(row["name"], row["count"]) for row in rows(tables["loss"])] == [("unresolved_stack", 1), ("recovered", 1)]


def test_a_stack_with_a_lost_caller_is_marked_as_truncated(tmp_path):
    builder = SpoolBuilder().code(1).add("node", hash=10, parent=4, code=1).add("tick", **tick(stack=10))
    builder.add("node", hash=11, parent=0, code=1, truncated=1).add("tick", **tick(stack=11))
    builder.add("node", hash=12, parent=0, code=999).add("tick", **tick(stack=12))
    tables = tables_of(builder, tmp_path)
    assert sorted((len(row["locations"]), row["truncated"]) for row in rows(tables["stack"])) == [(1, False), (1, True)]
    assert ("<not recorded>", "<not recorded>", 0, 0) in [
        locations(tables, row["stack"])[0] for row in rows(tables["stack"])
    ]


def test_nodes_that_name_each_other_as_parents_end(tmp_path):
    builder = SpoolBuilder().code(1).add("node", hash=5, parent=6, code=1).add("node", hash=6, parent=5, code=1)
    (row,) = rows(tables_of(builder.add("tick", **tick(stack=5)), tmp_path)["stack"])
    assert row["truncated"] is True


def test_addresses_become_modules_and_offsets(tmp_path):
    builder = SpoolBuilder().module(0x7000, 0x8000, "/lib/libz.so", bias=0x6000).module(0x9000, 0xA000, "/lib/libm.so")
    builder.add("tick", **tick(pc=0x7010)).add("tick", **tick(pc=0x8000)).add("tick", **tick(pc=0x7FFF))
    tables = tables_of(builder, tmp_path)
    paths = {row["id"]: row["path"] for row in rows(tables["module"])}
    found = [(paths.get(row["pc_module"]), row["pc_offset"]) for row in rows(tables["cpu"])]
    assert found == [("/lib/libz.so", 0x1010), (None, None), ("/lib/libz.so", 0x1FFF)]
    assert {row["class"] for row in rows(tables["module"])} == {"extension"}


def with_native(builder: SpoolBuilder) -> SpoolBuilder:
    """A stack of four functions: one of the interpreter (hash 91) called one of an extension (92), this one of libc (93),
    and this one code without an image (94)."""
    classes = (("/bin/python", 61, "INTERPRETER"), ("/x.so", 62, "EXTENSION"), ("/libc.so.6", 63, "SUPPORT"))
    for at, (path, image, pc_class) in enumerate(classes, 7):
        builder.module(at << 12, at + 1 << 12, path, image=image, pc_class=C[f"PC_{pc_class}"], bias=at << 12)
    builder.native(91, 0, 61, 0x100).native(92, 91, 62, 0x200).native(93, 92, 63, 0x300, flags=C["NATIVE_GAP"])
    return builder.native(94, 93)


def native_stack(tables, native) -> list[tuple[str | None, int | None, bool]]:
    """The functions of a native stack, innermost first: path, offset, gap."""
    paths = {row["id"]: row["path"] for row in rows(tables["module"])} | {None: None}
    by_id = {row["id"]: row for row in rows(tables["native"])}
    found = []
    while native is not None:
        row = by_id[native]
        assert row["parent"] is None or row["parent"] < native
        found.append((paths[row["module"]], row["offset"], row["gap"]))
        native = row["parent"]
    return found


def test_a_native_stack_leads_from_the_interrupted_function_to_the_outermost_one(tmp_path):
    builder = with_native(SpoolBuilder())
    for native in (94, 92, 0):
        builder.add("tick", **tick(native=native))
    tables = tables_of(builder, tmp_path)
    inner, outer, none = rows(tables["cpu"])
    expected = [
        (None, None, False),
        ("/libc.so.6", 0x300, True),
        ("/x.so", 0x200, False),
        ("/bin/python", 0x100, False),
    ]
    assert native_stack(tables, inner["native"]) == expected
    assert native_stack(tables, outer["native"]) == expected[2:]
    assert none["native"] is None
    assert len(rows(tables["native"])) == 4


def test_the_extension_is_the_nearest_caller_in_one(tmp_path):
    builder = with_native(SpoolBuilder()).native(95, 92, 62, 0x280)
    for native in (94, 93, 95, 92, 91):
        builder.add("tick", **tick(native=native))
    tables = tables_of(builder, tmp_path)
    paths = {row["id"]: row["path"] for row in rows(tables["module"])}
    found = [(paths.get(row["extension_module"]), row["extension_offset"]) for row in rows(tables["cpu"])]
    assert found == [("/x.so", 0x200)] * 3 + [(None, None)] * 2


def test_native_stacks_of_which_something_is_lost_are_kept_as_far_as_they_go(tmp_path):
    builder = SpoolBuilder().module(0x7000, 0x8000, "/x.so", image=62, bias=0x7000)
    builder.native(1, 404, 62, 0x10).native(2, 0, 66, 0x20).native(3, 0, 62, 2**63 + 5)
    for native in (1, 2, 3, 505):
        builder.add("tick", **tick(native=native))
    tables = tables_of(builder, tmp_path)
    found = [native_stack(tables, row["native"]) for row in rows(tables["cpu"])]
    assert found == [[("/x.so", 0x10, True)], [(None, None, False)], [("/x.so", None, False)], []]
    assert ("unresolved_native", 1) in [(row["name"], row["count"]) for row in rows(tables["loss"])]


def test_native_functions_that_call_each_other_in_a_circle_are_left_out(tmp_path):
    builder = with_native(SpoolBuilder()).native(1, 2, 62, 1).native(2, 1, 62, 2).native(3, 2, 62, 3)
    for native in (3, 92):
        builder.add("tick", **tick(native=native))
    tables = tables_of(builder, tmp_path)
    assert [len(native_stack(tables, row["native"])) for row in rows(tables["cpu"])] == [0, 2]


def test_a_native_stack_in_another_batch_than_its_tick_is_found(tmp_path):
    builder = SpoolBuilder().add("tick", **tick(native=94)).new_chunk()
    tables = tables_of(with_native(builder), tmp_path)
    assert len(native_stack(tables, rows(tables["cpu"])[0]["native"])) == 4


def test_a_fork_inherits_modules_and_an_exec_does_not(tmp_path):
    builder = SpoolBuilder().start(1).module(0x7000, 0x8000, "/lib/old.so", 1)
    builder.start(2, cause=C["CAUSE_FORK"], parent=1).start(3, cause=C["CAUSE_FORK"], parent=2)
    builder.start(4, cause=C["CAUSE_EXEC"], parent=2).module(0x7000, 0x7800, "/lib/new.so", 3)
    for process in (1, 2, 3, 4):
        builder.add("tick", process, **tick(t_ns=START_MONO_NS + process, pc=0x7100))
    builder.add("tick", 3, **tick(t_ns=START_MONO_NS + 9, pc=0x7900))
    tables = tables_of(builder, tmp_path)
    paths = {row["id"]: row["path"] for row in rows(tables["module"])}
    found = [paths.get(row["pc_module"]) for row in rows(tables["cpu"])]
    assert found == ["/lib/old.so", "/lib/old.so", "/lib/new.so", None, "/lib/old.so"]


def test_the_module_that_was_mapped_last_owns_the_address(tmp_path):
    builder = SpoolBuilder().module(0x7000, 0x8000, "/new.so", t_ns=20).module(0x7000, 0x8000, "/old.so", t_ns=10)
    tables = tables_of(builder.add("tick", **tick(pc=0x7001)), tmp_path)
    assert [row["path"] for row in rows(tables["module"])] == ["/new.so"]


def test_processes_have_start_command_and_end(tmp_path):
    builder = SpoolBuilder().start(1, command=("python", "a b.py", ""), footprint_bytes=12)
    usage = {"user_ns": 5, "system_ns": 6, "peak_rss_bytes": 7, "footprint_bytes": 8}
    builder.add("process_end", 1, t_ns=START_MONO_NS + 900, how=C["END_EXIT"], **usage)
    builder.start(2, cause=C["CAUSE_FORK"], parent=1, argv_bytes=0, python_version=0, t_ns=START_MONO_NS + 3)
    builder.add("process_end", 2, t_ns=START_MONO_NS + 500, how=C["END_QUICK"], exit_status=3)
    first, second = rows(tables_of(builder, tmp_path, RootEnd(1001, 41))["process"])
    assert first["command"] == ["python", "a b.py", ""]
    assert (first["executable"], first["python_version"], first["cause"]) == ("/usr/bin/python3.11", "3.11.7", "root")
    assert (first["end"], first["exit_status"], first["end_ns"], first["parent"]) == ("exit", 41, 900, None)
    assert (first["user_ns"], first["system_ns"], first["peak_rss_bytes"]) == (5, 6, 7)
    assert (first["start_footprint_bytes"], first["end_footprint_bytes"]) == (12, 8)
    assert (second["command"], second["python_version"], second["cause"], second["parent"]) == (None, None, "fork", 1)
    assert (second["end"], second["exit_status"], second["t_ns"]) == ("quick_exit", 3, 3)


def test_processes_say_which_build_their_interpreter_is(tmp_path):
    builder = SpoolBuilder().start(1, stacks=C["PYTHON_STACKS"] | C["PYTHON_FREE_THREADED"])
    builder.start(2, stacks=C["PYTHON_STACKS"]).start(3, python_version=0, stacks=0)
    found = rows(tables_of(builder, tmp_path)["process"])
    assert [each["free_threaded"] for each in found] == [True, False, None]
    assert [each["stacks"] for each in found] == [True, True, False]


def test_a_process_has_the_first_interpreter_that_it_loads(tmp_path):
    found = {"cause": C["START_OF_PYTHON"], "exe_bytes": 0, "argv_bytes": 0}
    builder = SpoolBuilder().start(1, t_ns=START_MONO_NS + 9, python_version=0x030C01F0, **found)  # in an earlier chunk
    builder.start(1, python_version=0, stacks=0).start(
        1, t_ns=START_MONO_NS + 8, stacks=C["PYTHON_STACKS"] | C["PYTHON_FREE_THREADED"], **found
    )
    (process,) = rows(tables_of(builder, tmp_path)["process"])
    assert (process["python_version"], process["stacks"], process["t_ns"]) == ("3.11.7", True, 0)
    assert process["free_threaded"]
    assert (process["cause"], process["executable"]) == ("root", "/usr/bin/python3.11")


def test_the_status_of_the_program_is_that_of_its_last_image(tmp_path):
    builder = SpoolBuilder().start(1, pid=50).add("process_end", 1, t_ns=START_MONO_NS + 5, how=C["END_EXEC"])
    builder.start(2, pid=50, cause=C["CAUSE_EXEC"], parent=1, t_ns=START_MONO_NS + 6)
    first, second = rows(tables_of(builder, tmp_path, RootEnd(50, 139, killed=True))["process"])
    assert (first["end"], first["exit_status"]) == ("exec", None)
    assert (second["end"], second["exit_status"], second["end_ns"]) == ("killed", 139, 5)


def test_an_exec_that_fails_does_not_end_the_process(tmp_path):
    """Of the process, nor of the thread that tried; what ended before it tried has ended."""
    builder = SpoolBuilder().start(1, pid=50).add("thread_start", thread=3, t_ns=START_MONO_NS + 1, tid=50)
    builder.add("thread_end", thread=4, t_ns=START_MONO_NS + 3, cpu_ns=8)
    builder.add("thread_end", thread=3, t_ns=START_MONO_NS + 4, cpu_ns=9)
    builder.add("process_end", 1, thread=3, t_ns=START_MONO_NS + 5, how=C["END_EXEC"], user_ns=5)
    builder.add("process_end", 1, thread=3, t_ns=START_MONO_NS + 6, how=C["END_NONE"], user_ns=6)
    builder.add("tick", **tick(cpu_ns=850))
    killed = tables_of(builder, tmp_path, RootEnd(50, 137, killed=True))
    (process,), threads = rows(killed["process"]), rows(killed["thread"])
    assert (process["end"], process["end_ns"], process["user_ns"], process["exit_status"]) == ("killed", 77, None, 137)
    assert {row["thread"]: (row["cpu_ns"], row.get("end_ns")) for row in threads} == {3: (850, 77), 4: (8, 3)}
    builder.add("thread_end", thread=3, t_ns=START_MONO_NS + 9, cpu_ns=900)
    builder.add("process_end", 1, thread=3, t_ns=START_MONO_NS + 10, how=C["END_EXIT"], user_ns=7)
    ended = tables_of(builder, tmp_path, RootEnd(50, 0))
    (process,), threads = rows(ended["process"]), rows(ended["thread"])
    assert (process["end"], process["end_ns"], process["user_ns"]) == ("exit", 10, 7)
    assert {row["thread"]: (row["cpu_ns"], row["end_ns"]) for row in threads} == {3: (900, 9), 4: (8, 3)}


def test_a_thread_that_did_not_end_has_the_cpu_time_of_its_last_tick(tmp_path):
    builder = SpoolBuilder().start()
    for thread in (3, 4):
        start = {"t_ns": START_MONO_NS + thread, "cpu_start_ns": 100, "engine": C["ENGINE_POSIX"], "tid": 70 + thread}
        builder.add("thread_start", thread=thread, **start)
    builder.add("thread_end", thread=4, t_ns=START_MONO_NS + 50, cpu_ns=49, user_ns=40, system_ns=9, name=b"worker")
    builder.add("tick", **tick(cpu_ns=850)).add("tick", **tick(cpu_ns=650)).add("tick", **tick(thread=5, cpu_ns=900))
    third, fourth, fifth = rows(tables_of(builder, tmp_path)["thread"])
    assert (third["cpu_ns"], third["name"], third["end_ns"], third["engine"], third["tid"]) == (
        750,
        None,
        None,
        "posix",
        73,
    )
    assert (fourth["cpu_ns"], fourth["name"], fourth["end_ns"], fourth["user_ns"]) == (49, "worker", 50, 40)
    assert (fifth["thread"], fifth["cpu_ns"], fifth["tid"], fifth["t_ns"]) == (5, 0, None, 77)


def test_bytecode_is_kept_for_code_that_was_innermost_only(tmp_path):
    tables = tables_of(with_stack(SpoolBuilder()).add("tick", **tick()), tmp_path)
    (row,) = rows(tables["code"])
    expected = {
        "file": "/app/main.py",
        "function": "work",
        "first_line": 11,
        "python_version": "3.11.7",
        "bytecode": BYTECODE,
    }
    assert row == expected


def test_sources_are_embedded_by_their_own_encoding(tmp_path):
    (tmp_path / "own.py").write_bytes("# coding: latin-1\nx = 'é'\r\n".encode("latin-1"))
    (tmp_path / "big.py").write_bytes(b"#" * (2 * 1024 * 1024 + 1))
    (tmp_path / "bad.py").write_bytes(b"x = '\xff'\n")
    library = tmp_path / "lib" / "python3.11"
    library.mkdir(parents=True)
    (library / "inner.py").write_text("inner\n")
    (library / "outer.py").write_text("outer\n")
    builder, parent = SpoolBuilder(), 0
    names = [
        "own.py",
        "big.py",
        "bad.py",
        "gone.py",
        "<frozen abc>",
        "<string>",
        str(library / "outer.py"),
        str(library / "inner.py"),
    ]
    for number, name in enumerate(names, 1):
        builder.code(number, file=name).add("node", hash=number, parent=parent, code=number)
        parent = number
    builder.add("tick", **tick(stack=parent))
    tables = tables_of(builder, tmp_path, command_code="print(1)")
    assert {row["file"]: row["text"] for row in rows(tables["source"])} == {
        "own.py": "# coding: latin-1\nx = 'é'\n",
        "<string>": "print(1)",
        str(library / "inner.py"): "inner\n",
    }
    assert {row["name"]: row["count"] for row in rows(tables["loss"])}["source_unread"] == 2
    assert rows(tables_of(builder, tmp_path, sources=False)["source"]) == []


def test_a_source_that_changed_after_the_start_says_so(tmp_path):
    (tmp_path / "own.py").write_text("pass\n")
    modified_ns = (tmp_path / "own.py").stat().st_mtime_ns
    for started_ns, changed in ((modified_ns - 1, True), (modified_ns, False), (4 * 10**18, False)):
        builder = SpoolBuilder(start_real_ns=started_ns).code(1, file="own.py")
        builder.add("node", hash=5, code=1).add("tick", **tick(stack=5))
        assert [row["changed"] for row in rows(tables_of(builder, tmp_path)["source"])] == [changed]


def test_names_that_are_not_utf_8_are_stored_as_escapes(tmp_path):
    builder = SpoolBuilder().code(1, file="/a/\udcff.py", name="f\udc80").add("node", hash=5, code=1)
    (row,) = rows(tables_of(builder.add("tick", **tick(stack=5)), tmp_path)["location"])
    assert (row["file"], row["function"]) == ("/a/\\udcff.py", "f\\udc80")


def test_losses_of_the_shim_are_rows_with_their_texts(tmp_path):
    builder = SpoolBuilder()
    builder.losses[1] = 13
    loss = shim_losses()[1]
    found = rows(tables_of(builder, tmp_path, RootEnd(1, 0))["loss"])
    assert found == [{"name": loss.name, "severity": loss.severity, "count": 13, "text": loss.text}]


def test_settings_say_what_was_recorded(tmp_path):
    builder = SpoolBuilder(features=C["FEATURE_CPU"] | C["FEATURE_ARGV"]).add("tick", **tick(t_ns=START_MONO_NS + 123))
    values = {row["name"]: row["value"] for row in rows(tables_of(builder, tmp_path)["setting"])}
    expected = {
        "features": '["cpu"]',
        "wall_ns": "123",
        "recovered": "true",
        "hostname": "h",
        "cpu_interval_ns": "10000000",
    }
    assert values | expected == values
    assert values["started_at"] == "2027-01-15T08:00:00.000+00:00"
    assert "exit_status" not in values


def complete_recording(tmp_path, **changes: Any):
    folder = tmp_path / "trace.parquet.spool"
    builder = with_stack(SpoolBuilder().start()).add("tick", **tick(pc=5))
    builder.write(folder / "spool")
    write_facts(folder, facts(tmp_path, **changes))
    (folder / "rss").write_bytes(struct.pack("<qqqq", 7, 1, 1_999_993, 77_777) + b"half a row")
    return folder


def test_finishing_writes_the_trace_and_removes_the_spool(tmp_path):
    folder = complete_recording(tmp_path)
    finished = finish(folder, RootEnd(1001, 0), 999, {"spool_space": 2})
    assert finished.output == tmp_path / "trace.parquet"
    assert finished.events == 1
    assert [each.name for each in tmp_path.iterdir()] == ["trace.parquet"]
    assert check_trace(finished.output).trace_id == "ab" * 16
    found = duckdb.sql(f"SELECT t_ns, process, unnest(rss) FROM '{finished.output}' WHERE kind = 'rss'").fetchall()
    assert found == [(7, 1, 1_999_993, 77_777)]


def test_an_existing_output_becomes_old(tmp_path):
    (tmp_path / "trace.parquet").write_text("one")
    (tmp_path / "trace.old.parquet").write_text("older")
    finish(complete_recording(tmp_path), RootEnd(1001, 0), 999, {})
    assert (tmp_path / "trace.old.parquet").read_text() == "one"
    check_trace(tmp_path / "trace.parquet")


def test_the_pid_goes_into_the_output_name(tmp_path):
    folder = complete_recording(tmp_path, output=str(tmp_path / "run-%p.parquet"))
    assert finish(folder, RootEnd(1234, 0), 999, {}).output.name == "run-1234.parquet"
    folder = complete_recording(tmp_path, output=str(tmp_path / "run-%p.parquet"))
    assert recover(folder, None).output.name == "run-1001.parquet"


def test_recovery_takes_its_name_from_the_folder(tmp_path):
    folder = complete_recording(tmp_path)
    aside = folder.rename(tmp_path / "trace.parquet.spool.2")
    finished = recover(aside, None)
    assert finished.output == tmp_path / "trace.parquet"
    values = dict(duckdb.sql(f"SELECT unnest(setting) FROM '{finished.output}' WHERE kind = 'setting'").fetchall())
    assert values["recovered"] == "true"
    assert not aside.exists()


def test_recovery_does_without_the_facts(tmp_path):
    folder = complete_recording(tmp_path)
    (folder / "recording.json").write_text("{damaged")
    assert recover(folder, tmp_path / "found.parquet").output == tmp_path / "found.parquet"


def test_a_recording_whose_spool_is_damaged_is_kept(tmp_path):
    folder = complete_recording(tmp_path)
    (folder / "spool").write_bytes(bytes(100_000))
    with pytest.raises(NotASpool):
        finish(folder, RootEnd(1001, 0), 999, {})
    assert (folder / "spool").exists()
    shutil.rmtree(folder)


def test_recovery_refuses_a_folder_that_is_not_a_recording(tmp_path):
    with pytest.raises(TraceError, match="contains no spool"):
        recover(tmp_path, None)
    assert default_output(tmp_path / "x.parquet.spool.11") == str(tmp_path / "x.parquet")


def test_records_that_are_damaged_in_any_way_are_converted(tmp_path):
    builder = with_stack(SpoolBuilder().start()).module(0x7000, 0x8000, "/lib/libz.so")
    builder.add("thread_start", thread=3, t_ns=START_MONO_NS, cpu_start_ns=0)
    for number in range(40):
        builder.add("tick", **tick(pc=0x7000 + number, t_ns=START_MONO_NS + number))
        builder.add("memory", thread=3, t_ns=START_MONO_NS + number, stack=10)
        builder.alloc(number, number, stack=20).note(number, type=5).free(number, number + 9, type=6, bytes=4_096)
        for kind in ("copy", "gc"):
            builder.add(kind, thread=3, t_ns=START_MONO_NS + number)
        builder.add("heap", untouched_pages=number, t_ns=START_MONO_NS + number)
    builder.type(5, b"dict").type(6, b"list")
    builder.add("thread_end", thread=3, t_ns=START_MONO_NS).add("process_end", t_ns=START_MONO_NS)
    image, rng = builder.image(), random.Random(20260105)
    folder = tmp_path / "trace.parquet.spool"
    used = len(builder.image().rstrip(b"\0"))
    for _ in range(120):
        damaged = bytearray(image)
        for _ in range(rng.randrange(1, 200)):
            damaged[rng.randrange(CHUNKS_OFFSET, used)] = rng.randrange(256)
        folder.mkdir(exist_ok=True)
        (folder / "spool").write_bytes(damaged)
        recover(folder, tmp_path / "trace.parquet")
        check_trace(tmp_path / "trace.parquet")


def test_tick_columns_fit_the_struct():
    assert struct_dtype("record_tick")["opcodes"].shape == (C["TICK_OPCODES"],)


def test_progress_is_shown_on_a_terminal_when_finishing_takes_long(tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("scalene_trace.recorder.convert.progress._QUIET_S", 0.001)
    monkeypatch.setattr("sys.stderr", terminal)
    finish(complete_recording(tmp_path), RootEnd(1001, 0), 999, {})
    text = terminal.getvalue()
    assert "scalene-record: " in text and "writing the trace" in text
    assert text.endswith("\r\x1b[K")
