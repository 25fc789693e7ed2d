"""Where a fleet is, and what answers for it: a folder, or a URL (:mod:`.mirror`); DuckDB in this process, or Spark (:mod:`.spark`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...formats.errors import NotIndexed, SparkRefused
from ...formats.fleet.remote import is_url, shown
from ..results.fleet import Indexed
from .opening import Fleet, open_fleet

if TYPE_CHECKING:
    from .index import Progress

#: The engine that is no Spark.
LOCAL = "local"


@contextmanager
def fleet_at(place: str, engine: str = LOCAL, is_sealed: bool = False) -> Iterator[Fleet]:
    """The opened fleet at a folder or URL. ``engine``: LOCAL, or the address of a Spark, which then answers for the figures.
    Raises the errors of :func:`open_fleet`, FleetUnreachable for a URL, and SparkMissing and SparkRefused."""
    if is_url(place):
        from .mirror import mirrored

        _need_folder(engine)
        with mirrored(place) as folder:
            try:
                fleet = open_fleet(folder, is_sealed)
            except NotIndexed:
                raise NotIndexed(shown(place)) from None
            with fleet:
                yield replace(fleet, name=shown(place))
        return
    with open_fleet(Path(place), is_sealed) as fleet:
        if engine == LOCAL:
            yield fleet
            return
        from .spark import on_spark, spark_session

        with spark_session(engine) as session:
            yield on_spark(fleet, session)


def index_at(
    place: str, engine: str = LOCAL, progress: Progress = lambda done, files: None, retries: bool = False
) -> Indexed:
    """Makes the summaries of the new traces at a folder or URL; with ``retries``, of files too that could not be read. Raises as :func:`.index.index_fleet` and :func:`fleet_at`."""
    if is_url(place):
        from .mirror import index_remote

        _need_folder(engine)
        return index_remote(place, progress, retries)
    from .index import index_fleet  # not above: questions do without what writes summaries

    if engine == LOCAL:
        return index_fleet(Path(place), progress, retries)
    from .spark import publishing, spark_session

    with spark_session(engine) as session:
        return index_fleet(Path(place).absolute(), progress, retries, publishing(session))


def _need_folder(engine: str) -> None:
    if engine != LOCAL:
        raise SparkRefused("the fleet is at a URL. Mount it as a folder that all machines see, or leave out --engine")
