"""Stopping a query so that nothing unproven is left: the user's Python asks, the source runner answers.

They are two processes on one machine that know nothing of each other; PySpark stops a query without telling the source.
So each source runner has a folder of its own, private to its user, and names it and its machine in the query progress
(``control`` in ``sources[i].latestOffset``). What the two may do with the files in it, and what that means, is the
table of ``drain``; here it is done. Where somebody has cleaned up the temporary files, the runner makes the folder
again, and whoever asks asks again.
"""

from __future__ import annotations

import logging
import os
import platform
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from rocketmq_spark.errors import MembershipError
from rocketmq_spark.pull.private_folder import private_folder
from rocketmq_spark.source.stream.control_folder import new_folder, take_over
from rocketmq_spark.source.stream.drain import (
    FILES,
    IRREVERSIBLE,
    Control,
    DrainEvent,
    DrainState,
    after,
    shown_by,
)
from rocketmq_spark.source.stream.shown_progress import latest_offsets

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

POLL_S: Final = 0.05

DRAIN_TIMEOUT_S: Final = 10.0
"""How long handing over may take once it has begun: a request or two to each broker."""


class DrainRequest:
    """The source runner's end. Making it creates the folder, or takes over that of an earlier start of the query,
    ``before``, which is what the progress shows until a batch is planned; ``close`` removes it.

    ``_state`` is as of the last look, and as of what the runner has done: the files may be cleaned away, that not.

    Not thread-safe: it is the runner's, and others ask through the files.
    """

    def __init__(self, before: Control | None = None) -> None:
        self._folder = (before and take_over(before)) or new_folder()
        self._is_folder_lost = False
        self._state = DrainState.RUNNING

    @property
    def control(self) -> Control:
        return Control(platform.node(), self._folder.name)

    def check_request(self) -> bool:
        """What has been handed over stays so, even if the request is cleaned away afterwards."""
        is_requested = self._ensure_folder() and _file(self.control, DrainState.REQUESTED).exists()
        self._apply(DrainEvent.REQUEST if is_requested else DrainEvent.WITHDRAW)
        return self._state is not DrainState.RUNNING

    def claim(self) -> bool:
        """Whether to hand over now; from then on there is no way back. False: the request has been withdrawn."""
        if self._state is DrainState.REQUESTED:
            try:
                _file(self.control, DrainState.REQUESTED).rename(_file(self.control, DrainState.DRAINING))
            except OSError:
                self._apply(DrainEvent.WITHDRAW)
            else:
                self._apply(DrainEvent.CLAIM)
        return self._state is not DrainState.RUNNING

    def finish(self) -> None:
        """The queues are handed over. Raises ValueError, and does nothing, where nobody has claimed that."""
        self._apply(DrainEvent.FINISH)
        if self._ensure_folder():
            _touch(self.control, DrainState.DRAINED)

    def close(self) -> None:
        self._folder.cleanup()

    def _apply(self, event: DrainEvent) -> None:
        self._state = after(self._state, event)

    def _ensure_folder(self) -> bool:
        """Whether the folder is there, and this user's alone: where temporary files were cleaned up, another user may
        have taken its name. A query does not fail because nobody could ask it to stop; whoever asks is told."""
        try:
            self.control.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with private_folder(self.control.path):
                self._is_folder_lost = False
        except OSError as error:
            if not self._is_folder_lost:
                log.warning(
                    "STOP_CONTROL_DIR_MISSING: Cannot create the control directory; rocketmq_spark.stop cannot stop "
                    "this query: %s",
                    error,
                )
            self._is_folder_lost = True
        return not self._is_folder_lost


def stop(query: StreamingQuery, timeout_s: float = 60.0) -> None:
    """Stop a query gracefully: finish the running batch, commit it to the group, hand the queues over, then stop.

    Unlike ``query.stop()`` it leaves no batch that was written and not committed, so another member of the group reads
    nothing twice. With several RocketMQ sources all of them are drained. To be called on the machine of the query's
    driver.

    Raises at once: MembershipError[NOT_A_ROCKETMQ_QUERY] where the query has none of ours, [STOP_FROM_OTHER_HOST] where
    the driver is on another one. After ``timeout_s`` MembershipError[GRACEFUL_STOP_TIMEOUT], or
    [STOP_CONTROL_DIR_MISSING] where there was no way to ask: the query then goes on, and ``query.stop()`` stops it as a
    crash would. Where one of several sources has handed over by then, it cannot go on: it is stopped, and
    MembershipError[GRACEFUL_STOP_INCOMPLETE] raised. So it is where the caller is interrupted. What the query fails
    with meanwhile is raised too. A query with a trigger interval asks its source only at the next trigger; allow for
    that. One without any progress yet has nothing to hand over and cannot be asked: it is still looking for its servers
    or its topic.
    """
    name = str(query.name or query.id)
    requested: set[Control] = set()
    try:
        is_drained = _drain(query, name, requested, time.monotonic() + timeout_s)
    except BaseException:
        if _withdraw(requested) != requested:
            query.stop()
        raise
    if not is_drained:
        _end_unfinished(name, requested, int(timeout_s), query)
    query.stop()


def _drain(query: StreamingQuery, name: str, requested: set[Control], deadline: float) -> bool:
    """Ask until all sources have answered; False: some have not within the time. ``requested`` is what was asked.
    Raises what a query has failed with since it was asked: it has committed nothing."""
    drained: set[Control] = set()
    while query.isActive:
        offsets = latest_offsets(query)
        controls = {control for offset in offsets if (control := Control.shown_in(offset)) is not None}
        _check_sources(name, offsets, controls)
        _check_machine(name, controls)
        requested |= controls
        drained |= {control for control in controls if _state(control) is DrainState.DRAINED}
        if controls and controls <= drained:
            break
        _request(controls - drained)
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    else:
        failure = query.exception() if requested else None
        if failure is not None:
            raise failure
    return True


def _end_unfinished(name: str, requested: set[Control], timeout_s: int, query: StreamingQuery) -> None:
    """Let the query go on, by an error; or return, if all sources came to hand over after all."""
    running = _withdraw(requested)
    if running == requested:
        raise _not_stopped(name, requested, timeout_s)
    deadline = time.monotonic() + DRAIN_TIMEOUT_S
    while {_state(control) for control in requested - running} - {DrainState.DRAINED} and time.monotonic() < deadline:
        time.sleep(POLL_S)
    if running:
        query.stop()
        raise MembershipError(
            "GRACEFUL_STOP_INCOMPLETE", query=name, timeout_s=timeout_s, left=len(running), sources=len(requested)
        )


def _withdraw(requested: set[Control]) -> set[Control]:
    """Take the requests back; those that go on, because they had not begun to hand over."""
    for control in requested:
        with suppress(FileNotFoundError):
            _file(control, DrainState.REQUESTED).unlink()
    return {control for control in requested if _state(control) not in IRREVERSIBLE}


def _state(control: Control) -> DrainState:
    """Of the runner there, by what its folder shows."""
    return shown_by([file for state, file in FILES.items() if _file(control, state).exists()])


def _file(control: Control, state: DrainState) -> Path:
    """That shows ``state``."""
    return control.path / FILES[state]


def _touch(control: Control, state: DrainState) -> None:
    """Make the file that shows ``state``, if its folder is there; a link of its name leads nowhere."""
    with suppress(OSError):
        os.close(os.open(_file(control, state), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666))


def _request(controls: set[Control]) -> None:
    """Each time anew: the folder may have been cleaned, and made again by its runner."""
    for control in controls:
        _touch(control, DrainState.REQUESTED)


def _check_sources(query: str, offsets: list[Any], controls: set[Control]) -> None:
    if offsets and None not in offsets and not controls:
        raise MembershipError("NOT_A_ROCKETMQ_QUERY", query=query)


def _check_machine(query: str, controls: set[Control]) -> None:
    here = platform.node()
    for control in controls:
        if control.host != here and not control.path.is_dir():
            raise MembershipError(
                "STOP_FROM_OTHER_HOST", query=query, host=control.host, here=here, folder=control.folder
            )


def _not_stopped(query: str, left: set[Control], timeout_s: int) -> MembershipError:
    for control in left:
        if not control.path.is_dir():
            return MembershipError(
                "STOP_CONTROL_DIR_MISSING", query=query, timeout_s=timeout_s, host=control.host, folder=control.folder
            )
    return MembershipError("GRACEFUL_STOP_TIMEOUT", query=query, timeout_s=timeout_s)
