"""Makes the trace's locations and stacks from the spool's nodes, which are linked to their parents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from ....formats.cpython.jumps import backward_targets
from ....formats.cpython.linetable import NO_LINE, Encoded, LineTable, line_tables, supported
from ....formats.cpython.opcodes import instruction_set
from ....formats.dataclass import dataclass
from ....formats.spool.codes import CodeObject
from ....formats.trace.columns import Lists, Masked
from ....formats.trace.text import storable
from ..keyed.by_key import Ints, ids_of, index_of
from .columns import rows_by_key

Hashes = npt.NDArray[np.uint64]
Location = tuple[str, str, int, int]  #: file, function, first line, line

#: Stands for a frame whose code object is not in the spool.
UNKNOWN_CODE = CodeObject(0, 0, "<not recorded>", "<not recorded>", b"", b"")

#: Stands for labels whose text is not in the spool.
UNKNOWN_LABEL = "not_recorded=1"

#: Locations (int32 as bytes), whether outer frames are missing, hash of the label.
_Chain = tuple[bytes, bool, int]


#: More than a code object has code units, and more than a line's number can be.
_CODE_UNITS, _LINES = 1 << 32, 1 << 32

_NO_PARENT = -1
_LOST_PARENT = -2
#: A deeper chain is a cycle in a damaged spool: the shim's own limit is far lower.
_DEEPEST = 8192
_STACKS_AT_A_TIME = 4096
_MOST_LABELS, _MOST_LABEL_BYTES = 64, 1024
#: Of line tables that are kept while a program runs.
_MOST_LINE_BYTES = 64 << 20
_LINE_TABLE_BYTES = 600  # of one table beside its contents


@dataclass(frozen=True)
class Nodes:
    """The distinct nodes, sorted by hash. All arrays have one element for each node. ``parent``: index of the parent node,
    -1 = outermost, -2 = not in the spool; ``code``: index into ``codes``; ``instruction``: code unit; ``truncated``: outer
    frames are missing; ``location``: index into ``locations``; ``label``: hash of the label of stacks with this innermost
    node, 0 = none."""

    hashes: Hashes
    parent: Ints
    code: Ints
    instruction: Ints
    truncated: npt.NDArray[np.bool_]
    location: Ints
    label: Hashes
    codes: list[CodeObject]
    locations: list[Location]

    def program_files(self) -> set[str]:
        """The files that are run as programs: their code is outermost on a stack, or called by runpy."""
        runs_others = {
            file: file == "<frozen runpy>" or file.endswith("/runpy.py")
            for file in {file for file, *_ in self.locations}
        }
        files = np.array([runs_others[file] for file, *_ in self.locations] + [False])
        of_parent = self.location[np.maximum(self.parent, _NO_PARENT)]
        below = (self.parent == _NO_PARENT) | ((self.parent >= 0) & files[of_parent])
        found = (self.locations[each] for each in np.unique(self.location[below]).tolist())
        return {file for file, name, *_ in found if name == "<module>"}

    def index_of(self, hashes: Hashes) -> Ints:
        """Index of the node of each hash, -1 where it is not in the spool."""
        return index_of(self.hashes, hashes)


@dataclass(frozen=True)
class Stacks:
    """Stacks by the hashes of their innermost nodes. ``hashes``: sorted; ``ids``: the stack id of each, from 1, 0 = the node
    is not in the spool; ``table``: the ``stack`` table; ``innermost``: innermost location of each stack id; ``unresolved``:
    number of stacks with frames that are not in the spool."""

    hashes: Hashes
    ids: Ints
    table: dict[str, Any]
    innermost: Ints
    unresolved: int

    def id_of(self, hashes: Hashes) -> Masked:
        """Stack id of each node hash, masked where there is none."""
        return ids_of(self.hashes, self.ids, hashes)


class Lines:
    """Decodes line tables, and can keep them for as long as a program runs: those of ``add``, up to about 64 MiB."""

    def __init__(self) -> None:
        self._known: dict[Encoded, LineTable] = {}
        self._left_bytes = _MOST_LINE_BYTES

    def add(self, codes: Iterable[CodeObject]) -> None:
        """Keeps the tables of these code objects."""
        if self._left_bytes < 0:
            return
        wanted = [each for each in dict.fromkeys(map(_encoded, codes)) if each not in self._known]
        for each, table in zip(wanted, line_tables(wanted), strict=True):
            self._left_bytes -= table.starts.nbytes + table.lines.nbytes + len(each.table) + _LINE_TABLE_BYTES
            if self._left_bytes < 0:
                return
            self._known[each] = table

    def tables(self, codes: Iterable[CodeObject]) -> Iterator[LineTable]:
        """The table of each code object, in order."""
        wanted = list(map(_encoded, codes))
        known = [self._known.get(each) for each in wanted]
        others = line_tables([each for each, table in zip(wanted, known, strict=True) if table is None])
        for table in known:
            yield table or next(others)


def _encoded(code: CodeObject) -> Encoded:
    return Encoded(code.python_version, code.first_line, code.line_table)


def read_nodes(records: npt.NDArray[np.void], codes: dict[int, CodeObject], known: Lines | None = None) -> Nodes:
    """The nodes with their lines. ``records``: distinct node records, sorted by hash; ``codes``: by hash; ``known``: line
    tables that were decoded before."""
    hashes = records["hash"]
    parents = records["parent"]
    parent = np.where(parents == 0, _NO_PARENT, index_of(hashes, parents))
    parent[(parents != 0) & (parent < 0)] = _LOST_PARENT
    code_hashes, code = np.unique(records["code"], return_inverse=True)
    objects = [codes.get(int(each), UNKNOWN_CODE) for each in code_hashes]
    instruction = records["instruction"].astype(np.int64)
    lines = _lines(objects, code, instruction, known or Lines())
    location, locations = _locations(objects, code, lines)
    truncated = records["truncated"] != 0
    return Nodes(hashes, parent, code, instruction, truncated, location, records["label"], objects, locations)


def _lines(objects: list[CodeObject], code: Ints, instruction: Ints, known: Lines) -> Ints:
    """The line of each node. The line tables of all code objects are decoded once, and searched as one."""
    tables = list(known.tables(objects))
    lengths = np.array([len(each.starts) for each in tables], np.int64)
    starts = np.concatenate([*(each.starts for each in tables), np.empty(0, np.int64)])
    all_lines = np.concatenate([*(each.lines for each in tables), np.empty(0, np.int64)])
    keys = np.repeat(np.arange(len(tables)) * _CODE_UNITS, lengths) + np.minimum(starts, _CODE_UNITS - 1)
    run = np.searchsorted(keys, code * _CODE_UNITS + instruction, "right") - 1
    has_run = run >= (np.cumsum(lengths) - lengths)[code]
    first_lines = np.array([each.first_line for each in tables], np.int64)
    lines: Ints = np.where(has_run, np.append(all_lines, 0)[run], first_lines[code])
    without = np.flatnonzero(lines == NO_LINE)
    for number, of_code in rows_by_key(code[without]):
        rows = without[of_code]
        lines[rows] = _lines_of_targets(objects[number], tables[number], instruction[rows])
    return lines


def _lines_of_targets(code: CodeObject, table: LineTable, units: Ints) -> Ints:
    """Lines of instructions that have none: that of the loop's head for a jump at the end of its body, else NO_LINE."""
    instructions = instruction_set(code.python_version)
    if instructions is None:
        return np.full(len(units), NO_LINE, np.int64)
    found = backward_targets(instructions, code.bytecode, units.tolist())
    targets = np.array([-1 if target is None else target for target in found], np.int64)
    return np.where(targets >= 0, table.lines_of(targets), NO_LINE)


def _locations(objects: list[CodeObject], code: Ints, lines: Ints) -> tuple[Ints, list[Location]]:
    """Index of each node's location, and the distinct locations (two code objects may share one)."""
    pairs, of_node = np.unique(code * _LINES + lines + _LINES // 2, return_inverse=True)  # a line may be negative
    ids: dict[Location, int] = {}
    of_pair = np.empty(len(pairs), np.int64)
    code_of, line_of = np.divmod(pairs, _LINES)
    for number, (code_index, line) in enumerate(zip(code_of.tolist(), (line_of - _LINES // 2).tolist(), strict=True)):
        each = objects[code_index]
        of_pair[number] = ids.setdefault((each.file, each.name, each.first_line, line), len(ids))
    return of_pair[of_node], list(ids)


def unknown_line_tables(nodes: Nodes) -> int:
    """The number of code objects from a Python version whose line table format is unknown."""
    return sum(not supported(each.python_version) for each in nodes.codes if each is not UNKNOWN_CODE)


def unknown_instructions(nodes: Nodes) -> int:
    """The number of code objects from a Python version whose instructions are unknown."""
    return sum(instruction_set(each.python_version) is None for each in nodes.codes if each is not UNKNOWN_CODE)


def resolve_stacks(nodes: Nodes, wanted: Hashes, texts: Mapping[int, str]) -> Stacks:
    """The stacks of the node hashes ``wanted``. Equal chains of locations with equal labels are one stack. ``texts``: those of
    labels, by hash."""
    hashes = np.unique(wanted)
    index = nodes.index_of(hashes)
    ids = np.zeros(len(hashes), np.int64)
    known: dict[_Chain, int] = {}
    unresolved = int(np.count_nonzero(index < 0))
    for at in range(0, len(hashes), _STACKS_AT_A_TIME):
        block = index[at : at + _STACKS_AT_A_TIME]
        chains, truncated, lost = _chains(nodes, block)
        unresolved += lost
        for row in np.flatnonzero(block >= 0).tolist():
            chain = chains[row], bool(truncated[row]), int(nodes.label[block[row]])
            ids[at + row] = known.setdefault(chain, len(known) + 1)
    return _stack_table(nodes, hashes, ids, known, unresolved, texts)


def _chains(nodes: Nodes, start: Ints) -> tuple[list[bytes], npt.NDArray[np.bool_], int]:
    """For each node of ``start``: its locations, innermost first (int32 as bytes), and whether outer frames are missing;
    then the number of nodes for which they are missing because they are not in the spool."""
    current = start.copy()
    columns: list[npt.NDArray[np.int32]] = []
    truncated = np.zeros(len(start), np.bool_)
    lost = np.zeros(len(start), np.bool_)
    while (current >= 0).any() and len(columns) < _DEEPEST:
        active = current >= 0
        columns.append(np.where(active, nodes.location[current], -1).astype(np.int32))
        truncated |= active & nodes.truncated[current]
        current = np.where(active, nodes.parent[current], _NO_PARENT)
        lost |= current == _LOST_PARENT
    lost |= current >= 0
    matrix = np.stack(columns, axis=1) if columns else np.empty((len(start), 0), np.int32)
    depth = (matrix >= 0).sum(axis=1).tolist()
    return [row[:n].tobytes() for row, n in zip(matrix, depth, strict=True)], truncated | lost, int(lost.sum())


def _stack_table(
    nodes: Nodes, hashes: Hashes, ids: Ints, known: dict[_Chain, int], unresolved: int, texts: Mapping[int, str]
) -> Stacks:
    chains = [np.frombuffer(chain, np.int32) for chain, *_ in known]
    labels = {label: labels_in(texts.get(label, UNKNOWN_LABEL)) if label else None for *_, label in known}
    parts = [_location_bytes(location) for location in nodes.locations]
    digests = [blake2b(b"".join(map(parts.__getitem__, each.tolist())), digest_size=8).digest() for each in chains]
    lengths = np.array([len(chain) for chain in chains], np.int64)
    table = {
        "stack": np.arange(1, len(chains) + 1, dtype=np.int32),
        "hash": np.frombuffer(b"".join(digests), "<i8"),
        "locations": Lists(
            np.concatenate([*chains, np.empty(0, np.int32)]), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        ),
        "truncated": [truncated for _, truncated, _ in known],
        "labels": [labels[label] for *_, label in known],
    }
    innermost = np.array([chain[0] for chain in chains], np.int64)
    return Stacks(hashes, ids, table, innermost, unresolved)


def labels_in(text: str) -> list[str]:
    """The labels in a text of the spool: NAME=VALUE each, by name. What the recorder's own module does not write (a program may
    write anything) is left out. Characters that only the program's Python can print are replaced by ``?``."""
    pairs = {storable(each) for each in text[:_MOST_LABEL_BYTES].split("\0")[:_MOST_LABELS] if each.find("=") > 0}
    return sorted("".join(each if each.isprintable() else "?" for each in pair) for pair in pairs)


def _location_bytes(location: Location) -> bytes:
    file, function, first_line, line = location
    return f"{file}\0{function}\0{first_line}\0{line}\n".encode("utf-8", "surrogatepass")


def python_version_text(version: int) -> str:
    """PY_VERSION_HEX as text: 0x030b07f0 → "3.11.7"."""
    major, minor, micro, level, serial = (
        version >> 24,
        version >> 16 & 255,
        version >> 8 & 255,
        version >> 4 & 15,
        version & 15,
    )
    suffix = {0xA: "a", 0xB: "b", 0xC: "rc"}.get(level)
    return f"{major}.{minor}.{micro}" + (f"{suffix}{serial}" if suffix else "")
