"""The options of ``scalene-record`` as typer shows them: ``--help``, ``--version`` and shell completion."""

from __future__ import annotations

from typing import Annotated

import typer

from ...formats.version import VERSION

HELP = """Record where a program spends its time and memory, into one file: trace.parquet.

The program runs as it would without, and ends with its own exit status. Everything from the first word that is no
option, -m, -c or -- on belongs to the program.
"""

EXAMPLES = """[bold]Examples[/bold]

scalene-record app.py --fast

scalene-record -o run.parquet -m pytest -q

scalene-record -c 'print(sum(range(10**8)))'

scalene-record gunicorn app:app

scalene-record --recover trace.parquet.spool

scalene-record --duration 30 gunicorn app:app

scalene-record --pause-at-start --snapshot-every 10min server.py

[bold]From another terminal, while it records to trace.parquet[/bold]

scalene-record --control trace.parquet status

scalene-record --control trace.parquet pause

scalene-record --control trace.parquet resume

scalene-record --control trace.parquet snapshot

scalene-record --control trace.parquet mark "load test begins"

scalene-record --control trace.parquet set cpu-interval=1ms memory-threshold=1MB

set takes cpu-interval, memory-threshold, alloc-interval and copy-threshold, with the values of the options of these names.

[bold]Exit status[/bold]

The program's own, 128 + n when signal n ended it; 125 when the recorder failed or the options are wrong, 126 when the
program cannot be executed, 127 when it is not found.
"""


def application() -> typer.Typer:
    """The typer application; its command does nothing, since options are read before typer is asked."""
    app = typer.Typer(
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"], "allow_interspersed_args": False},
    )
    app.command(help=HELP, epilog=EXAMPLES)(_scalene_record)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"scalene-record {VERSION}")
        raise typer.Exit


def _scalene_record(
    program: Annotated[
        list[str] | None,
        typer.Argument(metavar="app.py [ARGS] | -m MODULE [ARGS] | -c CODE | COMMAND [ARGS]", help="What to record."),
    ] = None,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="The trace. %p = pid; a folder gets a file in it.")
    ] = "trace.parquet",
    python: Annotated[
        str, typer.Option(metavar="PATH", help="Interpreter for scripts, -m and -c.", show_default=False)
    ] = "that of $VIRTUAL_ENV, else scalene-record's own",
    memory: Annotated[
        bool, typer.Option("--no-memory", help="Record neither footprint nor allocations.", show_default=False)
    ] = True,
    copy: Annotated[bool, typer.Option("--no-copy", help="Do not record copies.", show_default=False)] = True,
    wait: Annotated[bool, typer.Option("--no-wait", help="Do not record waits.", show_default=False)] = True,
    gpu: Annotated[bool, typer.Option("--no-gpu", help="Do not look at GPUs.", show_default=False)] = True,
    children: Annotated[bool, typer.Option(help="Record child processes too.")] = True,
    cpu_interval: Annotated[
        str, typer.Option(metavar="TIME", help="CPU time between two ticks of a thread, 10us to 1s.")
    ] = "10ms",
    memory_threshold: Annotated[
        str, typer.Option(metavar="SIZE", help="Change of the footprint that makes a sample; rounded up to a prime.")
    ] = "10MB",
    alloc_interval: Annotated[
        str,
        typer.Option(
            metavar="auto|SIZE|1|0",
            help="Mean bytes between two allocation samples. auto: from 256KB on, about 200 samples a second; "
            "1: every allocation; 0: none.",
        ),
    ] = "auto",
    copy_threshold: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Bytes that a thread copies between two samples; rounded up to a prime.",
            show_default="twice the memory threshold",
        ),
    ] = None,
    gpu_interval: Annotated[
        str, typer.Option(metavar="TIME", help="Time between two looks at the GPUs, 1ms to 10s; 0: none.")
    ] = "50ms",
    cpu_engine: Annotated[
        str, typer.Option(metavar="auto|posix", help="posix: CPU timers even where perf_event_open works.")
    ] = "auto",
    source: Annotated[bool, typer.Option("--no-source", help="Embed no source text.", show_default=False)] = True,
    argv: Annotated[bool, typer.Option("--no-argv", help="Store no command line.", show_default=False)] = True,
    duration: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Record so long (30, 500ms, 5min, 2h), then write the trace while the program runs on untouched; "
            "scalene-record stays its parent and ends with its status.",
        ),
    ] = None,
    snapshot_every: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Write the trace so far, again and again, while the program runs."),
    ] = None,
    pause_at_start: Annotated[
        bool, typer.Option("--pause-at-start", help="Record nothing until told to resume.", show_default=False)
    ] = False,
    recover: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write the trace of a recording whose recorder was killed.")
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(
            metavar="TRACE",
            help="Tell the recording that writes TRACE: pause, resume, snapshot, mark TEXT, set NAME=VALUE..., status.",
        ),
    ] = None,
    version_wanted: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    raise typer.Exit
