"""Stopping a query so that nothing unproven is left: the user's Python asks, the source runner answers.

They are two processes on one machine that know nothing of each other; PySpark stops a query without telling the source.
So each source runner has a folder of its own, private to its user, and names it in the query progress (``control`` in
``sources[i].latestOffset``). A file called ``drain`` in it asks the runner to plan nothing new and to hand its queues
over once the running batch is proven; the runner answers with ``drained``.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketmq_spark.errors import MembershipError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

DRAIN: Final = "drain"
DRAINED: Final = "drained"
CONTROL: Final = "control"
POLL_S: Final = 0.05


class DrainRequest:
    """The source runner's end. Making it creates the folder; ``close`` removes it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rocketmq-spark-")

    @property
    def folder(self) -> str:
        return self._folder.name

    def is_made(self) -> bool:
        return Path(self.folder, DRAIN).exists()

    def answer(self) -> None:
        """The queues are handed over."""
        Path(self.folder, DRAINED).touch()

    def close(self) -> None:
        self._folder.cleanup()


def stop(query: StreamingQuery, timeout_s: float = 60.0) -> None:
    """Stop a query gracefully: finish the running batch, commit it to the group, hand the queues over, then stop.

    Unlike ``query.stop()`` it leaves no batch that was written and not committed, so another member of the group reads
    nothing twice. With several RocketMQ sources all of them are drained.

    Raises MembershipError[NOT_DRAINED] after ``timeout_s``: the query then still runs, and ``query.stop()`` stops it as
    a crash would. A query with a trigger interval asks its source only at the next trigger; allow for that. One without
    any progress yet has nothing to hand over and cannot be asked: it is still looking for its servers or its topic.
    """
    deadline = time.monotonic() + timeout_s
    asked: set[Path] = set()
    while query.isActive:
        controls = _controls(query)
        for folder in controls - asked:
            (folder / DRAIN).touch()
        asked |= controls
        if asked and all((folder / DRAINED).exists() for folder in asked):
            break
        if time.monotonic() > deadline:
            raise MembershipError("NOT_DRAINED", query=str(query.name or query.id), timeout_s=int(timeout_s))
        time.sleep(POLL_S)
    query.stop()


def _controls(query: StreamingQuery) -> set[Path]:
    """The folders of the query's source runners that are there, as its last progress names them."""
    progress = query.lastProgress
    sources = [] if progress is None else progress.sources
    folders = {Path(control) for source in sources if (control := _control(source.latestOffset)) is not None}
    return {folder for folder in folders if folder.is_dir()}


def _control(latest_offset: Any) -> str | None:
    """The folder in a source's ``latestOffset``; None for a source that is not ours."""
    try:
        return str(json.loads(latest_offset)[CONTROL])
    except (TypeError, ValueError, KeyError):
        return None
