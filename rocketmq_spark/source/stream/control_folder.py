"""The folder in which a source runner is asked to stop: a new one, or that of an earlier start of the same query.

Before Spark 4.2 the query progress of a restart shows the last logged offset until a batch is planned, and with it the
folder of the start that planned it. So the next start takes that folder over, unless its runner is still alive: a
runner holds a lock on its folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from rocketmq_spark.pull.private_folder import private_folder
from rocketmq_spark.source.stream.drain import FILES, Control

PREFIX: Final = "rocketmq-spark-"


class ControlFolder:
    """``name``: its path, which exists and is this user's alone when it is made. ``cleanup`` removes it.

    Raises OSError where it is not, or another process holds it.
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
        """Remove it. May be called again."""
        shutil.rmtree(self.name, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def new_folder() -> ControlFolder:
    """One of a name that no other has."""
    return ControlFolder(tempfile.mkdtemp(prefix=PREFIX))


def taken_over(before: Control) -> ControlFolder | None:
    """The folder of an earlier start, without what it was asked then; None where that is not possible. A checkpoint
    may come from anywhere: nothing is taken that could not have been made here by ``new_folder``."""
    path = before.path
    if path.parent != Path(tempfile.gettempdir()) or not path.name.startswith(PREFIX):
        return None
    with suppress(OSError):
        path.mkdir(mode=0o700, exist_ok=True)
        folder = ControlFolder(before.folder)
        for file in FILES.values():
            (path / file).unlink(missing_ok=True)
        return folder
    return None
