"""Always-on recording into a bucket for ten minutes: is anything missing, or counted twice?

Two services are rotated every 2 s into an S3 server that runs here (moto), under one folder of waiting traces. One recorder is
killed (-9) at the end of each of the first three parts; the bucket cannot be reached for a minute around the second kill, and
from then on connections are cut in their middle. What all objects of the bucket add up to is compared with what the programs
have counted, and with their rusage; then ``fleet index`` and ``fleet report`` answer for the bucket. ``python -m
tests.long.bucket`` installs the server in an environment below ``build/fleet`` on first use, and writes a dated result into
``benchmarks/results/``. ``--lock FILE`` is held (shared) during each part, so that others may measure in between.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scalene_trace.formats.fleet.remote import RemoteFleet
from scalene_trace.formats.trace.integrity import check_trace
from tests.support.dated_results import write_result
from tests.support.recording import environment, rows, run, target, tool
from tests.support.s3_server import s3_server, url_at
from tests.support.unsteady_proxy import UnsteadyProxy

PORT, PROXY_PORT = 9324, 9325
BUCKET = "always"
SIZE, STATUS = 50_021, 7
OPTIONS = ["--rotate", "2s", "--alloc-interval", "1"]
OUTAGE_S, CUT_SHARE = 60.0, 0.1
PARTS = 4


@dataclass
class Service:
    """What its programs said, the statuses that its recorders returned (-9 = killed), and the most that one took."""

    name: str
    facts: list[dict[str, Any]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    messages: str = ""
    peak_kib: int = 0
    recorder_cpu_s: float = 0.0


@contextmanager
def held(lock: str | None) -> Iterator[None]:
    """The lock of the file, shared."""
    if lock is None:
        yield
        return
    with Path(lock).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


def record_part(service: Service, folder: Path, seconds: float, kills: bool, number: int) -> None:
    """Records a program for so long; then its recorder is killed, or the program ends."""
    out, err = folder / f"{service.name}{number}.out", folder / f"{service.name}{number}.err"
    words = [*tool("scalene-record"), "-o", url_at(PROXY_PORT, BUCKET), "--spool", folder / "spool", *OPTIONS]
    words += ["--label", f"service={service.name}", "--python", sys.executable, target("always_on")]
    words.append(str(10 * seconds if kills else seconds))
    with out.open("wb") as stdout, err.open("wb") as stderr:
        recorder = subprocess.Popen(
            [*map(str, words)], stdout=stdout, stderr=stderr, env=environment(None), start_new_session=True
        )
        until = time.monotonic() + seconds
        while recorder.poll() is None and not (kills and time.monotonic() >= until):
            watch(service, recorder.pid)
            time.sleep(0.5)
        if kills:
            os.kill(recorder.pid, signal.SIGKILL)
        service.statuses.append(recorder.wait())
    service.recorder_cpu_s += 0.0
    until = time.monotonic() + 30
    while not out.read_text().endswith("\n") and time.monotonic() < until:
        time.sleep(0.1)
    service.facts.append(json.loads(out.read_text()))
    service.messages += err.read_text()


def watch(service: Service, pid: int) -> None:
    with suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
        service.peak_kib = max(service.peak_kib, int(found[1]) if found else 0)


def interrupt(proxy: UnsteadyProxy, after_s: float) -> None:
    """The bucket cannot be reached for a minute; then connections are cut."""
    time.sleep(after_s)
    proxy.off()
    time.sleep(OUTAGE_S)
    proxy.on(CUT_SHARE)


@dataclass(frozen=True)
class Trace:
    """What a trace says."""

    service: str
    trace_id: str
    follows: str
    done: int
    cpu_s: float
    lost: list[str]


def read_trace(path: Path) -> Trace:
    found = check_trace(path)
    settings = {row["name"]: row["value"] for row in rows(path, "setting")}
    done = sum(row["size_bytes"] in (SIZE, SIZE + 1) for row in rows(path, "alloc"))
    cpu_s = sum(row["cpu_ns"] for row in rows(path, "thread")) / 1e9
    lost = [row["name"] for row in rows(path, "loss") if row["severity"] != "info"]
    service = json.loads(settings["labels"])["service"]
    return Trace(service, found.trace_id, settings.get("follows", ""), done, cpu_s, lost)


def traces_of(folder: Path) -> list[Trace]:
    """All objects of the bucket."""
    fleet, paths = RemoteFleet(url_at(PORT, BUCKET)), []
    folder.mkdir()
    for number, each in enumerate(fleet.traces()):
        path = folder / f"{number}.parquet"
        assert fleet.fetch(each.name, path)
        paths.append(path)
    with ProcessPoolExecutor(2) as pool:
        return list(pool.map(read_trace, paths, chunksize=8))


def ask(folder: Path, *words: str) -> dict[str, Any]:
    env = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
    done = run([*tool("scalene-analyze"), "fleet", *words, "--json", url_at(PORT, BUCKET)], timeout_s=600, env=env)
    assert done.status == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Records, compares, prints, and returns 1 if something is missing or there twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=150, help="of each of the four parts (default: %(default)s)")
    parser.add_argument("--lock", help="a file to lock during each part")
    parser.add_argument("--print-only", action="store_true", help="write no result file")
    options = parser.parse_args(arguments)
    killed, steady = Service("killed"), Service("steady")
    with TemporaryDirectory(prefix="scalene-bucket-") as name, s3_server(PORT, BUCKET):
        folder, proxy = Path(name), UnsteadyProxy(PROXY_PORT, PORT)
        for number in range(PARTS):
            with held(options.lock):
                if number == 1:
                    args = (proxy, max(options.seconds - OUTAGE_S / 2, 0.0))
                    threading.Thread(target=interrupt, args=args, daemon=True).start()
                kills = number < PARTS - 1
                jobs = [
                    threading.Thread(target=record_part, args=(service, folder, options.seconds, each, number))
                    for service, each in ((killed, kills), (steady, False))
                ]
                for job in jobs:
                    job.start()
                for job in jobs:
                    job.join()
        proxy.on()
        (waiting,) = (folder / "spool").iterdir()
        command = [*tool("scalene-record"), "-o", url_at(PROXY_PORT, BUCKET), "--recover", waiting]
        recovered = run(command, timeout_s=300)
        left = [each.name for each in waiting.rglob("*") if not each.is_dir()]
        found = traces_of(folder / "fetched")
        indexed, report = ask(folder, "index"), ask(folder, "report")
    return judge(options, (killed, steady), found, proxy, recovered.stderr.decode(), left, indexed, report)


def judge(
    options: argparse.Namespace,
    services: tuple[Service, Service],
    found: list[Trace],
    proxy: UnsteadyProxy,
    recovered: str,
    left: list[str],
    indexed: dict[str, Any],
    report: dict[str, Any],
) -> int:
    ids = [each.trace_id for each in found]
    wrong = [] if len(set(ids)) == len(ids) else ["an id is there twice"]
    wrong += [] if left == ["destination.json"] else [f"left behind: {left}"]
    lines, facts = [], {}
    for service in services:
        own = [each for each in found if each.service == service.name]
        broken = [each.trace_id for each in own if each.follows and each.follows not in ids]
        done, truth = sum(each.done for each in own), sum(each["done"] for each in service.facts)
        cpu_s, used_s = sum(each.cpu_s for each in own), sum(each["cpu_s"] for each in service.facts)
        lost = sorted({name for each in own for name in each.lost})
        lines += [
            f"{service.name}: {len(own)} traces; recorders returned {service.statuses}, took {service.peak_kib / 1024:.0f} MiB",
            f"  allocations: {done} recorded, {truth} made; CPU time: {cpu_s:.3f} s recorded, {used_s:.3f} s by rusage",
            f"  losses: {', '.join(lost) or 'none'}; traces whose predecessor is missing: {len(broken)}",
        ]
        facts[service.name] = {"traces": len(own), "allocations": [done, truth], "cpu_s": [cpu_s, used_s], "lost": lost}
        expected = [-9] * (PARTS - 1) + [STATUS] if service.name == "killed" else [STATUS] * PARTS
        wrong += [f"{service.name}: statuses"] if service.statuses != expected else []
        wrong += [f"{service.name}: allocations"] if done != truth else []
        wrong += [f"{service.name}: CPU time"] if not -0.001 <= (cpu_s - used_s) / used_s < 0.005 else []
        wrong += [f"{service.name}: chain"] if broken else []
        wrong += [f"{service.name}: results"] if len({each["digest"] for each in service.facts}) > 1 else []
    wrong += [] if indexed["traces"] == len(found) and not indexed["unreadable"] else ["fleet index"]
    total_s = sum(line["cpu_s"] or 0 for line in report["lines"])
    lines += [
        f"connections: {proxy.refused} refused in {OUTAGE_S:.0f} s, {proxy.cuts} cut; --recover at the end: {recovered.strip()}",
        f"fleet index: {indexed['traces']} traces, {indexed['unreadable']} unreadable; fleet report: {total_s:.1f} s on lines",
        *(f"  {line}" for each in services for line in dict.fromkeys(each.messages.splitlines())),
        f"wrong: {'; '.join(wrong) or 'nothing'}",
    ]
    text = "\n".join(lines)
    print(text)
    if not options.print_only:
        more = {"refused": proxy.refused, "cut": proxy.cuts, "wrong": wrong}
        write_result("bucket", {"seconds": PARTS * options.seconds, **facts, **more}, text)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
