"""Where the parts of the checkout are."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
DOCS = ROOT / "docs"
#: Programs that are recorded.
TARGETS = TESTS / "targets"
#: Scripted replacements for libraries of graphics cards.
STANDINS = TESTS / "support" / "standins"
#: Inputs of the fuzzer that once found a defect, and those that it starts from.
SUPPORT = TESTS / "support"
CORPUS = SUPPORT / "corpus"
#: How long a test waits for a program that should end by itself, in seconds: long, because other work may keep the machine
#: busy. Only a program that hangs takes as long.
PATIENCE_S = 600
