"""Where traces wait until they are sent: a folder on this host for each URL, which the next recorder finds again.

``SPOOL/SCHEME-UID-XXXXXXXXXXXXXXXX/`` (digits of a hash of the URL without its keys) holds the folders of recordings, the
closed traces as they will lie at the URL, and ``destination.json``, which names the URL without its keys. Only its owner may
enter it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...formats.fleet.remote import is_valid, shown, without_keys
from ...formats.spool.regular import read_regular
from ...formats.units import counted
from ..errors import SetupError, UsageError
from ..folder.files import new_file

_NAME = "destination.json"


@dataclass(frozen=True)
class Destination:
    """``url``: where traces go, with its keys if it has any; ``folder``: where they wait."""

    url: str = field(repr=False)
    folder: Path

    @property
    def shown(self) -> str:
        """The URL for messages."""
        return shown(self.url)


def destination_at(url: str, spool: Path | None) -> Destination:
    """The destination at ``url``; its folder is made in ``spool``, None = in the user's state folder, or in the temporary one if
    that cannot be made. Raises UsageError, SetupError."""
    if not is_valid(url):
        raise UsageError(
            f"-o {shown(url)} is no URL of a folder. Write s3://BUCKET/PATH, gs://BUCKET/PATH or file:///PATH, with a percent "
            "sign and its code for each slash and other mark within a key."
        )
    plain = without_keys(url)
    scheme, digits = plain.partition(":")[0], hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()
    name = f"{scheme}-{os.geteuid()}-{digits[:16]}"
    places = _places(spool)
    for number, place in enumerate(places, start=1):
        try:
            return Destination(url, _made(place / name, plain))
        except OSError as error:
            if number == len(places):
                reason = (error.strerror or "unknown error").lower()
                raise SetupError(
                    f"Traces that wait to be sent cannot be kept in {place}: {reason}. Name another folder with --spool."
                ) from error
    raise AssertionError(places)


def folder_for(spool: Path | None) -> Path:
    """The folder that is there by now in which :func:`destination_at` would make its own."""
    places = [next(each for each in (place, *place.parents) if each.is_dir()) for place in _places(spool)]
    return next((each for each in places if os.access(each, os.W_OK | os.X_OK)), places[-1])


def _places(spool: Path | None) -> list[Path]:
    if spool:
        return [spool.absolute()]
    places = []
    with suppress(RuntimeError):  # a user without a home
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        places.append(Path(state, "scalene-trace").absolute())
    return [*places, Path(os.environ.get("TMPDIR") or "/tmp", f"scalene-trace-{os.geteuid()}").absolute()]


def _made(folder: Path, plain_url: str) -> Path:
    """Makes the folder of a destination. Raises OSError."""
    folder.mkdir(0o700, parents=True, exist_ok=True)
    if not _is_ours(folder):
        raise PermissionError(13, "another user may enter the folder, or owns it", str(folder))
    if destination_in(folder) is None:
        new = folder / f".{_NAME}.{os.urandom(6).hex()}"
        with new_file(new) as file:
            file.write(json.dumps({"url": plain_url}).encode())
        new.replace(folder / _NAME)
    return folder


def destination_in(folder: Path) -> Destination | None:
    """The destination of the traces that wait in ``folder``; None = it is not such a folder, or is not ours alone."""
    with suppress(ValueError, TypeError, KeyError, RecursionError, OSError):
        found: Any = json.loads(read_regular(folder / _NAME))
        if is_valid(found["url"]) and _is_ours(folder):
            return Destination(found["url"], folder)
    return None


def unsent_text(destination: Destination, left: int, reason: str) -> str:
    """That traces are left in the folder, and how they are sent."""
    traces = counted(left, "trace was", "traces were")
    return (
        f"{traces} not sent to {destination.shown}: {reason.rstrip('.')}. They wait in {destination.folder} for the next "
        f"recorder, or send them with: scalene-record --recover {destination.folder}"
    )


def _is_ours(folder: Path) -> bool:
    about = folder.lstat()
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and not about.st_mode & 0o077
