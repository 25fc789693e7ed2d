"""Profiles that are sent to an endpoint of OTLP/HTTP, here a server that answers as it is told."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scalene_trace.analyze.send import new_traces, otlp_http
from scalene_trace.analyze.send.new_traces import Sent, send_new
from scalene_trace.analyze.send.otlp_http import Endpoint, endpoint_of, post
from scalene_trace.cli.analyze.command import run
from scalene_trace.formats.errors import (
    EndpointInvalid,
    FleetUnreachable,
    ProfilesUnsent,
    TraceDamaged,
    TraceMissing,
    TraceTooNew,
)
from scalene_trace.formats.fleet.remote import RemoteFleet
from scalene_trace.formats.trace.writer import write_trace
from tests.support import otlp
from tests.support.example_traces import rich_builder

#: ExportProfilesServiceResponse with partial_success: 2 profiles were refused.
PARTIAL = b"\x0a\x09\x08\x02\x12\x05q\x1b[1m"


class Collector:
    """``answers``: status, headers and body of the next ones, then 200; ``requests``: path, headers and contents."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                contents = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests.append((self.path, dict(self.headers), contents))
                status, headers, body = collector.answers.pop(0) if collector.answers else (200, {}, b"")
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def ids(self) -> list[str]:
        """The trace ids of all requests."""
        found = []
        for _, _, contents in self.requests:
            (resource,) = otlp.request(gzip.decompress(contents)).resource_profiles
            named = {each.key: otlp.plain_value(each.value) for each in resource.resource.attributes}
            found.append(named["scalene.trace_id"])
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (fleet := tmp_path / "fleet").mkdir()
    for number in range(3):
        write_trace(path := fleet / f"{number}.parquet", f"{number:032x}", [rich_builder().tables()])
        os.utime(path, ns=(number, number))  # the oldest is sent first
    return fleet


@pytest.fixture
def no_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is the trace's name: an export takes a second."""
    made = SimpleNamespace(make=lambda asked: SimpleNamespace(contents=asked.paths[0].name.encode()))
    monkeypatch.setattr(new_traces, "FORMATS", {"otlp": made})


def sent(files: int, known: int, sent_: int, **more: int) -> Sent:
    return Sent(files, known, sent_, **({"refused": 0, "unreadable": 0, "left": 0} | more))


def test_each_trace_is_sent_once_and_failures_are_repeated(
    collector: Collector, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp_http, "_FIRST_DELAY_S", 0.01)
    collector.answers = [
        (503, {"Retry-After": "\xb2"}, b""),
        (429, {"Retry-After": "0"}, b""),
        (502, {"Retry-After": formatdate(time.time() - 9, usegmt=True)}, b""),
    ]
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20SECRET, x=y", "OTEL_EXPORTER_OTLP_TIMEOUT": "5000"}
    endpoint = endpoint_of(collector.url, headers)
    assert "SECRET" not in repr(endpoint) and endpoint.timeout_s == 5
    assert send_new(str(folder), endpoint, lambda _: None) == sent(3, 0, 3)
    assert [each[0] for each in collector.requests] == ["/v1development/profiles"] * 6
    found = collector.requests[0][1]
    assert (found["Authorization"], found["X"]) == ("Bearer SECRET", "y")
    assert (found["Content-Type"], found["Content-Encoding"]) == ("application/x-protobuf", "gzip")
    assert sorted(set(collector.ids())) == [f"{number:032x}" for number in range(3)]
    assert send_new(f"file://{folder}", endpoint, lambda _: None) == sent(3, 3, 0)  # what was sent is at the URL too
    (folder / "bad.parquet").write_text("no trace")
    (folder / "0.parquet").unlink()
    assert send_new(f"file://{folder}", endpoint, lambda _: None) == sent(3, 2, 0, unreadable=1)
    assert send_new(str(folder), endpoint, lambda _: None) == sent(3, 3, 0)
    assert len(collector.requests) == 6
    assert "SECRET" not in "".join(each.read_text() for each in (folder / "_fleet" / "sent").iterdir())


@pytest.mark.usefixtures("no_exports")
def test_what_is_refused_is_not_sent_again_and_what_holds_for_all_stops(collector: Collector, folder: Path) -> None:
    told: list[str] = []
    endpoint = endpoint_of(collector.url, {})
    collector.answers = [(400, {}, b""), (200, {}, PARTIAL), (401, {}, b"")]
    with pytest.raises(ProfilesUnsent, match="HTTP status 401"):
        send_new(str(folder), endpoint, told.append)
    assert told == [
        "0.parquet was not sent: HTTP status 400.",
        "1.parquet was not sent: 2 of its profiles were refused: q\x1b[1m.",
    ]
    assert send_new(str(folder), endpoint, told.append) == sent(3, 2, 1)
    collector.answers = [(307, {"Location": f"{collector.url}/else"}, b"")]
    with pytest.raises(ProfilesUnsent, match="307"):  # keys are for the endpoint alone
        post(endpoint, b"")
    assert len(collector.requests) == 5


def test_an_endpoint_that_does_not_answer_is_given_up_in_time() -> None:
    begun_s = time.monotonic()
    with pytest.raises(ProfilesUnsent, match="connection refused"):
        post(Endpoint("http://127.0.0.1:9/x", {}, 1.0), b"", patience_s=0.3)
    assert time.monotonic() - begun_s < 5


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_answer_that_trickles_in_is_given_up_in_time(start: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(start)
                for _ in range(100):
                    connection.sendall(b"H")
                    time.sleep(0.1)

        threading.Thread(target=trickle, daemon=True).start()
        begun_s = time.monotonic()
        with pytest.raises(ProfilesUnsent, match="does not answer in time"):
            post(Endpoint(f"http://127.0.0.1:{server.getsockname()[1]}/x", {}, 0.5), b"", patience_s=0.1)
        assert time.monotonic() - begun_s < 5


def test_a_server_that_names_no_delay_is_not_asked_at_once(collector: Collector) -> None:
    collector.answers = [(503, {"Retry-After": "0"}, b"")] * 99
    with pytest.raises(ProfilesUnsent, match="503"):
        post(endpoint_of(collector.url, {}), b"", patience_s=0.4)
    assert len(collector.requests) == 1


class Fetched:
    """A fleet at a URL in which some files cannot be fetched."""

    def __init__(self, folder: Path, bad: set[str]) -> None:
        self._fleet, self._bad, self.is_down = RemoteFleet(f"file://{folder}"), bad, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fleet, name)

    def fetch(self, name: str, to: Path) -> bool:
        if self.is_down or name in self._bad:
            raise FleetUnreachable("s3://b", f"{name} is archived")
        return self._fleet.fetch(name, to)


@pytest.mark.usefixtures("no_exports")
def test_files_that_cannot_be_fetched_are_left_and_a_bucket_that_is_gone_ends_the_run(
    collector: Collector, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3, 9):
        shutil.copy2(folder / "0.parquet", folder / f"{number}.parquet")
    bad = {f"{number}.parquet" for number in (0, *range(3, 9))}  # the oldest, and more in a row than are reported
    fleet, told = Fetched(folder, bad), list[str]()
    monkeypatch.setattr(new_traces, "RemoteFleet", lambda _: fleet)
    endpoint = endpoint_of(collector.url, {})
    assert send_new("s3://b", endpoint, told.append) == sent(9, 0, 2, left=7)
    assert (
        len(told) == 5
        and told[0] == "0.parquet was not sent: The fleet s3://b cannot be reached: 0.parquet is archived."
    )
    fetch = fleet.fetch

    def once(name: str, to: Path) -> bool:
        found, fleet.is_down = fetch(name, to), True
        return found

    monkeypatch.setattr(fleet, "fetch", once)  # of the state; then nothing answers
    with pytest.raises(FleetUnreachable):
        send_new("s3://b", endpoint, told.append)
    assert len(told) == 9


@pytest.mark.parametrize(
    ("error", "is_left"),
    [
        (TraceTooNew(Path("x"), "9"), True),
        (TraceMissing(Path("x"), "permission denied"), True),
        (OSError(28, "No space left on device"), True),
        (KeyError("a bug"), True),
        (TraceDamaged(Path("x"), "torn"), False),
    ],
)
def test_only_what_is_found_in_a_file_is_kept(
    error: Exception, is_left: bool, collector: Collector, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(_: Any) -> None:
        raise error

    monkeypatch.setattr(new_traces, "FORMATS", {"otlp": SimpleNamespace(make=made)})
    done = sent(3, 0, 0, left=3) if is_left else sent(3, 0, 0, unreadable=3)
    assert send_new(str(folder), endpoint_of(collector.url, {}), lambda _: None) == done


@pytest.mark.usefixtures("no_exports")
def test_what_was_sent_is_written_before_and_not_after_each_trace(
    collector: Collector, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, writes, replace = endpoint_of(collector.url, {}), list[Path](), Path.replace

    def counted(path: Path, target: Path) -> Path:
        assert writes or not collector.requests
        writes.append(path)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", counted)
    assert send_new(str(folder), endpoint, lambda _: None) == sent(3, 0, 3)
    assert len(set(writes)) == len(writes) == 2  # at the start and at the end, under names of their own
    shutil.copyfile(folder / "0.parquet", folder / "new.parquet")
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        send_new(str(folder), endpoint, lambda _: None)
    assert len(collector.requests) == 3 and [each.suffix for each in (folder / "_fleet" / "sent").iterdir()] == [
        ".json"
    ]


def full(*_: Any) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_sender_that_goes_on_outlives_a_full_disk_and_reports_once(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[str] = []

    def once(_place: str, _endpoint: Endpoint, report: Callable[[str], None]) -> Sent:
        turns.append("")
        if len(turns) == 5:
            raise KeyboardInterrupt
        report("a.parquet was not sent: it is archived.")
        return sent(1, 0, 0, left=1) if len(turns) > 2 else sent(1, 0, full())

    monkeypatch.setattr(new_traces, "send_new", once)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    run(["fleet", "send", "--every", "1s", "--otlp", "http://c", str(folder)])
    err = capsys.readouterr().err
    assert err.count("archived") == 1 and err.count("Operating system error: [Errno 28] No space left on device.") == 1
    assert len(turns) == 5


@pytest.mark.usefixtures("no_exports")
def test_the_command_sends(collector: Collector, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copyfile(folder / "0.parquet", folder / "a\x1b[1m.parquet")
    collector.answers = [(200, {}, PARTIAL)] * 4
    assert run(["fleet", "send", "--otlp", collector.url, str(folder)]) == 0
    out, err = capsys.readouterr()
    assert out == "0 traces sent, 4 refused; 0 of 4 were known.\n" and "\x1b" not in err
    assert run(["fleet", "send", "--json", "--otlp", collector.url, str(folder)]) == 0
    assert '"schema": "scalene-trace/fleet-send/1"' in capsys.readouterr().out
    assert run(["fleet", "send", str(folder)]) == 2
    assert "Name an endpoint" in capsys.readouterr().err


def test_endpoints_are_what_the_specification_says() -> None:
    own, base = "OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"
    assert endpoint_of(None, {own: "http://h/x", base: "http://b"}).url == "http://h/x"
    assert endpoint_of(None, {base: "https://b/a/"}).url == "https://b/a/v1development/profiles"
    assert (
        endpoint_of("http://c:4318/v1development/profiles", {own: "http://h/x"}).url
        == "http://c:4318/v1development/profiles"
    )
    both = {"OTEL_EXPORTER_OTLP_HEADERS": "a=1", "OTEL_EXPORTER_OTLP_PROFILES_HEADERS": "b=2"}
    assert endpoint_of("http://c", both).headers == {"b": "2"}
    assert endpoint_of("http://b\xfccher.example", {}).url == "http://b\xfccher.example/v1development/profiles"
    odd = ("http://c..d", f"http://{'c' * 64}", "http://c/\xfc")
    for bad in ("", "c:4318", "ftp://c", "http://", "http://c:x", "http://k:SECRET@c", "http://c d", *odd):
        with pytest.raises(EndpointInvalid) as found:
            endpoint_of(bad, {})
        assert "SECRET" not in str(found.value)
    for bad in ("SECRET", "a b=SECRET", "a=SECRET%0D%0Ab: c"):
        with pytest.raises(EndpointInvalid) as found:
            endpoint_of("http://c", {"OTEL_EXPORTER_OTLP_HEADERS": bad})
        assert "SECRET" not in str(found.value)


def test_answers_that_are_damaged_are_taken_for_good_ones() -> None:
    assert [otlp_http._refused(each) for each in (b"", b"\xff" * 20, PARTIAL[:5], b"\x08\x01", b"\x0a\x00")] == [""] * 5
    assert new_traces._known_in(b'{"sent": 1}') == {}
