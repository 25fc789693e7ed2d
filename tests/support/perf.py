"""Samples of Linux perf: a program without the recorder, with DWARF call chains and symbols."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

#: The bytecode loop; and functions that set up, enter or clear the frame of a Python function, whose work is Python's, whoever
#: calls them.
LOOP = "_PyEval_EvalFrameDefault"
FRAMES = (
    *("_PyEval_Vector", "_PyEval_EvalFrame", "_PyEval_MakeFrameVector", "_PyEvalFramePushAndInit", "initialize_locals"),
    *("_PyEvalFrameClearAndPop", "clear_thread_frame", "_PyFrame_Clear", "_PyFrame_New", "frame_dealloc"),
    *("_PyFunction_Vectorcall", "function_code_fastcall", "_PyThreadState_PushFrame", "_PyThreadState_PopFrame"),
)


@dataclass(frozen=True)
class Frame:
    """A function on a native stack. ``offset``: of the instruction in its file; one less than a return address."""

    offset: int
    symbol: str
    file: str

    @property
    def name(self) -> str:
        """The function's name, without the suffixes of parts that a compiler made."""
        return self.symbol.split(".")[0]


@dataclass(frozen=True)
class Sample:
    """When it was taken, by CLOCK_MONOTONIC, and the native stack, innermost first."""

    t_ns: int
    frames: list[Frame]


@dataclass(frozen=True)
class Sampled:
    """The output of a program, and its samples."""

    stdout: str
    samples: list[Sample]


def sampled(command: Sequence[str | Path], rate_hz: int = 2000, stack_bytes: int = 16384, depth: int = 127) -> Sampled:
    """Runs a program under perf. The stack is unwound up to ``depth`` frames, as far as so many bytes of it lead."""
    with TemporaryDirectory() as folder:
        data = str(Path(folder) / "perf.data")
        perf = ["perf", "record", "-q", "-o", data, "-k", "mono", "-e", "cpu-clock:u", "-F", str(rate_hz)]
        graph = ["--call-graph", f"dwarf,{stack_bytes}"]
        done = subprocess.run([*perf, *graph, "--", *map(str, command)], capture_output=True, text=True, check=True)
        script = ["perf", "script", "-i", data, "-F", "time,ip,sym,dso", "--no-inline", "--ns", f"--max-stack={depth}"]
        with subprocess.Popen(script, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            samples = list(parsed(process.stdout))
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, script)
    return Sampled(done.stdout, samples)


def parsed(lines: Iterable[str]) -> Iterator[Sample]:
    """The samples of perf's text: a line with the time, one line for each function, an empty line."""
    t_ns, frames = 0, list[Frame]()
    known: dict[str, Frame] = {}
    for line in lines:
        text = line.strip()
        if not text:
            yield Sample(t_ns, frames)
        elif not line.startswith("\t"):
            seconds, _, fraction = text.rstrip(":").partition(".")
            t_ns, frames = int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0")), []
        else:
            if text not in known:
                known[text] = frame_of(text)
            frames.append(known[text])


def frame_of(text: str) -> Frame:
    """A function of perf's text: ``14e40b _PyTypes_InitTypes (/usr/lib/libpython3.13.so.1.0)``."""
    offset, _, rest = text.partition(" ")
    symbol, _, file = rest.rpartition(" (")
    return Frame(int(offset, 16), symbol.strip(), file.removesuffix(")"))
