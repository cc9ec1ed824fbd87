"""Graceful stop of a query, with no batch left uncompleted: the user's Python requests it, the source runner obeys.

They are two processes on one machine without a connection; PySpark stops a query without a call to the source. So each
source runner has its own folder, private to its user, and shows it and its machine in the query progress (``control``
in ``sources[i].latestOffset``). ``drain`` has the table of file operations and their meaning; they are performed here.
If temporary files are cleaned up, the runner creates the folder again, and the requester repeats the request.
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
    TRANSITIONS,
    Control,
    DrainEvent,
    DrainState,
    shown_by,
)
from rocketmq_spark.source.stream.shown_progress import latest_offsets
from rocketmq_spark.state_table import transition_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

POLL_S: Final = 0.05

DRAIN_TIMEOUT_S: Final = 10.0
"""Maximum time to release queues once that has begun: a request or two to each broker."""


class DrainRequest:
    """Source runner's end of a graceful stop: its control folder, and the request in it. Construction creates the
    folder, or uses ``before``, the folder of an earlier start of the query. The progress shows ``before`` until a
    batch is planned. ``close`` removes the folder.

    ``_state`` is as of the last check and of the runner's own actions: a cleanup of the files does not revert it.

    Not thread-safe: only the runner uses it, and requesters use the files.
    """

    def __init__(self, before: Control | None = None) -> None:
        self._folder = (before and take_over(before)) or new_folder()
        self._is_folder_lost = False
        self._state = DrainState.RUNNING

    @property
    def control(self) -> Control:
        """Return this machine's name and the path of the folder, which may be missing after a cleanup."""
        return Control(platform.node(), self._folder.name)

    def check_request(self) -> bool:
        """Create the folder again if a cleanup removed it, update the state, and return whether the query must end. It
        must if a request exists, or was claimed earlier."""
        is_requested = self._ensure_folder() and _file(self.control, DrainState.REQUESTED).exists()
        self._apply(DrainEvent.REQUEST if is_requested else DrainEvent.WITHDRAW)
        return self._state is not DrainState.RUNNING

    def claim(self) -> bool:
        """Claim the request by renaming its file, which is irreversible, and return whether to release the queues now;
        True if it was claimed before. False: the last ``check_request`` found none, or it was withdrawn since."""
        if self._state is DrainState.REQUESTED:
            try:
                _file(self.control, DrainState.REQUESTED).rename(_file(self.control, DrainState.DRAINING))
            except OSError:
                self._apply(DrainEvent.WITHDRAW)
            else:
                self._apply(DrainEvent.CLAIM)
        return self._state is not DrainState.RUNNING

    def finish(self) -> None:
        """Record that the queues are released, and create the file that shows it. Raises ValueError, without effect, if
        the request was not claimed."""
        self._apply(DrainEvent.FINISH)
        if self._ensure_folder():
            _touch(self.control, DrainState.DRAINED)

    def close(self) -> None:
        """Remove the folder, ignoring errors. Idempotent."""
        self._folder.cleanup()

    def _apply(self, event: DrainEvent) -> None:
        """Change the state by ``event``. Raises ValueError, without effect, for an impossible transition."""
        self._state = transition_of(TRANSITIONS, self._state, event, "a source runner")

    def _ensure_folder(self) -> bool:
        """Create the folder if a cleanup of temporary files removed it. Return whether it exists and is private to this
        user: another user may have created one of its name. Of failures in a row only the first is logged: they fail
        the requester's stop, not the query."""
        try:
            self.control.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with private_folder(self.control.path):
                self._is_folder_lost = False
        except OSError as error:
            if not self._is_folder_lost:
                log.warning(
                    "STOP_CONTROL_DIR_MISSING: Cannot create the control directory; rocketmq_spark.stop cannot stop "
                    "this query. Check the driver's temporary directory: %s",
                    error,
                )
            self._is_folder_lost = True
        return not self._is_folder_lost


def stop(query: StreamingQuery, timeout_s: float = 60.0) -> None:
    """Stop a query gracefully: finish the running batch, commit it to the group, release the queues, then stop.

    Unlike ``query.stop()`` it leaves no batch that is written and not committed, so other members of the group read no
    duplicates. All RocketMQ sources of the query are drained. Call it on the machine of the query's driver.

    Raises at once: MembershipError[NOT_A_ROCKETMQ_QUERY] if the query has no RocketMQ source, [STOP_FROM_OTHER_HOST] if
    the driver is on another machine. After ``timeout_s``, if no source has begun to release its queues:
    MembershipError[GRACEFUL_STOP_TIMEOUT], or [STOP_CONTROL_DIR_MISSING] if the request could not be made. The query
    continues after both, and ``query.stop()`` stops it as a crash would. Sources that have begun get up to 10 s more.
    If all have, the query is then stopped, without an error. If only some of several have, the query cannot continue:
    it is stopped, and MembershipError[GRACEFUL_STOP_INCOMPLETE] raised. Once a source has begun, an interrupt of the
    caller also stops the query. If the query fails after it received the request, its error is raised. A query that has
    ended before is no error. A query with a trigger interval checks for requests only at its next trigger: set
    ``timeout_s`` above it. A query without any progress yet, which still waits for its servers or its topic, cannot
    receive a request, and [GRACEFUL_STOP_TIMEOUT] is raised. It owns no queue, so end it by ``query.stop()``.
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
        _withdraw_or_stop(name, requested, int(timeout_s), query)
    query.stop()


def _drain(query: StreamingQuery, name: str, requested: set[Control], deadline: float) -> bool:
    """Request, repeatedly, that each source drains, and wait. Return True once all are drained or the query has ended,
    False at ``deadline``. Add to ``requested`` each source that receives a request. Raises the query's error if it
    failed after a request, because it has committed nothing then, and the errors of ``_check_sources`` and
    ``_check_machine``.
    """
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


def _withdraw_or_stop(name: str, requested: set[Control], timeout_s: int, query: StreamingQuery) -> None:
    """Withdraw the requests after the timeout. If no source has claimed its request, raise what ``_stop_timeout_error``
    returns; the query continues. Otherwise wait, at most ``DRAIN_TIMEOUT_S``, for sources that release their queues. If
    other ones continue, stop the query and raise MembershipError[GRACEFUL_STOP_INCOMPLETE]. If none does, return: the
    caller stops the query.
    """
    running = _withdraw(requested)
    if running == requested:
        raise _stop_timeout_error(name, requested, timeout_s)
    deadline = time.monotonic() + DRAIN_TIMEOUT_S
    while {_state(control) for control in requested - running} - {DrainState.DRAINED} and time.monotonic() < deadline:
        time.sleep(POLL_S)
    if running:
        query.stop()
        raise MembershipError(
            "GRACEFUL_STOP_INCOMPLETE", query=name, timeout_s=timeout_s, left=len(running), sources=len(requested)
        )


def _withdraw(requested: set[Control]) -> set[Control]:
    """Delete the request files. Return the sources whose query continues, because they had not begun to release
    queues."""
    for control in requested:
        with suppress(FileNotFoundError):
            _file(control, DrainState.REQUESTED).unlink()
    return {control for control in requested if _state(control) not in IRREVERSIBLE}


def _state(control: Control) -> DrainState:
    """Return the state of a runner that the files of its folder show; RUNNING if it has none, or is missing."""
    return shown_by([file for state, file in FILES.items() if _file(control, state).exists()])


def _file(control: Control, state: DrainState) -> Path:
    """Return the path of the file that shows ``state``, any but RUNNING."""
    return control.path / FILES[state]


def _touch(control: Control, state: DrainState) -> None:
    """Create the file that shows ``state``, if its folder exists; do not follow a link of that name. Ignore errors."""
    with suppress(OSError):
        os.close(os.open(_file(control, state), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666))


def _request(controls: set[Control]) -> None:
    """Create in each control folder the file that requests the stop. Repeat it where it exists: the runner may have
    re-created the folder after a cleanup. Ignore errors, such as for a missing folder."""
    for control in controls:
        _touch(control, DrainState.REQUESTED)


def _check_sources(query: str, offsets: list[Any], controls: set[Control]) -> None:
    """Raise MembershipError[NOT_A_ROCKETMQ_QUERY] if all sources show offsets, and none of them a control folder. Do
    nothing while ``offsets`` is empty, or None for a source."""
    if offsets and None not in offsets and not controls:
        raise MembershipError("NOT_A_ROCKETMQ_QUERY", query=query)


def _check_machine(query: str, controls: set[Control]) -> None:
    """Raise MembershipError[STOP_FROM_OTHER_HOST] for a source that shows another host name and whose control folder is
    not here either. Containers on one machine may share the folder under different host names."""
    here = platform.node()
    for control in controls:
        if control.host != here and not control.path.is_dir():
            raise MembershipError(
                "STOP_FROM_OTHER_HOST", query=query, host=control.host, here=here, folder=control.folder
            )


def _stop_timeout_error(query: str, left: set[Control], timeout_s: int) -> MembershipError:
    """Return the error for a query that has not stopped in time: MembershipError[STOP_CONTROL_DIR_MISSING] if a folder
    of ``left`` is missing on this machine, else MembershipError[GRACEFUL_STOP_TIMEOUT]."""
    for control in left:
        if not control.path.is_dir():
            return MembershipError(
                "STOP_CONTROL_DIR_MISSING", query=query, timeout_s=timeout_s, host=control.host, folder=control.folder
            )
    return MembershipError("GRACEFUL_STOP_TIMEOUT", query=query, timeout_s=timeout_s)
