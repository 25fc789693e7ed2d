"""What typer prints for ``scalene-record``: ``--help``, ``--version`` and shell completion, from the table of options."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from ...formats.version import VERSION
from .options import NAME, OPTIONS, Option

HELP = """Record where a program spends its time and memory, into one file: trace.parquet.

The program runs as it would alone, and scalene-record exits with its status. Options stand before the program: all
words from the first positional, -m, -c or -- on belong to the program.

SIZE is a number of bytes or has a unit: KB, MB and GB are powers of 1,000 bytes, KiB, MiB and GiB powers of 1,024.
TIME has a unit: us, ms, s, and for long times also min and h.

\b
Examples:
  scalene-record app.py --fast
  scalene-record -o run.parquet -m pytest -q
  scalene-record -c 'print(sum(range(10**8)))'
  scalene-record gunicorn app:app
  scalene-record --duration 30 gunicorn app:app
  scalene-record --pid 4711 --duration 30
  scalene-record --pause-at-start --snapshot-every 10min server.py
  scalene-record -o traces --rotate 10min --keep 168h gunicorn app:app
  scalene-record -o traces --rotate 10min --sample 30s/10min gunicorn app:app
  scalene-record -o traces --rotate 10min --cpu-budget 0.5% gunicorn app:app
  scalene-record --recover trace.parquet.spool
  scalene-record --doctor

\b
From another terminal, while it records to trace.parquet:
  scalene-record --control trace.parquet status
  scalene-record --control trace.parquet pause
  scalene-record --control trace.parquet resume
  scalene-record --control trace.parquet snapshot
  scalene-record --control trace.parquet mark "load test begins"
  scalene-record --control trace.parquet set cpu-interval=1ms

set takes cpu-interval, memory-threshold, alloc-interval and copy-threshold, with the values of the options of the same
names. Several can be set at once.
"""

EXIT_STATUS = """Exit status: that of the program, or 128 + n if signal n ended it; 125 if the recorder failed or an
option is wrong; 126 if the program cannot be executed; 127 if it is not found."""


def application() -> typer.Typer:
    """The typer application. Its command does nothing, because the options are read before typer is asked."""
    app = typer.Typer(
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "allow_interspersed_args": False},
    )
    app.command(help=HELP, epilog=EXIT_STATUS)(_command())
    return app


def _command() -> Any:
    """A function whose parameters are the table of options, for typer to read."""

    def scalene_record(**_: Any) -> None:
        raise typer.Exit

    parameters = [
        _parameter("program", list[str] | None, None, typer.Argument(metavar="PROGRAM", help=_PROGRAM_HELP)),
        *map(_option_parameter, OPTIONS),
        _parameter("version_wanted", bool, False, _VERSION),
    ]
    scalene_record.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    scalene_record.__annotations__ = {each.name: each.annotation for each in parameters}
    return scalene_record


def _option_parameter(option: Option) -> inspect.Parameter:
    shown = option.shown_default or bool(option.default)
    if option.metavar is None:
        names = (f"{option.name}/{option.off_name}",) if option.off_name else option.names
        about = typer.Option(*names, help=option.help, show_default=shown)
        return _parameter(option.key, bool, bool(option.default), about)
    about = typer.Option(
        *option.names,
        metavar=option.metavar,
        help=option.help,
        show_default=shown,
        autocompletion=(lambda: list(option.choices)) if option.choices else None,
    )
    return _parameter(option.key, list[str] | None if option.read_all else str | None, option.default, about)


def _parameter(name: str, kind: Any, default: Any, about: Any) -> inspect.Parameter:
    place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, place, default=default, annotation=Annotated[kind, about])


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"{NAME} {VERSION}")
        raise typer.Exit


_PROGRAM_HELP = "What to record: app.py [ARGS], -m MODULE [ARGS], -c CODE [ARGS], or COMMAND [ARGS]."
_VERSION = typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
