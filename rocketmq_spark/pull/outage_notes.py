"""OutageNotes: since when tasks of a batch have waited for a broker in vain, for the tasks and attempts that follow.

Spark runs a task that failed again, in another process, and knows nothing of what it waited for. So whoever has given
up leaves a note on the machine's disk, for this batch and broker, and an attempt that fails before it has heard of the
broker goes on counting from there. Attempts on other machines do not find it, and count anew.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

STALE_S: Final = 24 * 3_600


class OutageNotes:
    """What is noted of one broker and one batch. A disk that cannot be written costs only the memory.

    Times are the machine's monotonic clock, which its processes share.
    """

    def __init__(self, batch_id: str, broker_name: str, folder: Path | None = None) -> None:
        self._folder = folder or Path(tempfile.gettempdir(), f"rocketmq-spark-outages-{os.getuid()}")
        self._file = self._folder / hashlib.sha256(f"{batch_id} {broker_name}".encode()).hexdigest()

    def since_ms(self, now_ms: int) -> int | None:
        """When the first failure was after which nothing has worked; None if nobody has given up."""
        with suppress(OSError, ValueError):
            since_ms = int(self._file.read_text("ascii"))
            return since_ms if since_ms <= now_ms else None
        return None

    def gave_up(self, since_ms: int) -> None:
        """Nothing has worked since then, for as long as that may last."""
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            self._remove_stale()
            unnamed = self._file.with_suffix(f".{os.getpid()}")
            unnamed.write_text(str(since_ms), "ascii")
            unnamed.replace(self._file)

    def answered(self) -> None:
        """The broker is there, or nobody waits for it any more. The last note takes the folder along."""
        with suppress(OSError):
            self._file.unlink()
            self._folder.rmdir()

    def _remove_stale(self) -> None:
        for file in self._folder.iterdir():
            if time.time() - file.stat().st_mtime > STALE_S:
                file.unlink(missing_ok=True)
