"""Where traces wait until they are sent: a folder on this host for each URL, which the next recorder finds again.

``SPOOL/SCHEME-UID-XXXXXXXXXXXXXXXX/`` (digits of a hash of the URL without its keys) holds the folders of recordings, the
closed traces as they will lie at the URL, and ``destination.json``, which names the URL without its keys. Only its owner may
enter it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...formats.fleet.remote import is_valid, shown, without_keys
from ...formats.spool.regular import read_regular
from ...formats.units import counted
from ..errors import SetupError, UsageError
from ..folder.files import new_file
from ..folder.held import HeldFolder

DESTINATION_NAME = "destination.json"


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
    places = _places(spool)
    for number, place in enumerate(places, start=1):
        is_last = number == len(places)
        try:
            known = _temporary(place) if is_last and not spool else place
            return Destination(url, _made(known / _folder_name(plain), plain))
        except OSError as error:
            if is_last:
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


def _temporary(place: Path) -> Path:
    """Makes ``place``, in a folder where everybody may; a new one if a stranger has taken its name. Raises OSError."""
    try:
        _make_folders(place)
        HeldFolder(place, makes_private=True).close()
    except OSError:
        place = place.with_name(f"{place.name}-{os.urandom(8).hex()}")
        place.mkdir(0o700)
    return place


def _made(folder: Path, plain_url: str) -> Path:
    """Makes the folder of a destination. Others may not enter it from then on, whoever has let them: Kubernetes does, in a volume
    that is mounted for a group. Raises OSError."""
    _make_folders(folder)
    with closing(HeldFolder(folder, makes_private=True)) as held:
        if _url_in(held) != plain_url:
            new = held.path / f".{DESTINATION_NAME}.{os.urandom(6).hex()}"
            with new_file(new) as file:
                file.write(json.dumps({"url": plain_url}).encode())
            new.replace(held.path / DESTINATION_NAME)
    return folder


def _make_folders(folder: Path) -> None:
    """Makes ``folder`` and those above it that are missing, for their owner alone. Raises OSError."""
    for each in [*reversed(folder.parents), folder]:
        if not each.is_dir():
            each.mkdir(0o700, exist_ok=True)


def destination_in(folder: Path) -> Destination | None:
    """The destination of the traces that wait in ``folder``; None = it is not such a folder, or not ours."""
    is_named = re.fullmatch(rf"[a-z0-9]+-{os.geteuid()}-[0-9a-f]{{16}}", folder.name) is not None
    with suppress(OSError), closing(HeldFolder(folder, makes_private=is_named)) as held:
        url = _url_in(held)
        if url and (not is_named or folder.name == _folder_name(url)):  # whoever could enter may have written it
            return Destination(url, folder)
    return None


def _url_in(folder: HeldFolder) -> str | None:
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        found: Any = json.loads(read_regular(folder.path / DESTINATION_NAME))
        if is_valid(found["url"]):
            return str(found["url"])
    return None


def _folder_name(plain_url: str) -> str:
    digits = hashlib.sha256(plain_url.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{plain_url.partition(':')[0]}-{os.geteuid()}-{digits[:16]}"


def unsent_text(destination: Destination, left: int, reason: str) -> str:
    """That traces are left in the folder, and how they are sent."""
    traces = counted(left, "trace was", "traces were")
    return (
        f"{traces} not sent to {destination.shown}: {reason.rstrip('.')}. They wait in {destination.folder} for the next "
        f"recorder, or send them with: scalene-record --recover {destination.folder}"
    )
