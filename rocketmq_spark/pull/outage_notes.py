"""OutageNotes: since when tasks of a batch have waited for somebody in vain, for the tasks and attempts that follow.

Spark runs a task that failed again, in another process, and knows nothing of what it waited for. So whoever has given
up leaves a note on the machine's disk, for this batch and this broker, or the name servers, and an attempt that fails
before it has heard of the broker goes on counting from there. Attempts on other machines do not find it, and count
anew.
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
    """What is noted of one batch and ``subject``, a broker or the name servers. A disk that cannot be
    written costs only the memory.

    Times are the machine's monotonic clock, which its processes share.
    """

    def __init__(self, batch_id: str, subject: str, folder: Path | None = None) -> None:
        self._folder = folder or Path(tempfile.gettempdir(), f"rocketmq-spark-outages-{os.getuid()}")
        self._file = self._folder / hashlib.sha256(f"{batch_id} {subject}".encode()).hexdigest()

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
            with tempfile.NamedTemporaryFile("w", encoding="ascii", dir=self._folder, delete=False) as unnamed:
                unnamed.write(str(since_ms))
            Path(unnamed.name).replace(self._file)

    def answered(self) -> None:
        """It is there, or nobody waits for it any more. The last note takes the folder along."""
        with suppress(OSError):
            self._file.unlink()
            self._folder.rmdir()

    def _remove_stale(self) -> None:
        for file in self._folder.iterdir():
            with suppress(FileNotFoundError):  # whoever it was of has taken it away
                if time.time() - file.stat().st_mtime > STALE_S:
                    file.unlink()
