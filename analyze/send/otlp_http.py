"""Sends profiles to an endpoint of OTLP/HTTP, as https://opentelemetry.io/docs/specs/otlp/ and the specification of exporters
say: gzip, headers and timeout from the environment, and which answers are repeated."""

from __future__ import annotations

import gzip
import http.client
import io
import os
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from ...formats.errors import EndpointInvalid, ProfilesUnsent
from ..exports.shared.protobuf import fields_of

_PATH = "/v1development/profiles"
_OF_PROFILES, _OF_ALL = "OTEL_EXPORTER_OTLP_PROFILES_", "OTEL_EXPORTER_OTLP_"
#: The specification's answers after which the same request is sent again.
_REPEATED = frozenset((429, 502, 503, 504))
#: Answers about the request's contents; all others are about the endpoint or its keys, and hold for every trace.
_ABOUT_THE_TRACE = frozenset((400, 413, 422))
#: From a failure to the next attempt; it doubles with each failure in a row. Half of it to all of it, by chance.
_FIRST_DELAY_S, _LONGEST_DELAY_S = 1.0, 30.0
#: So long one trace is tried.
PATIENCE_S = 60.0
_TIMEOUT_S = 10.0
_MOST_ANSWER_BYTES = 1 << 16
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True)
class Endpoint:
    """``url``: what is posted to; ``headers``: of the user, which may be secrets; ``timeout_s``: of one attempt."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float = _TIMEOUT_S


def endpoint_of(given: str | None, environment: Mapping[str, str]) -> Endpoint:
    """The endpoint at ``given``, None = the one that the environment names, with headers and timeout from the environment.
    Raises EndpointInvalid."""
    own = environment.get(f"{_OF_PROFILES}ENDPOINT", "")
    base = given or environment.get(f"{_OF_ALL}ENDPOINT", "")
    url = own if own and not given else base
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        (parts.hostname or "").encode("idna")
        (parts.path + parts.query).encode("ascii")
    except ValueError:  # UnicodeError is one
        is_good = False
    if not is_good or re.search(r"\s", url):
        raise EndpointInvalid("Name an endpoint of OTLP/HTTP, like --otlp http://localhost:4318.")
    if "@" in parts.netloc:
        raise EndpointInvalid("An endpoint has no name and password: give keys by OTEL_EXPORTER_OTLP_HEADERS.")
    if url is not own and not parts.path.endswith("/profiles"):
        url = parts._replace(path=parts.path.rstrip("/") + _PATH).geturl()
    return Endpoint(url, _headers(_first(environment, "HEADERS")), _timeout_s(_first(environment, "TIMEOUT")))


def _first(environment: Mapping[str, str], name: str) -> str:
    """What is said for profiles, else for all signals."""
    return environment.get(_OF_PROFILES + name) or environment.get(_OF_ALL + name, "")


def _headers(text: str) -> dict[str, str]:
    found = {}
    for pair in filter(None, map(str.strip, text.split(","))):
        name, equals, value = (part.strip() for part in pair.partition("="))
        value = unquote(value)
        if not equals or not _HEADER.fullmatch(name) or not value.isprintable() or not value.isascii():
            raise EndpointInvalid("OTEL_EXPORTER_OTLP_HEADERS is no list like NAME=VALUE, with percent-encoded values.")
        found[name] = value
    return found


def _timeout_s(text: str) -> float:
    """Of milliseconds."""
    if text and (not text.isascii() or not text.isdigit() or int(text) == 0):
        raise EndpointInvalid("OTEL_EXPORTER_OTLP_TIMEOUT is a number of milliseconds.")
    return int(text) / 1000 if text else _TIMEOUT_S


class _Timed(io.RawIOBase):
    """What comes from a socket, all of it within the socket's timeout, which by itself holds for each piece."""

    def __init__(self, connection: socket.socket, file: io.BufferedReader) -> None:
        self._connection, self._file = connection, file
        self._until_s = time.monotonic() + (connection.gettimeout() or _TIMEOUT_S)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(left_s)
        return self._file.raw.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        self.fp = io.BufferedReader(_Timed(sock, self.fp))


class _Connection(http.client.HTTPConnection):
    response_class = _Answer


class _SecureConnection(http.client.HTTPSConnection):
    response_class = _Answer


class _Handler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req)


class _SecureHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureConnection, req)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Headers with keys are for the endpoint alone."""

    def redirect_request(self, *_: Any) -> None:
        return None


def post(endpoint: Endpoint, contents: bytes, patience_s: float = PATIENCE_S) -> str:
    """Sends a message ExportProfilesServiceRequest. Returns "" or, where the endpoint has refused it or a part of it, which is not to
    be sent again, a reason. Raises ProfilesUnsent when the endpoint cannot be reached within ``patience_s``, or refuses all."""
    body, until_s, failures = gzip.compress(contents, 6, mtime=0), time.monotonic() + patience_s, 0
    while True:
        try:
            return _refused(_attempt(endpoint, body))
        except urllib.error.HTTPError as error:
            with error:
                reason, wait_s = f"HTTP status {error.code}", _retry_after_s(error.headers.get("Retry-After"))
            if error.code in _ABOUT_THE_TRACE:
                return reason
            if error.code not in _REPEATED:
                raise ProfilesUnsent(endpoint.url, reason) from None
        except (OSError, http.client.HTTPException) as error:
            reason, wait_s = _reason(error), 0.0
        delay_s = min(_FIRST_DELAY_S * 2**failures, _LONGEST_DELAY_S) * (1 + os.urandom(1)[0] / 255) / 2
        failures, wait_s = failures + 1, max(wait_s, delay_s)
        if time.monotonic() + wait_s > until_s:
            raise ProfilesUnsent(endpoint.url, reason)
        time.sleep(wait_s)


def _attempt(endpoint: Endpoint, body: bytes) -> bytes:
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip", "User-Agent": "scalene-trace"}
    request = urllib.request.Request(endpoint.url, body, headers | dict(endpoint.headers), method="POST")
    opener = urllib.request.build_opener(_NoRedirect, _Handler, _SecureHandler)
    with opener.open(request, timeout=endpoint.timeout_s) as answer:
        found: bytes = answer.read(_MOST_ANSWER_BYTES)
        return found


def _reason(error: BaseException) -> str:
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(inner, TimeoutError):
        return "it does not answer in time"
    return (getattr(inner, "strerror", None) or type(inner).__name__).lower()


def _retry_after_s(text: str | None) -> float:
    """Of seconds, or of a date; 0 = nothing that can be read."""
    if text is None:
        return 0.0
    try:
        if text.isascii() and text.strip().isdigit():
            return float(text)
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError, OSError):
        return 0.0


def _refused(answer: bytes) -> str:
    """What the message ExportProfilesServiceResponse says about profiles that were refused."""
    try:
        partial = fields_of(fields_of(answer).get(1, b""))
    except ValueError:
        return ""
    count, message = partial.get(1, 0), partial.get(2, b"")
    if not count or not isinstance(count, int) or not isinstance(message, bytes):
        return ""
    return f"{count} of its profiles were refused: {message.decode('utf-8', 'replace')}"
