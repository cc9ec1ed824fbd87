"""The folder in which a source runner is asked to stop: a new one, or that of an earlier start of the same query.
``run_available_now`` asks the next start in it to end where the queues end now.

Before Spark 4.2 the query progress of a restart shows the last logged offset until a batch is planned, and with it the
folder of the start that planned it. So the next start takes that folder over, unless its runner is still alive: a
runner holds a lock on its folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from rocketmq_spark.pull.private_folder import private_folder
from rocketmq_spark.source.stream.drain import FILES, Control

PREFIX: Final = "rocketmq-spark-"

END_REQUESTED: Final = "end"
END_FOUND: Final = "ending"
END_REACHED: Final = "ended"
"""Files of an ``EndRequest``: each state has the next one's file beside or instead of its own."""


class ControlFolder:
    """``name``: its path, which exists and is this user's alone when it is made. ``cleanup`` removes it.

    Raises OSError where it is not, or another process holds it. Not thread-safe: it is the runner's.
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
        """Remove it, once: a folder of this name that is made afterwards is the next start's."""
        if self._lock >= 0:
            shutil.rmtree(self.name, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def new_folder() -> ControlFolder:
    """One of a name that no other has."""
    return ControlFolder(tempfile.mkdtemp(prefix=PREFIX))


def take_over(before: Control) -> ControlFolder | None:
    """The folder of an earlier start, without what it was asked then; None where that is not possible. A checkpoint
    may come from anywhere: nothing is taken that could not have been made here by ``new_folder``."""
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
    """Whether ``new_folder`` may have made it on this machine."""
    return path.parent == Path(tempfile.gettempdir()) and path.name.startswith(PREFIX)


class EndRequest:
    """That the next start of a query ends where the queues end when it looks first.

    The asker makes the folder of the start before again, with a file ``end`` that it holds a lock on for as long as it
    waits; the next start renames that to ``ending``, and makes ``ended`` when it has read, and proven, all that there
    was. What an asker left behind that was killed has no lock, and is no request. Not thread-safe.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: int | None = None
        """The asker's file descriptor."""

    @classmethod
    def create(cls, before: Control) -> EndRequest | None:
        """The asker's: made for the start after the one of ``before``. None where that one has not left yet, or the
        driver is not on this machine."""
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
    def find(cls, before: Control) -> EndRequest | None:
        """The next start's; None where there is none, or its asker is gone."""
        if not is_ours(before.path):
            return None
        with suppress(OSError), private_folder(before.path) as descriptor:
            if _is_locked(END_REQUESTED, descriptor):
                os.rename(END_REQUESTED, END_FOUND, src_dir_fd=descriptor, dst_dir_fd=descriptor)
                return cls(before.path)
            os.unlink(END_REQUESTED, dir_fd=descriptor)
        return None

    def mark_reached(self) -> None:
        """All that there was is read and proven."""
        with suppress(OSError):
            (self._path / END_REACHED).touch()

    @property
    def is_found(self) -> bool:
        return (self._path / END_FOUND).exists()

    @property
    def is_reached(self) -> bool:
        return (self._path / END_REACHED).exists()

    def withdraw(self) -> None:
        """Remove the folder; also a start's that is still there."""
        shutil.rmtree(self._path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _is_locked(name: str, folder: int) -> bool:
    file = os.open(name, os.O_RDWR | os.O_NOFOLLOW, dir_fd=folder)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


class Resumable(ABC):
    """A reader that an earlier start of the query may have left something to do.

    ``control_before``: where that start could be asked to stop, and the progress still shows it.
    ``may_stop_without_call``: nothing may be called after the last batch of a run. Not thread-safe: Spark's source
    runner is one thread.
    """

    def __init__(self) -> None:
        self.control_before: Control | None = None
        self.may_stop_without_call = False
        self._end_request: EndRequest | None = None

    def resume(self, shown: Mapping[str, Any]) -> None:
        """The last logged offset shows that; {} of a new query. To be called before all that joins the group."""
        self.may_stop_without_call = True
        self.control_before = Control.shown_in(shown)
        self._end_request = None if self.control_before is None else EndRequest.find(self.control_before)
        if self._end_request is not None:
            self.prepareForTriggerAvailableNow()

    def note_idle(self) -> None:
        """``latestOffset`` has nothing to read: to ``run_available_now`` that is the end."""
        if self._end_request is not None:
            self._end_request.mark_reached()

    @abstractmethod
    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there, and no more."""
