"""What runs in a signal handler or inside malloc calls nothing that allocates or locks.

The contexts are in the headers: a comment with "Context: signal" or "Context: malloc" holds for the prototypes that
follow it up to the next comment or empty line, or for the one that it stands behind. From each such function, its
definition and the static functions of the same file that it reaches are inspected. Functions of other files that they
call must be marked themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.paths import ROOT

SHIM = ROOT / "shim"
#: The unit tests do not run in the program, and the watcher has no signal handlers.
OUTSIDE = ("tests", "watch")

#: They allocate, lock, format, or ask the loader.
FORBIDDEN = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "valloc",
    "pvalloc",
    "strdup",
    "strndup",
    "asprintf",
    "printf",
    "fprintf",
    "vprintf",
    "vfprintf",
    "dprintf",
    "sprintf",
    "snprintf",
    "vsnprintf",
    "puts",
    "fputs",
    "fopen",
    "fdopen",
    "fclose",
    "fread",
    "fwrite",
    "fflush",
    "fgets",
    "getline",
    "perror",
    "syslog",
    "openlog",
    "opendir",
    "readdir",
    "closedir",
    "dlopen",
    "dlclose",
    "dlsym",
    "dlvsym",
    "dladdr",
    "dladdr1",
    "dl_iterate_phdr",
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "pthread_cond_wait",
    "pthread_cond_signal",
    "pthread_rwlock_rdlock",
    "sem_wait",
    "pthread_create",
    "pthread_join",
    "pthread_key_create",
    "pthread_atfork",
    "atexit",
    "exit",
    "getenv",
    "setenv",
    "putenv",
    "unsetenv",
    "localtime",
    "gmtime",
    "mktime",
    "sleep",
    "usleep",
    "timer_create",
    "timer_settime",
    "timer_delete",
]
CALL = re.compile(rf"(?<![\w.>])({'|'.join(FORBIDDEN)})\s*\(")

#: Function: the forbidden calls that it may make, and why.
EXCEPTIONS = {
    "next_resolve": (
        {"dlsym", "dladdr", "dladdr1", "dl_iterate_phdr"},
        "runs once, before the program does; what the loader allocates meanwhile comes from bootstrap_alloc",
    ),
    "executable_find": (
        {"getenv"},
        "reads PATH where execvp reads it too; getenv takes no lock",
    ),
    **{
        name: ({"pthread_mutex_unlock"}, "gives back the loader's locks, which it never waits for")
        for name in ("loader_begin", "loader_end")
    },
    **{
        name: ({"dl_iterate_phdr"}, "has the loader's lock, which is recursive, so that this call does not wait")
        for name in ("slots_lead_here", "slots_lead_back", "slots_refresh")
    },
}

#: Exported and defined by us, but a macro of base.h for the shim itself.
OURS = {"memcpy"}

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"')
PHRASE = re.compile(r"Context: (signal|malloc)")
PROTOTYPE = re.compile(
    r"^(?!#|typedef|extern|struct \w+ \{|enum)[A-Za-z_][^;{}()=]*[ *](\w+)\((?:[^;{}])*\)(?:;| \{)", re.M
)
DEFINITION = re.compile(
    r"^(?!#|typedef|struct \w+ \{|enum)([A-Za-z_][^\n;{}()=]*[ *])(\w+)\([^;{}]*\) \{", re.MULTILINE
)


@dataclass(frozen=True)
class Function:
    """A definition: its file and body."""

    path: Path
    name: str
    is_static: bool
    body: str


@dataclass
class Findings:
    """What was inspected, and what was found there."""

    inspected: set[str] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


def sources(shim: Path, suffix: str) -> list[Path]:
    """The files below shim/ that run in the program."""
    return [path for path in sorted(shim.rglob(f"*{suffix}")) if path.relative_to(shim).parts[0] not in OUTSIDE]


def code_of(text: str) -> str:
    """The text without comments and strings, at the same offsets."""
    return TEXT.sub(
        lambda t: '"' + " " * (len(t[0]) - 2) + '"', COMMENT.sub(lambda c: re.sub(r"[^\n]", " ", c[0]), text)
    )


def marked_functions(text: str) -> Iterator[str]:
    """Names of the functions whose prototype or definition is marked with the contexts."""
    code = code_of(text)
    for comment in COMMENT.finditer(text):
        if not PHRASE.search(re.sub(r"\n \*", "", comment[0])):
            continue
        line_start = text.rfind("\n", 0, comment.start()) + 1
        before = text[line_start : comment.start()].strip()
        if before:  # it stands behind its prototype
            yield from PROTOTYPE.findall(code[line_start : comment.start()].rstrip())
            continue
        rest = code[comment.end() :]
        group = re.split(r"\n[ \t]*\n", rest.lstrip("\n"), maxsplit=1)[0]
        until = re.search(r"^/\*", text[comment.end() :].lstrip("\n")[: len(group)], re.MULTILINE)
        group = group[: until.start()] if until else group
        yield from PROTOTYPE.findall(group)


def functions_of(path: Path) -> list[Function]:
    """Every function that a file defines."""
    code = code_of(path.read_text())
    found = []
    for head in DEFINITION.finditer(code):
        brace = head.end() - 1
        newline = code.find("\n", brace)
        one_line = code[brace:newline].count("{") == code[brace:newline].count("}")
        end = newline if one_line else code.find("\n}", brace)
        found.append(Function(path, head[2], "static" in head[1].split(), code[brace:end]))
    return found


def reached(function: Function, own: dict[str, Function]) -> list[Function]:
    """The function, and the static functions of its file that it uses, by a call or by their address."""
    seen, waiting = [], [function]
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.append(each)
        words = set(re.findall(r"\b\w+\b", each.body))
        waiting += [other for name, other in own.items() if other.is_static and name in words]
    return seen


def inspect(shim: Path) -> Findings:
    """Every marked function of a tree."""
    findings = Findings()
    marked = {name for path in sources(shim, ".[ch]") for name in marked_functions(path.read_text())}
    by_file = {path: {each.name: each for each in functions_of(path)} for path in sources(shim, ".[ch]")}
    unmarked = {name for own in by_file.values() for name, each in own.items() if not each.is_static} - marked - OURS
    for name in sorted(marked):
        defined = [
            own
            for own in by_file.values()
            if name in own and not (own[name].is_static and own[name].path.suffix == ".c")
        ]
        defined = defined or [own for own in by_file.values() if name in own]
        if not defined:
            findings.missing.append(name)
        for own in defined:
            findings.inspected.add(name)
            allowed = EXCEPTIONS.get(name, (set(), ""))[0]
            for each in reached(own[name], own):
                found = set(re.findall(r"(?<![\w.>])(\w+)\s*\(", each.body)) & unmarked - set(own)
                findings.violations += [f"{name} calls {other}, whose context is not signal" for other in sorted(found)]
                calls = set(CALL.findall(each.body)) - allowed - set(own)
                place = f"{each.path.relative_to(shim)}: {name}" + (
                    f" through {each.name}" if each.name != name else ""
                )
                findings.violations += [f"{place} calls {call}" for call in sorted(calls)]
    return findings


def test_functions_of_signal_and_malloc_context_call_nothing_that_allocates_or_locks() -> None:
    findings = inspect(SHIM)
    assert findings.missing == []
    assert len(findings.inspected) >= 100
    assert {"spool_claim", "ticks_handle", "fork_check", "chain_verify", "sampler_write"} <= findings.inspected
    assert findings.violations == []


def test_every_exception_is_still_needed() -> None:
    bodies = {each.name: each for path in sources(SHIM, ".c") for each in functions_of(path)}
    for name, (allowed, reason) in EXCEPTIONS.items():
        own = {each.name: each for each in functions_of(bodies[name].path)}
        used = {call for each in reached(bodies[name], own) for call in CALL.findall(each.body)}
        assert allowed <= used and len(reason) > 20, name


def plant(folder: Path, header: str, source: str) -> Findings:
    """Findings in a tree of one header and one source."""
    (folder / "a.h").write_text(header)
    (folder / "a.c").write_text(source)
    return inspect(folder)


@pytest.mark.parametrize(
    "header",
    [
        "/* Writes. Context: signal. */\nvoid write_it(void);\n",
        "/* Writes. Context: malloc (never alone). */\nvoid other(int first,\n           int second);\nvoid write_it(void);\n",
        "/* Writes, and\n * more. Context:\n * signal. */\nvoid write_it(void);\n".replace(
            "Context:\n * signal", "Context: signal"
        ),
        "void write_it(void); /* Writes. Context: signal. */\n",
    ],
)
@pytest.mark.parametrize(
    "call", ["malloc(1)", "printf(text)", "dlsym(0, text)", "pthread_mutex_lock(&lock)", "getenv(text)"]
)
def test_a_planted_call_is_found(tmp_path: Path, header: str, call: str) -> None:
    findings = plant(
        tmp_path, header, f"void other(int first, int second) {{}}\n\nvoid write_it(void) {{\n  {call};\n}}\n"
    )
    assert findings.violations == [f"a.c: write_it calls {call.split('(')[0]}"] and not findings.missing


def test_a_planted_call_of_a_static_function_is_found(tmp_path: Path) -> None:
    source = "static void deep(void) { free(x); }\n\nstatic void step(void) {\n  deep();\n}\n\nvoid f(void) {\n  step();\n}\n"
    findings = plant(tmp_path, "/* Context: signal. */\nvoid f(void);\n", source)
    assert findings.violations == ["a.c: f through deep calls free"]


def test_a_planted_call_of_another_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "b.c").write_text("void other(void) {\n  malloc(3);\n}\n")
    header = "/* Context: signal. */\nvoid f(void);\n\n/* Context: normal. */\nvoid other(void);\n"
    findings = plant(tmp_path, header, "void f(void) {\n  other();\n}\n")
    assert findings.violations == ["f calls other, whose context is not signal"]


def test_a_planted_callback_is_found(tmp_path: Path) -> None:
    source = "static int each(void) {\n  return syslog(1);\n}\n\nvoid f(void) {\n  for_all(each);\n}\n"
    findings = plant(tmp_path, "/* Context: signal. */\nvoid f(void);\n", source)
    assert findings.violations == ["a.c: f through each calls syslog"]


def test_a_mark_on_a_definition_counts(tmp_path: Path) -> None:
    source = "/* Sends it. Context: signal. */\nstatic void send(void) {\n  malloc(3);\n}\n"
    assert plant(tmp_path, "", source).violations == ["a.c: send calls malloc"]


def test_a_marked_prototype_without_a_definition_is_reported(tmp_path: Path) -> None:
    assert plant(tmp_path, "/* Context: signal. */\nvoid nowhere(void);\n", "").missing == ["nowhere"]


def test_calls_through_pointers_words_in_comments_and_other_contexts_are_no_violations(tmp_path: Path) -> None:
    header = "/* Context: signal. */\nvoid f(void);\n\n/* Context: normal. */\nvoid g(void);\nvoid h(void);\n"
    body = 'next.malloc(3);\n  below->free(x); /* not free(x) */\n  say("malloc(3)");\n  my_malloc(3);'
    source = (
        f"void f(void) {{\n  {body}\n}}\n\nvoid g(void) {{\n  malloc(3);\n}}\n\nvoid h(void) {{\n  malloc(3);\n}}\n"
    )
    findings = plant(tmp_path, header, source)
    assert findings.violations == [] and findings.inspected == {"f"}


CONTEXT_NAMES = {"signal", "malloc", "normal"}


def unknown_contexts(text: str) -> set[str]:
    """Words behind "Context:" that name no context, and contexts that are named in another form."""
    text = re.sub(r"\n \* ?", " ", text)
    named = set(re.findall(r"Context: (\w+)", text))
    other_forms = re.findall(r"[Cc]ontext:[^ ]|\bcontext: (?:signal|malloc|normal)\b", text)
    return named - CONTEXT_NAMES | set(other_forms)


def test_contexts_are_named_in_the_fixed_phrase() -> None:
    files = sorted(SHIM.rglob("*.[ch]"))
    assert len(files) > 100
    assert {str(path): found for path in files if (found := unknown_contexts(path.read_text()))} == {}


@pytest.mark.parametrize("text", ["/* Context: handler. */", "/* context: signal */", "/* Context:malloc */"])
def test_a_context_in_other_words_is_found(text: str) -> None:
    assert unknown_contexts(text)
