"""``-o URL``: the options of recordings whose traces are sent, and ``--recover`` of the folder in which these wait."""

from __future__ import annotations

from pathlib import Path

from ...formats.errors import FleetUnreachable
from ...formats.fleet.remote import RemoteFleet, is_url, is_valid, shown, without_keys
from ...formats.units import counted
from ...recorder.errors import UsageError
from ...recorder.rotate.layout import closed_traces
from ...recorder.settings import Settings
from ...recorder.upload.place import Destination, destination_at, destination_in, unsent_text
from ...recorder.upload.waiting import recover_unfinished, send_traces
from .options import Given


def destination_of(given: Given, settings: Settings) -> Destination:
    """Where the traces go. Makes the folder in which they wait. Raises UsageError, SetupError."""
    url = str(given.get("output"))
    if not is_url(url):
        raise UsageError(
            "--spool and --spool-limit are of traces that are sent: -o names a URL, like s3://bucket/path."
        )
    if not settings.rotate_ns:
        raise UsageError(
            f"Traces are sent to {shown(url)} when they are closed: give --rotate TIME too. A program that ends earlier "
            "makes one trace."
        )
    if settings.keep_ns:
        raise UsageError(
            "--keep removes files of a folder, and nothing at a URL. Let the bucket remove old traces by a lifecycle rule."
        )
    return destination_at(url, settings.spool)


def recover_and_send(given: Given) -> tuple[bool, str] | None:
    """Makes the traces that dead recorders have left in the folder of --recover, or of the recording there, and sends all that
    wait. Returns whether nothing is left, and what to tell the user; None = no traces wait for a URL there. Raises UsageError, also
    if -o is another URL than theirs, and TraceError if that recording cannot be recovered."""
    folder, url = Path(str(given["recover"])).absolute(), str(given.get("output", ""))
    found = destination_in(folder) or destination_in(folder.parent)
    if found is None and is_url(url):
        raise UsageError(f"No traces wait for a URL in {folder}. Name the folder of --spool that a message named.")
    if found is None:
        return None
    if url and (not is_valid(url) or without_keys(url) != found.url):
        raise UsageError(f"{found.folder} has traces for {found.url}: name that URL with -o, or leave -o out.")
    failures: list[str] = []
    if folder == found.folder:
        recover_unfinished(folder, failures.append, is_asked=True)
    else:
        from ...recorder.rotate.publish import recover_any  # imports numpy, which delays the start of programs

        recover_any(folder, None, bool(given.get("with_sources")))
    sent, reason = 0, "another recorder is sending them"
    try:
        sent = send_traces(found.folder, RemoteFleet(url or found.url))
    except FleetUnreachable as error:
        reason = error.detail
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
    if left := len(closed_traces(found.folder)):
        return False, " ".join([*failures, unsent_text(found, left, reason)])
    return not failures, " ".join([*failures, f"{counted(sent, 'trace was', 'traces were')} sent to {found.shown}."])
