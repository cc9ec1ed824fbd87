"""Control folder in which a source runner receives the request to stop: a new one, or that of an earlier start of the
query. ``run_available_now`` requests in it that the next start ends at the current max offsets.

Before Spark 4.2 the query progress of a restart shows the last logged offset until a batch is planned, and with it the
folder of the start that planned it. So the next start uses this folder, unless its runner is still alive. A
runner holds a lock on its folder.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from rocketmq_spark.pull.private_folder import private_folder
from rocketmq_spark.source.stream.drain import FILES, Control

PREFIX: Final = "rocketmq-spark-"
_NAME: Final = re.compile(rf"{PREFIX}[a-z0-9_]{{8}}")
"""Names that ``tempfile.mkdtemp`` makes with PREFIX; folders of users and other programs may begin with it too."""

END_REQUESTED: Final = "end"
END_CLAIMED: Final = "ending"
END_REACHED: Final = "ended"
"""Files of an ``EndRequest``. Each state adds its file to those of earlier states, or replaces one of them."""


class ControlFolder:
    """Locked folder at path ``name``, through which a source runner receives requests. Once constructed, it exists and
    belongs to this user alone. ``cleanup`` removes it.

    Raises OSError if it is missing or not private, or if another process holds its lock. Not thread-safe: the source
    runner uses it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        with private_folder(Path(name)) as descriptor:
            self._lock = os.dup(descriptor)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise

    def cleanup(self) -> None:
        """Remove the folder, ignoring errors, and release its lock. Later calls have no effect, because a folder of
        this name that is created afterwards belongs to the next start."""
        if self._lock >= 0:
            shutil.rmtree(self.name, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def new_folder() -> ControlFolder:
    """Create a private folder with a unique name in the temporary directory, and return it locked. Raises OSError."""
    return ControlFolder(tempfile.mkdtemp(prefix=PREFIX))


def take_over(before: Control) -> ControlFolder | None:
    """Lock the folder of an earlier start, created again if it is missing. Delete the files of graceful stops in it,
    and return it. A file ``end`` of an ``EndRequest`` stays.

    Return None if its runner is still alive, it belongs to another user, or ``new_folder`` cannot have created it on
    this machine, as a checkpoint may come from anywhere.
    """
    path = before.path
    if not is_ours(path):
        return None
    with suppress(OSError):
        path.mkdir(mode=0o700, exist_ok=True)
        folder = ControlFolder(before.folder)
        for file in FILES.values():
            (path / file).unlink(missing_ok=True)
        return folder
    return None


def is_ours(path: Path) -> bool:
    """Return whether ``path`` is in this machine's temporary directory and has a name that ``new_folder`` may give. It
    may be missing."""
    return path.parent == Path(tempfile.gettempdir()) and _NAME.fullmatch(path.name) is not None


class EndRequest:
    """Request to end the next start of a query at the max offsets of its first metadata refresh.

    The requester creates the folder of the previous start again, and keeps a file ``end`` in it locked while it waits.
    The next start renames the file to ``ending``, and creates ``ended`` when all of these messages are read and
    completed. A file that a killed requester left has no lock, and is no request. Not thread-safe.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: int | None = None
        """File descriptor of the requester."""

    @classmethod
    def create(cls, before: Control) -> EndRequest | None:
        """Create the folder of ``before`` again, with a locked request for the next start, and return it. Return None
        if the folder exists, because the start of ``before`` has not left yet, if the driver is on another machine, or
        if the disk fails."""
        if not is_ours(before.path):
            return None
        with suppress(OSError):
            before.path.mkdir(mode=0o700)
            request = cls(before.path)
            request._lock = os.open(before.path / END_REQUESTED, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(request._lock, fcntl.LOCK_EX)
            return request
        return None

    @classmethod
    def claim(cls, before: Control) -> EndRequest | None:
        """Claim the request for the start after ``before``, by renaming its file, and return it. None if there is none,
        or the folder is not private to this user. The request of a requester that has exited is deleted."""
        if not is_ours(before.path):
            return None
        with suppress(OSError), private_folder(before.path) as descriptor:
            if _is_locked(END_REQUESTED, descriptor):
                os.rename(END_REQUESTED, END_CLAIMED, src_dir_fd=descriptor, dst_dir_fd=descriptor)
                return cls(before.path)
            os.unlink(END_REQUESTED, dir_fd=descriptor)
        return None

    def mark_reached(self) -> None:
        """Create the file which shows that all available messages are read and completed. Failures are ignored."""
        with suppress(OSError):
            (self._path / END_REACHED).touch()

    @property
    def is_claimed(self) -> bool:
        """Return whether a start has claimed the request; read from the folder."""
        return (self._path / END_CLAIMED).exists()

    @property
    def is_reached(self) -> bool:
        """Return whether ``mark_reached`` was called, also by another process; read from the folder."""
        return (self._path / END_REACHED).exists()

    def withdraw(self) -> None:
        """Remove the folder, even if a start still uses it, and release the requester's lock. Idempotent."""
        shutil.rmtree(self._path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _is_locked(name: str, folder_descriptor: int) -> bool:
    """Return whether another process holds the lock on a file of the folder. If none does, lock the file for a moment.
    Raises OSError for a missing file."""
    file = os.open(name, os.O_RDWR | os.O_NOFOLLOW, dir_fd=folder_descriptor)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


class Resumable:
    """Reader for which an earlier start of the query may have left work.

    ``control_before``: control folder of that start, if the progress still shows it. ``may_stop_without_call``: Spark
    may make no call after the last batch of a run. ``is_available_now``: whether to read only the messages that are
    available when the run begins. Not thread-safe: Spark's source runner is one thread.
    """

    def __init__(self) -> None:
        self.control_before: Control | None = None
        self.may_stop_without_call = False
        self.is_available_now = False
        self._end_request: EndRequest | None = None

    def resume(self, shown: Mapping[str, Any]) -> None:
        """Set ``control_before`` to the control folder that ``shown`` has, the progress in the last logged offset ({}
        in a new query), and ``may_stop_without_call`` to True. If ``run_available_now`` waits for this start, claim its
        request, and read only what is available now. Call it before the run is created."""
        self.may_stop_without_call = True
        self.control_before = Control.shown_in(shown)
        self._end_request = None if self.control_before is None else EndRequest.claim(self.control_before)
        if self._end_request is not None:
            self.is_available_now = True

    def mark_idle(self) -> None:
        """If ``run_available_now`` has requested the end, mark it as reached. Call it when ``latestOffset`` has nothing
        to read."""
        if self._end_request is not None:
            self._end_request.mark_reached()

    def prepareForTriggerAvailableNow(self) -> None:
        """Set ``is_available_now`` to True. Spark calls it before the run is created."""
        self.is_available_now = True
