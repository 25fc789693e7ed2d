"""Writes ``opcodes.json``: instruction numbers, names and inline caches, as the interpreters themselves report them.

``python -m scalene_trace.formats.cpython.generate_opcodes PYTHON…`` runs each interpreter and replaces the entry of its
version. Entries of other versions are kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from .opcodes import DATA_PATH

#: Runs in the interpreter. Each version has the facts in other places. ``base`` maps specialized instructions to the base
#: instruction.
_QUESTION = r"""
import dis, json, opcode, sys
version = "%d.%d" % sys.version_info[:2]
special = {}
if sys.version_info >= (3, 13):
    import _opcode_metadata as metadata
    names = {number: name for name, number in {**metadata.opmap, **metadata._specialized_opmap}.items()}
    special = metadata._specializations
    caches = dict(opcode._inline_cache_entries)
elif sys.version_info >= (3, 11):
    names = {n: name for n, name in enumerate(dis._all_opname) if not name.startswith("<")}
    special = opcode._specializations
    caches = {names[n]: count for n, count in enumerate(opcode._inline_cache_entries) if count and n in names}
else:
    names = {n: name for n, name in enumerate(opcode.opname) if not name.startswith("<")}
    caches = {}
names = {n: name for n, name in names.items() if n < 256}
base = {name: family for family, members in special.items() for name in members}
for name in names.values():  # instrumented and quickened forms are not in the table of specializations
    plain = name[len("INSTRUMENTED_"):]
    if name.startswith("INSTRUMENTED_") and plain in names.values():
        base.setdefault(name, plain)
    if name.endswith(("_ADAPTIVE", "_QUICK")) and name.rsplit("_", 1)[0] in names.values():
        base.setdefault(name, name.rsplit("_", 1)[0])
caches = {name: count for name, count in caches.items() if count}
print(json.dumps({version: {"names": names, "caches": caches, "base": base}}))
"""


def ask(python: str) -> dict[str, Any]:
    """{"3.12": its instructions} of the interpreter ``python`` (a path). Raises OSError, subprocess.CalledProcessError."""
    answer = subprocess.run([python, "-I", "-c", _QUESTION], check=True, capture_output=True, text=True)
    facts: dict[str, Any] = json.loads(answer.stdout)
    return facts


def render(facts: dict[str, Any]) -> str:
    """The text of ``opcodes.json``."""
    return json.dumps(facts, indent=1, sort_keys=True) + "\n"


def main() -> None:
    """Rewrites ``opcodes.json`` with the interpreters named on the command line."""
    facts = json.loads(DATA_PATH.read_text("utf-8")) if DATA_PATH.exists() else {}
    for python in sys.argv[1:]:
        facts |= ask(python)
    DATA_PATH.write_text(render(facts), "utf-8")


if __name__ == "__main__":
    main()
