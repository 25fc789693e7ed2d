"""A fleet at a URL: any filesystem that pyarrow reads (``s3://bucket/path``, ``gs://``, ``file://``), with the layout of a folder.

Keys and addresses come from the environment, and from the parameters of the URL (``?endpoint_override=HOST:PORT&scheme=http``), as
pyarrow documents them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from ..errors import FleetUnreachable
from . import layout

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SUFFIX = ".parquet"
_FORMS = (
    "this URL cannot be used. Write s3://BUCKET/PATH, gs://BUCKET/PATH or file:///PATH, with a percent sign and its code for each "
    "slash and other mark within a key"
)
#: How often the batches are listed until two listings are equal.
_MOST_LISTINGS = 10
_PIECE_BYTES = 4 << 20
#: Filesystems on which an object is there when it is whole, and not before. Azure is none: arrow creates an empty object first.
_OBJECT_STORES = ("s3", "gcs")
#: Schemes that pyarrow reads.
SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs", "file")
#: Parameters of URLs that are no secrets: addresses and switches. All others may be keys.
_PLAIN_PARAMETERS = frozenset(
    (
        *(
            "scheme",
            "endpoint_override",
            "region",
            "allow_bucket_creation",
            "allow_bucket_deletion",
            "retry_limit_seconds",
        ),
        *("blob_storage_authority", "blob_storage_scheme", "dfs_storage_authority", "dfs_storage_scheme", "enable_tls"),
        *("replication", "buffer_size"),
    )
)


def is_url(text: str) -> bool:
    """Is this a URL, and not the path of a folder?"""
    return _URL.match(text) is not None


def shown(url: str) -> str:
    """``url`` without what may be a secret: name, password (which may have a slash) and parameters."""
    address = url.partition("?")[0]
    return re.sub(r"://[^?]*:[^?]*@|://[^/?@]*@", "://", address)


def is_valid(url: str) -> bool:
    """Has ``url`` the form of a folder at a filesystem that pyarrow reads? Neither imports it nor asks the network."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # a slash within a key makes it something else than a number
    except ValueError:
        return False
    is_file = parts.scheme == "file"
    has_place = parts.path not in ("", "/") and not parts.netloc if is_file else bool(parts.hostname)
    return parts.scheme in SCHEMES and has_place and not parts.fragment and re.search(r"\s", url) is None


def without_keys(url: str) -> str:
    """``url`` without what may be a secret, as it may be kept on a disk; with keys from the environment it is the same place."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    user = "" if parts.scheme == "s3" else user.partition(":")[0]  # of S3 it is the key's id; of Azure, the container
    kept = [(name, value) for name, value in parse_qsl(parts.query) if name in _PLAIN_PARAMETERS]
    return parts._replace(netloc=f"{user}{at}{host}" if user else host, query=urlencode(kept, safe=":/")).geturl()


def _secrets(url: str) -> list[str]:
    """What is left out by :func:`without_keys`, as messages of others may repeat it, the longest first."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    values = [value for name, value in parse_qsl(parts.query) if name not in _PLAIN_PARAMETERS]
    found = {password, unquote(password), *values} | ({user, unquote(user)} if parts.scheme == "s3" else set())
    return sorted(found - {""}, key=len, reverse=True)


@dataclass(frozen=True)
class RemoteFile:
    """A file that may be a trace. ``name``: relative to the fleet."""

    name: str
    size_bytes: int
    mtime_ns: int


class RemoteFleet:
    """The fleet at ``url``. All methods raise FleetUnreachable where the filesystem cannot be reached, or refuses."""

    def __init__(self, url: str) -> None:
        import pyarrow as pa
        from pyarrow import fs

        scheme, mark, rest = url.partition("://")
        self.url = scheme.lower() + mark + rest
        self._errors = (OSError, pa.ArrowException)
        if self.url.startswith("s3:"):
            with suppress(pa.ArrowException, AttributeError, ImportError):  # it was done before, or pyarrow has no S3
                fs.initialize_s3(fs.S3LogLevel.Off)  # the SDK logs to stdout, which a recorded program may have too
        try:
            self._files, root = fs.FileSystem.from_uri(self.url)
        except OSError as error:
            raise self._failed(error) from None
        except self._errors:  # whose text has the URL, with its keys
            raise FleetUnreachable(shown(url), _FORMS) from None
        self._root = root.rstrip("/")

    def traces(self) -> list[RemoteFile]:
        """The files at any depth that may be traces, by name. Names that begin with ``_`` or ``.`` are left out."""
        found = [
            RemoteFile(name, info.size or 0, info.mtime_ns or 0)
            for name, info in self._listed("")
            if name.endswith(_SUFFIX) and not any(part.startswith(("_", ".")) for part in name.split("/"))
        ]
        return sorted(found, key=lambda file: file.name)

    def batches(self) -> dict[str, int]:
        """The size in bytes of each batch by its name, relative to the fleet. As in :func:`.layout.batches`, a listing beside a
        merge could lack both the new batch and an old one, so two must be equal."""
        found = self._batches()
        for _ in range(_MOST_LISTINGS):
            if (again := self._batches()) == found:
                return found
            found = again
        raise FleetUnreachable(shown(self.url), "its summaries change all the time")

    def _batches(self) -> dict[str, int]:
        listed = self._listed(str(layout.batches_folder(Path())))
        return {name: info.size or 0 for name, info in listed if layout.is_batch(name)}

    def _listed(self, folder: str) -> Iterator[tuple[str, Any]]:
        from pyarrow import fs

        selector = fs.FileSelector(self._path(folder), allow_not_found=bool(folder), recursive=True)
        try:
            found = self._files.get_file_info(selector)
        except self._errors as error:
            raise self._failed(error) from error
        for info in found:
            if info.is_file:
                yield info.path.removeprefix(self._root).lstrip("/"), info

    def fetch(self, name: str, to: Path) -> bool:
        """Copies a file to the new file ``to``. False if it has been removed in the meantime."""
        try:
            with self._files.open_input_stream(self._path(name)) as stream, to.open("xb") as file:
                while piece := stream.read(_PIECE_BYTES):
                    file.write(piece)
        except FileNotFoundError:
            to.unlink(missing_ok=True)
            return False
        except self._errors as error:
            raise self._failed(error) from error
        return True

    def send(self, file: FileIO, name: str) -> None:
        """Copies the rest of ``file`` there, so that it is whole as soon as it can be seen under its name. Raises OSError if it
        cannot be read."""
        folder, _, last = self._path(name).rpartition("/")
        is_atomic = self._files.type_name in _OBJECT_STORES
        written = f"{folder}/{last}" if is_atomic else f"{folder}/.{last}.tmp"
        try:
            if not is_atomic:
                self._files.create_dir(folder, recursive=True)
            read_error = self._write(file, written)
            if read_error is None and not is_atomic:
                self._put_in_place(written, f"{folder}/{last}")
        except self._errors as error:
            raise self._failed(error) from error
        if read_error:
            self.remove(f"{name.rpartition('/')[0]}/{written.rpartition('/')[2]}".lstrip("/"))
            raise read_error

    def _put_in_place(self, written: str, path: str) -> None:
        """Moves a file over another one. Raises OSError or ArrowException."""
        from pyarrow import fs

        try:
            self._files.move(written, path)
        except NotImplementedError:  # an account of Azure without folders, which copies at once
            self._files.copy_file(written, path)
            self._files.delete_file(written)
        except self._errors:
            if self._files.get_file_info(path).type != fs.FileType.File:
                raise
            self._files.delete_file(path)  # HDFS does not replace a file
            self._files.move(written, path)

    def _write(self, file: FileIO, written: str) -> OSError | None:
        """Writes what is in ``file``. Returns the error that stopped reading: arrow publishes a stream even when it is closed, or
        dropped, half way."""
        with self._files.open_output_stream(written) as stream:
            while True:
                try:
                    piece = file.read(_PIECE_BYTES)
                except OSError as error:
                    return error
                if not piece:
                    return None
                stream.write(piece)

    def remove(self, name: str) -> None:
        """Removes a file; it may be gone already."""
        try:
            self._files.delete_file(self._path(name))
        except FileNotFoundError:
            pass
        except self._errors as error:
            raise self._failed(error) from error

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _failed(self, error: BaseException) -> FleetUnreachable:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        text = text.replace(self.url, shown(self.url))
        for secret in _secrets(self.url):
            text = text.replace(secret, "***")
        return FleetUnreachable(shown(self.url), text.rstrip("."))
