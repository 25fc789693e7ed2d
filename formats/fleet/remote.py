"""A fleet at a URL: any filesystem that pyarrow reads (``s3://bucket/path``, ``gs://``, ``file://``), with the layout of a folder.

Keys and addresses come from the environment, and from the parameters of the URL (``?endpoint_override=HOST:PORT&scheme=http``), as
pyarrow documents them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
#: Filesystems on which an object is there when it is whole, and not before.
_OBJECT_STORES = ("s3", "gcs", "abfs")


def is_url(text: str) -> bool:
    """Is this a URL, and not the path of a folder?"""
    return _URL.match(text) is not None


def shown(url: str) -> str:
    """``url`` without what may be a secret: name, password (which may have a slash) and parameters."""
    address = url.partition("?")[0]
    return re.sub(r"://[^?]*:[^?]*@|://[^/?@]*@", "://", address)


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
        try:
            self._files, root = fs.FileSystem.from_uri(self.url)
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

    def send(self, path: Path, name: str) -> None:
        """Copies a file there, so that it is whole as soon as it can be seen."""
        contents = path.read_bytes()  # else a failed read would leave a part of it behind
        folder, _, last = self._path(name).rpartition("/")
        is_atomic = self._files.type_name in _OBJECT_STORES
        written = f"{folder}/{last}" if is_atomic else f"{folder}/.{last}.tmp"
        try:
            if not is_atomic:
                self._files.create_dir(folder, recursive=True)
            with self._files.open_output_stream(written) as stream:
                stream.write(contents)
            if not is_atomic:
                self._files.move(written, f"{folder}/{last}")
        except self._errors as error:
            raise self._failed(error) from error

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
        return FleetUnreachable(shown(self.url), text.replace(self.url, shown(self.url)).rstrip("."))
