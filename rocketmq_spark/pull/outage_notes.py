"""OutageNotes: start of an outage that a batch's tasks met, for later tasks and attempts of the batch.

Spark retries a failed task in another process, which has no record of the outage. So a task that fails after its limit
writes a note on the machine's disk, for this batch and this broker, or the name servers. If a later attempt gets no
response from the broker either, its outage counts from the note's time. Attempts on other machines do not find the
note, and count from their own first failure.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from rocketmq_spark.pull.private_folder import private_folder

STALE_S: Final = 24 * 3_600

_NAME: Final = re.compile(r"[0-9a-f]{64}(?:\.[0-9a-f]{32})?")
"""Name of a note; an unfinished one has the second part."""
_NOTE_BYTES: Final = 32


class OutageNotes:
    """Note of one batch and ``subject``, a broker or the name servers. If the disk is not writable, or the folder is
    not private to this user, only the note is lost.

    Times are ms of the machine's monotonic clock, which its processes share.
    """

    def __init__(self, batch_id: str, subject: str, folder: Path | None = None) -> None:
        """Access no file. ``folder``: None: one of this user, in the machine's temporary directory."""
        self._folder = folder or Path(tempfile.gettempdir(), f"rocketmq-spark-outages-{os.getuid()}")
        self._name = hashlib.sha256(f"{batch_id} {subject}".encode()).hexdigest()

    def since_ms(self, now_ms: int) -> int | None:
        """Return the time in the note: since when every request has failed. None without a valid note, for a time after
        ``now_ms``, and if the folder is not readable or not private to this user."""
        with suppress(OSError, ValueError), private_folder(self._folder) as folder:
            note = os.open(self._name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(note, "rb") as file:
                since_ms = int(file.read(_NOTE_BYTES))
            return since_ms if since_ms <= now_ms else None
        return None

    def record(self, since_ms: int) -> None:
        """Write a note, replacing an earlier one: every request has failed since ``since_ms``. Create the folder if it
        is missing, and remove all notes older than ``STALE_S`` (24 h). Do nothing if the folder is not writable or not
        private to this user."""
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with private_folder(self._folder) as folder:
                _remove_stale(folder)
                unfinished = f"{self._name}.{uuid4().hex}"
                note = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
                with os.fdopen(note, "wb") as file:
                    file.write(str(since_ms).encode())
                os.replace(unfinished, self._name, src_dir_fd=folder, dst_dir_fd=folder)

    def clear(self) -> None:
        """Remove the note, if there is one: the outage has ended, or no task waits for it. Remove the folder if it is
        then empty. Errors of the disk are ignored."""
        with suppress(OSError):
            with private_folder(self._folder) as folder:
                os.unlink(self._name, dir_fd=folder)
            self._folder.rmdir()


def _remove_stale(folder: int) -> None:
    """Remove the notes, finished or not, that were last written more than ``STALE_S`` (24 h) ago from the folder with
    descriptor ``folder``. Leave files with other names."""
    for name in filter(_NAME.fullmatch, os.listdir(folder)):
        with suppress(FileNotFoundError):  # another process has removed it
            if time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime > STALE_S:
                os.unlink(name, dir_fd=folder)
