"""Readable names of C++ and Rust functions, also of hostile ones, and without the packages that read them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalene_trace.recorder.convert.native import demangle
from scalene_trace.recorder.convert.native import names as names_module
from scalene_trace.recorder.convert.native.demangler import (
    shortened,
    without_arguments,
    without_parameters,
)
from scalene_trace.recorder.convert.native.names import ReadableNames

#: What c++filt prints: what is shown of it.
CPP = {
    "PyObject_Call": "PyObject_Call",
    "void a::f<int>(int) const": "a::f<int>",
    "arrow::io::BufferedOutputStream::Tell() const": "arrow::io::BufferedOutputStream::Tell",
    "at::(anonymous namespace)::(anonymous namespace)::wrapper(at::Tensor const&)": (
        "at::(anonymous namespace)::(anonymous namespace)::wrapper"
    ),
    "(anonymous namespace)::f()": "(anonymous namespace)::f",
    "f(int)::{lambda(char**, long)#1}::operator()(char**, long) const": "f(int)::{lambda(char**, long)#1}::operator()",
    "a::f(int) const::{lambda()#2}::operator()() const": "a::f(int) const::{lambda()#2}::operator()",
    "std::ostream& std::operator<< <char>(std::ostream&, char const*)": "std::operator<< <char>",
    "bool operator><int>(a<int> const&, a<int> const&)": "operator><int>",
    "a::operator->() const": "a::operator->",
    "a::operator bool() const": "a::operator bool",
    "operator new(unsigned long)": "operator new",
    "operator delete[](void*)": "operator delete[]",
    "std::vector<int, std::allocator<int> >::push_back(int const&)": "std::vector<int, std::allocator<int> >::push_back",
    "std::map<int, std::vector<a> > f<(b)2>(void (*)(int))": "f<(b)2>",
    "guard variable for f(int)::x": "guard variable for f(int)::x",
    "{virtual override thunk({offset(-16)}, a::~a())}": "a::~a",
    "": "",
}


def demangled(names: list[str]) -> list[str | None]:
    asked = ReadableNames()
    asked.ask(names)
    return asked.answers(names)


@pytest.mark.parametrize("printed", CPP)
def test_parameters_and_return_types_are_left_out(printed: str) -> None:
    assert without_parameters(printed) == CPP[printed]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("a<b<c>, d>::f<int>", "a<…>::f<…>"),
        ("std::operator<< <char>", "std::operator<< <char>"),
        ("a::operator-><b<c> >", "a::operator-><…>"),
        ("<polars::A<u8>>::f::<B<C>>", "<polars::A<…>>::f::<…>"),
        ("a<&(b->c)>::f", "a<…>::f"),
    ],
)
def test_arguments_of_templates_are_left_out(name: str, short: str) -> None:
    assert without_arguments(name) == short


def test_of_a_long_name_the_outer_arguments_are_kept() -> None:
    name = "a<b<c<d<e>>>, f>::g<h(i<j>)>"
    found = [without_arguments(name, levels) for levels in range(5)]
    assert found == [
        "a<…>::g<…>",
        "a<b<…>, f>::g<h(i<…>)>",
        "a<b<c<…>>, f>::g<h(i<j>)>",
        "a<b<c<d<…>>>, f>::g<h(i<j>)>",
        name,
    ]


def test_of_a_long_name_parameters_of_functions_around_it_are_left_out() -> None:
    name = f"a::f({'int, ' * 40}int) const::{{lambda(int)#1}}::operator()"
    assert shortened(name) == "a::f::{lambda(int)#1}::operator()"
    assert shortened(f"(anonymous namespace)::f({'int, ' * 40}int)::x") == "(anonymous namespace)::f::x"
    assert shortened("f(int)::x") == "f(int)::x"


def test_names_of_both_languages_are_read_and_others_are_left_alone() -> None:
    names = [
        "PyList_New",
        "_ZNK5arrow2io20BufferedOutputStream4TellEv.cold",
        "_ZN6polars3run28_$u7b$$u7b$closure$u7d$$u7d$17h00112233aabbccddE",
        "_RNvCskwGfYPst2Cb_3foo16example_function",
        "_Z",
        "_RX",
        "_ZN1aIXXadL",
        "_ZN" + "1a" * 90_000 + "Ev",
    ]
    assert demangled(names)[:4] == [
        None,
        "arrow::io::BufferedOutputStream::Tell",
        "polars::run::{{closure}}",
        "foo::example_function",
    ]
    assert not any(demangled(names)[4:7])
    assert demangled([]) == [] and demangled(["main"]) == [None]


def base36(number: int) -> str:
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return digits[number] if number < 36 else digits[number // 36] + digits[number % 36]


BOMB = "_Z1f1aIiiE" + "".join(f"S_IS{base36(number)}_S{base36(number)}_E" for number in range(40))


def test_a_name_that_stands_for_more_than_all_memory_hides_no_other_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demangle, "_TIMEOUT_S", 60.0)
    parts = ["a" * 30] * 20
    long = f"_ZN{''.join(f'{len(part)}{part}' for part in parts)}Ev"
    found = demangled(["_Z3onev", BOMB, "_Z3twov", BOMB + "v", long])
    assert found[:4] == ["one", None, "two", None]
    assert (found[4] or "").startswith("::".join(parts[:10]))


def test_short_names_are_read_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """So names that use up the time of all names hide none that is shorter."""
    asked: list[str] = []

    def read_two(names: Sequence[str], reader: object) -> list[str]:
        asked.extend(names)
        return ["1:two", "0:one"]

    monkeypatch.setattr(demangle, "_read_apart", read_two)
    assert demangled([BOMB, "main", "_Z5threev", "_Z3onev"]) == [None, None, "two", "one"]
    assert asked == ["_Z3onev", "_Z5threev", BOMB]


def test_a_readable_name_with_control_characters_moves_no_other_name() -> None:
    names = [
        f"_ZN3foo{len(code)}{code}17h00112233aabbccddE" for code in ("$u0$", "$ua$", "$u1b$", "$ud800$", "$u202e$")
    ]
    assert demangled([*names, "_Z3onev", "_Z3two\0_Z5threev", "_Z4fourv"]) == [None] * 5 + ["one", None, "four"]


@pytest.mark.parametrize("executable", ["", None, "/no/such/program"])
def test_without_an_interpreter_names_stay_as_they_are(monkeypatch: pytest.MonkeyPatch, executable: str | None) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    assert demangled(["_Z3onev"]) == [None]


def test_a_recorder_that_was_packed_into_a_file_does_not_start_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    packed = tmp_path / "scalene-record"
    packed.write_text(f"#!/bin/sh\ntouch '{started}'\n")
    packed.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(packed))
    monkeypatch.setattr(demangle, "_PROGRAM", tmp_path / "demangler.py")
    assert demangled(["_Z3onev"]) == [None] and not started.exists()


def test_a_process_that_leaves_the_pipe_open_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text("#!/bin/sh\nprintf '0:one\\0x:y\\0007:z\\0001:tw'; sleep 4; true\n")
    wrapper.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(wrapper))
    monkeypatch.setattr(demangle, "_TIMEOUT_S", 1.0)
    began_s = time.monotonic()
    assert demangled(["_Z3onev", "_Z3twov"]) == ["one", None]
    assert time.monotonic() - began_s < 3


def test_a_process_that_was_started_early_is_used_once_or_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[demangle.Reader] = []

    class Counted(demangle.Reader):
        def __init__(self) -> None:
            super().__init__()
            started.append(self)

    for module in (demangle, names_module):
        monkeypatch.setattr(module, "Reader", Counted)
    names = ReadableNames()
    names.prepare()
    assert not started, "nobody has asked for a name"
    names.ask(["_Z3onev"])
    names.settle()
    names.prepare()
    names.prepare()
    assert len(started) == 2
    names.ask(["_Z3twov"])
    assert names.answers(["_Z3onev", "_Z3twov"]) == ["one", "two"] and len(started) == 2
    names.prepare()
    assert names.answers(["_Z3twov"]) == ["two"] and len(started) == 3
    assert [reader._process.returncode for reader in started if reader._process] == [0, 0, 0]


def test_names_are_read_where_memory_is_limited_further() -> None:
    program = "from scalene_trace.recorder.convert.native.demangle import read_names; print(read_names(['_Z3onev']))"
    limit = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_AS, (800 << 20,) * 2); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", limit, sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "{'_Z3onev': 'one'}\n"


@settings(max_examples=3, deadline=None)
@given(st.lists(st.sampled_from(["_Z", "_ZN", "_RN"]).flatmap(lambda start: st.text(max_size=80).map(start.__add__))))
def test_any_names_have_as_many_answers(names: list[str]) -> None:
    assert len(demangled(names)) == len(names)


def test_without_the_packages_names_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demangle, "_PACKAGES", ("no_such_package_1", "no_such_package_2"))
    assert demangled(["_Z3onev"]) == [None]
