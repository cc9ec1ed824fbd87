"""OutageNotes: since when tasks of a batch have waited for somebody in vain, for the tasks and attempts that follow.

Spark runs a task that failed again, in another process, and knows nothing of what it waited for. So whoever has given
up leaves a note on the machine's disk, for this batch and this broker, or the name servers, and an attempt that fails
before it has heard of the broker goes on counting from there. Attempts on other machines do not find it, and count
anew.
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
"""Of a note; one that is being written has a second part."""
_NOTE_BYTES: Final = 32


class OutageNotes:
    """What is noted of one batch and ``subject``, a broker or the name servers. A disk that cannot be written, or a
    folder that is not this user's alone, costs only the memory.

    Times are the machine's monotonic clock, which its processes share.
    """

    def __init__(self, batch_id: str, subject: str, folder: Path | None = None) -> None:
        self._folder = folder or Path(tempfile.gettempdir(), f"rocketmq-spark-outages-{os.getuid()}")
        self._name = hashlib.sha256(f"{batch_id} {subject}".encode()).hexdigest()

    def since_ms(self, now_ms: int) -> int | None:
        """When the first failure was after which nothing has worked; None if nobody has given up."""
        with suppress(OSError, ValueError), private_folder(self._folder) as folder:
            note = os.open(self._name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(note, "rb") as file:
                since_ms = int(file.read(_NOTE_BYTES))
            return since_ms if since_ms <= now_ms else None
        return None

    def record(self, since_ms: int) -> None:
        """Nothing has worked since then, for as long as that may last."""
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
        """It is there, or nobody waits for it any more. The last note takes the folder along."""
        with suppress(OSError):
            with private_folder(self._folder) as folder:
                os.unlink(self._name, dir_fd=folder)
            self._folder.rmdir()


def _remove_stale(folder: int) -> None:
    """Notes that are old; what has another name is not ours."""
    for name in filter(_NAME.fullmatch, os.listdir(folder)):
        with suppress(FileNotFoundError):  # whoever it was of has taken it away
            if time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime > STALE_S:
                os.unlink(name, dir_fd=folder)
