"""Every question about a fleet, asked in one process, on Spark, and at a URL: do they give the same answer?

Spark is a server of Spark Connect on a ``local-cluster`` of two workers, of which one is killed during the map; one
question is asked on a session of its own too. The URL is that of an S3 server that runs here (moto). What is added up
on Spark are invented figures, because copies of one trace are too much alike for tests of differences. ``python -m
tests.long.fleet_engines`` installs both servers in an environment below ``build/fleet`` on first use, compares the
answers to nine digits, and writes a dated result into ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scalene_trace.cli.fleet.group import COMMANDS
from scalene_trace.formats.fleet import layout
from tests.support.dated_results import write_result
from tests.support.fleets import NOT_ASKED, forged, replaced, write_fleet
from tests.support.paths import ROOT
from tests.support.recording import record
from tests.support.s3_server import ADDRESS, HOME, s3_server, server_python, url_at
from tests.support.simulated_fleet import write_large

PACKAGES = ("pyspark[connect]>=4.0", "sqlglot>=25")
MASTER = "local-cluster[2,1,1024]"
PORT, CONNECT_PORT = 9124, 15_124
CONNECT = f"sc://{ADDRESS}:{CONNECT_PORT}"
URL = url_at(PORT, "fleet")
#: What a question needs besides the fleet.
ARGUMENTS: dict[str, list[str]] = {
    "diff": ["--before", "version=1.4.0", "--after", "version=1.4.1"],
    "traces": ["--limit", "20"],
}
#: Questions that show whether all summaries were made: copies of one trace are too much alike for tests of differences.
OF_SUMS = ("report", "functions", "traces")
#: Figures that differ between runs, or that say where the answer is from.
_OWN = ("folder",)
_DIGITS = 9


def environment() -> Path:
    """The interpreter of an environment with Spark, the S3 server and this package."""
    python = server_python(PACKAGES)
    here = subprocess.run(
        [sys.executable, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    (site,) = (HOME / "lib").glob("python*/site-packages")
    (site / "here.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    return python


def ask(python: Path, *words: str | Path, env: dict[str, str] | None = None) -> bytes:
    """What scalene-analyze prints. Raises CalledProcessError, after its messages were shown."""
    command = [python, "-m", "scalene_trace.cli.analyze.start", *words]
    done = subprocess.run([*map(str, command)], capture_output=True, env=os.environ | (env or {}))
    if done.returncode:
        print(done.stderr.decode(), file=sys.stderr)
        done.check_returncode()
    return done.stdout


def rounded(value: Any) -> Any:
    """An answer without what is its own, and with floats to nine digits."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items() if name not in _OWN}
    if isinstance(value, list):  # rows whose sums differ in the last digits only may change places
        return sorted(map(rounded, value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


def questions() -> Iterator[tuple[str, list[str]]]:
    """Every question, and what it needs."""
    for name in COMMANDS:
        if name not in NOT_ASKED:
            yield name, ARGUMENTS.get(name, [])


def answers(
    python: Path, place: str | Path, *more: str, env: dict[str, str] | None = None, only: Sequence[str] = ()
) -> dict[str, Any]:
    """The answer to each question (or to those in ``only``), and the seconds that it took, by name."""
    found: dict[str, Any] = {}
    for name, words in questions():
        if only and name not in only:
            continue
        start_s = time.monotonic()
        text = ask(python, "fleet", name, "--json", *words, *more, str(place), env=env)
        found[name] = (rounded(json.loads(text)), time.monotonic() - start_s)
    return found


def names_the_damaged(python: Path, folder: Path, env: dict[str, str]) -> bool:
    """Does a question on Spark name the batch that has a figure which is no number?"""
    path = layout.batches(folder)[0]

    def broken(table: pa.Table) -> pa.Table:
        values = table.column("value").to_pylist()
        values[-1] = float("nan")
        return replaced("value", values, pa.float64())(table)

    forged(path, broken)
    command = [python, "-m", "scalene_trace.cli.analyze.start", "fleet", "report", "--engine", MASTER, folder]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=os.environ | env)
    return done.returncode != 0 and path.name in done.stderr


def kill_a_worker(server: int, after_s: float, killed: list[int]) -> None:
    """Kills one of the workers in the session of the server, so long after both are there."""
    for _ in range(600):
        time.sleep(0.1)
        done = subprocess.run(
            ["pgrep", "-s", str(server), "-f", "CoarseGrainedExecutorBackend"], capture_output=True, text=True
        )
        workers = [int(word) for word in done.stdout.split()]
        if len(workers) >= 2:
            time.sleep(after_s)
            os.kill(workers[0], signal.SIGKILL)
            killed.append(workers[0])
            return


@contextmanager
def spark_server(python: Path, logs: Path) -> Iterator[int]:
    """A server of Spark Connect with two workers; gives its pid, which is that of its session."""
    (spark,) = (HOME / "lib").glob("python*/site-packages/pyspark")
    submit = [spark / "bin" / "spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    settings = {"spark.master": MASTER, "spark.connect.grpc.binding.port": CONNECT_PORT, "spark.ui.enabled": "false"}
    more = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    env = os.environ | {"SPARK_LOCAL_IP": ADDRESS, "PYSPARK_PYTHON": str(python), "SPARK_HOME": str(spark)}
    with logs.open("wb") as log:
        command = [*map(str, submit), *more, "spark-internal"]
        server = subprocess.Popen(command, stdout=log, stderr=log, env=env, start_new_session=True)
        try:
            for _ in range(600):
                with socket.socket() as probe:
                    if probe.connect_ex((ADDRESS, CONNECT_PORT)) == 0:
                        break
                time.sleep(0.2)
            else:
                raise SystemExit(f"Spark did not start:\n{logs.read_text()[-2000:]}")
            yield server.pid
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait()


def of_many_hosts(python: Path, written: str | None, hosts: int, name: str) -> int:
    """Asks for the report over the summaries of so many hosts here and on Spark. ``written``: a folder with them; ``name``: a
    folder for what is made. Writes the result."""
    folder = Path(written or name)
    if not written:  # in a process of its own: what one takes is counted with what its parent held when it began
        code = f"from pathlib import Path; from tests.support.simulated_fleet import write_hosts; write_hosts(Path({name!r}), {hosts})"
        subprocess.run([sys.executable, "-c", code], check=True)
    size_bytes = sum(path.stat().st_size for path in layout.batches(folder))
    figures = sum(pq.read_metadata(path).num_rows for path in layout.batches(folder))
    lines = [
        f"{hosts:,} hosts: {figures:,} rows in {len(layout.batches(folder))} batches, {size_bytes / 2**20:.0f} MiB"
    ]
    found: dict[str, Any] = {}
    for engine in ("local", MASTER):
        command = [
            python,
            "-m",
            "scalene_trace.cli.analyze.start",
            "fleet",
            "report",
            "--json",
            "--engine",
            engine,
            folder,
        ]
        env = os.environ | {"SPARK_LOCAL_IP": ADDRESS, "PYSPARK_PYTHON": str(python)}
        start_s = time.monotonic()
        with Path(name, "answer").open("w+") as answer:
            process = subprocess.Popen([*map(str, command)], stdout=answer, env=env)
            _, status, usage = os.wait4(process.pid, 0)
            wall_s = time.monotonic() - start_s
            assert status == 0, f"the report with --engine {engine} failed"
            answer.seek(0)
            found[engine] = rounded(json.load(answer))
        lines.append(
            f"report, {engine}: {wall_s:.0f} s, of which this process {usage.ru_utime + usage.ru_stime:.0f} CPU s, {usage.ru_maxrss / 1024:.0f} MiB"
        )
    is_equal = found["local"] == found[MASTER]
    lines.append(f"the same rows: {'yes' if is_equal else 'NO'} ({len(found['local']['lines'])} lines)")
    print("\n".join(lines))
    write_result("fleet-hosts", {"hosts": hosts, "rows": figures, "equal": is_equal}, "\n".join(lines))
    return not is_equal


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares, prints the table, and returns 1 if an answer differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=400)
    parser.add_argument("--print-only", action="store_true", help="write no result file")
    parser.add_argument("--hosts", type=int, help="only the report over 10^8 figures of so many hosts (10000)")
    parser.add_argument("--written", help="with --hosts: a folder with their summaries, by simulated_fleet.write_hosts")
    options = parser.parse_args(arguments)
    python = environment()
    if options.hosts:
        with TemporaryDirectory(prefix="scalene-fleet-") as name:
            return of_many_hosts(python, options.written, options.hosts, name)
    with TemporaryDirectory(prefix="scalene-fleet-") as name:
        folder, on_spark = Path(name, "fleet"), Path(name, "spark")
        env = {"XDG_CACHE_HOME": str(Path(name, "cache")), "SPARK_LOCAL_IP": ADDRESS, "PYSPARK_PYTHON": str(python)}
        done = record(Path(name, "t.parquet"), [ROOT / "examples" / "catalogue.py"])
        assert done.status == 0, done.stderr.decode()
        write_fleet(folder, done.trace, options.traces, hosts=20)
        shutil.copytree(folder, on_spark, copy_function=shutil.copy2)
        invented = Path(name, "invented")
        invented.mkdir()
        write_large(invented, options.traces, hosts=40)
        ask(python, "fleet", "index", folder)
        here, of_invented = answers(python, folder), answers(python, invented)

        killed: list[int] = []
        with spark_server(python, Path(name, "spark.log")) as server:
            threading.Thread(target=kill_a_worker, args=(server, 4.0, killed), daemon=True).start()
            start_s = time.monotonic()
            indexed = json.loads(ask(python, "fleet", "index", "--json", "--engine", CONNECT, on_spark, env=env))
            map_s = time.monotonic() - start_s
            mapped = answers(python, on_spark, env=env, only=OF_SUMS)
            spark = answers(python, invented, "--engine", CONNECT, env=env)
        alone = rounded(json.loads(ask(python, "fleet", "report", "--json", "--engine", MASTER, invented, env=env)))
        is_named = names_the_damaged(python, invented, env)
        with s3_server(PORT, "fleet", folder):
            ask(python, "fleet", "index", URL, env=env)
            s3 = answers(python, URL, env=env)
    checks = [(f"{name}, made on Spark", here[name][0], mapped[name][0]) for name in OF_SUMS]
    checks.append(("report on a session of its own", of_invented["report"][0], alone))
    checks.append(("a batch with an impossible value is named on Spark", is_named, True))
    lines = [f"map on Spark: {indexed['traces']} traces in {map_s:.0f} s, workers killed: {len(killed)}"]
    lines += [f"{what}: {'equal' if one == other else 'NOT EQUAL'}" for what, one, other in checks]
    lines.append(f"{'question':12} {'here s':>7} {'Spark s':>8} {'S3 s':>6}  equal on Spark, at S3")
    is_equal = bool(killed) and all(one == other for _, one, other in checks)
    for question, (answer, here_s) in of_invented.items():
        same = [answer == spark[question][0], here[question][0] == s3[question][0]]
        is_equal &= all(same)
        times = f"{here_s:7.2f} {spark[question][1]:8.1f} {s3[question][1]:6.2f}"
        lines.append(f"{question:12} {times}  {' '.join('yes' if each else 'NO' for each in same)}")
    text = "\n".join(lines)
    print(text)
    if not options.print_only:
        write_result("fleet-engines", {"traces": options.traces, "equal": is_equal}, text)
    return not is_equal


if __name__ == "__main__":
    sys.exit(main())
