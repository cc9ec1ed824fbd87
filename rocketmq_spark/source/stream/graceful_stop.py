"""Stopping a query so that nothing unproven is left: the user's Python asks, the source runner answers.

They are two processes on one machine that know nothing of each other; PySpark stops a query without telling the source.
So each source runner has a folder of its own, private to its user, and names it and its machine in the query progress
(``control`` in ``sources[i].latestOffset``). A file called ``drain`` in it asks the runner to plan nothing new and to
hand its queues over once the running batch is proven; the runner answers with ``drained``. Where somebody has cleaned
up the temporary files, the runner makes the folder again, and whoever asks asks again.
"""

from __future__ import annotations

import json
import logging
import platform
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rocketmq_spark.errors import MembershipError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

DRAIN: Final = "drain"
DRAINED: Final = "drained"
CONTROL: Final = "control"
POLL_S: Final = 0.05


class Control(NamedTuple):
    """Where a source runner can be asked. ``host``: the name of the machine that has ``folder``."""

    host: str
    folder: str

    @property
    def path(self) -> Path:
        return Path(self.folder)


class DrainRequest:
    """The source runner's end. Making it creates the folder; ``close`` removes it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rocketmq-spark-")
        self._is_folder_lost = False
        self._is_answered = False

    @property
    def control(self) -> Control:
        return Control(platform.node(), self._folder.name)

    def is_made(self) -> bool:
        """What has been handed over stays so, even if the request is cleaned away afterwards."""
        self._make_again()
        return self._is_answered or (self.control.path / DRAIN).exists()

    def answer(self) -> None:
        """The queues are handed over."""
        self._is_answered = True
        self._make_again()
        with suppress(FileNotFoundError):
            (self.control.path / DRAINED).touch()

    def close(self) -> None:
        self._folder.cleanup()

    def _make_again(self) -> None:
        """A query does not fail because nobody could ask it to stop; whoever asks is told."""
        try:
            self.control.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._is_folder_lost = False
        except OSError as error:
            if not self._is_folder_lost:
                log.warning("rocketmq_spark.stop will not reach this query: no folder for it: %s", error)
            self._is_folder_lost = True


def stop(query: StreamingQuery, timeout_s: float = 60.0) -> None:
    """Stop a query gracefully: finish the running batch, commit it to the group, hand the queues over, then stop.

    Unlike ``query.stop()`` it leaves no batch that was written and not committed, so another member of the group reads
    nothing twice. With several RocketMQ sources all of them are drained. To be called on the machine of the query's
    driver.

    Raises MembershipError[NOT_ON_THIS_MACHINE] at once, where the driver is on another one; after ``timeout_s``
    MembershipError[NOT_DRAINED], or [NO_CONTROL_FOLDER] where there was no way to ask: the query then still runs, and
    ``query.stop()`` stops it as a crash would. A query with a trigger interval asks its source only at the next
    trigger; allow for that. One without any progress yet has nothing to hand over and cannot be asked: it is still
    looking for its servers or its topic.
    """
    deadline = time.monotonic() + timeout_s
    name = str(query.name or query.id)
    drained: set[Control] = set()
    while query.isActive:
        controls = _controls(query)
        _check_machine(name, controls)
        drained |= {control for control in controls if (control.path / DRAINED).exists()}
        if controls and controls <= drained:
            break
        _ask(controls - drained)
        if time.monotonic() > deadline:
            raise _not_stopped(name, controls - drained, int(timeout_s))
        time.sleep(POLL_S)
    query.stop()


def _ask(controls: set[Control]) -> None:
    """Each time anew: the folder may have been cleaned, and made again by its runner."""
    for control in controls:
        with suppress(FileNotFoundError):
            (control.path / DRAIN).touch()


def _check_machine(query: str, controls: set[Control]) -> None:
    here = platform.node()
    for control in controls:
        if control.host != here and not control.path.is_dir():
            raise MembershipError(
                "NOT_ON_THIS_MACHINE", query=query, host=control.host, here=here, folder=control.folder
            )


def _not_stopped(query: str, left: set[Control], timeout_s: int) -> MembershipError:
    for control in left:
        if not control.path.is_dir():
            return MembershipError(
                "NO_CONTROL_FOLDER", query=query, timeout_s=timeout_s, host=control.host, folder=control.folder
            )
    return MembershipError("NOT_DRAINED", query=query, timeout_s=timeout_s)


def _controls(query: StreamingQuery) -> set[Control]:
    """Of the query's source runners, as its last progress names them."""
    progress = query.lastProgress
    sources = [] if progress is None else progress.sources
    return {control for source in sources if (control := _control(source.latestOffset)) is not None}


def _control(latest_offset: Any) -> Control | None:
    """The one in a source's ``latestOffset``; None for a source that is not ours."""
    try:
        return Control(**json.loads(latest_offset)[CONTROL])
    except (TypeError, ValueError, KeyError):
        return None
