"""Spool: batches on a disk of the driver's, so that a later start of the query has the messages of a batch again.

A batch is a file ``<folder>/<group>/<start>/<number>``: there in full before Spark logs its number, gone when it is
proven. ``start`` is the ``epoch`` of one start of the query, which alone writes there.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from rocketmq_spark.errors import OptionError
from rocketmq_spark.options import ReadOptions
from rocketmq_spark.pop.handles import Received
from rocketmq_spark.pop.spooled_batch import decoded_batch, encoded_batch

log = logging.getLogger(__name__)

_START: Final = re.compile(r"[0-9a-f]+")
_BATCH: Final = re.compile(r"[1-9][0-9]{0,17}")


class Spool:
    """The batches of a group. Where the disk refuses to be written, methods raise OptionError[SPOOL_UNUSABLE].

    Not thread-safe; queries share a folder, because each start has its own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with self._failing_clearly():
            folder.mkdir(parents=True, exist_ok=True)

    def keep(self, start: str, number: int, messages: Sequence[Received]) -> None:
        """It is on the disk, and not only in the system's memory, when this returns."""
        folder = self._folder / start
        with self._failing_clearly():
            folder.mkdir(mode=0o700, exist_ok=True)
            unfinished = folder / f"{number}.new"
            with unfinished.open("wb") as file:
                file.write(encoded_batch(messages))
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(folder / str(number))
            _write_names(folder)
            _write_names(self._folder)

    def kept(self, start: str, number: int) -> tuple[Received, ...] | None:
        """Its messages; None where it is not there, which is said."""
        file = self._of_start(start) / str(number)
        try:
            return decoded_batch(file.read_bytes())
        except (OSError, ValueError) as problem:
            log.warning("the messages of a batch are not in the spool, and come again in another one: %s", problem)
            return None

    def after(self, start: str, number: int) -> list[Received]:
        """Messages of batches after ``number``; those that cannot be read come again when their time is over."""
        found: list[Received] = []
        for other in self._numbers(start):
            if other > number:
                found += self.kept(start, other) or ()
        return found

    def forget(self, start: str, number: int | None = None) -> None:
        """Batches up to ``number``, or all, and the folder of ``start`` with the last of them."""
        folder = self._of_start(start)
        with self._failing_clearly():
            for other in self._numbers(start):
                if number is None or other <= number:
                    (folder / str(other)).unlink(missing_ok=True)
            for unfinished in folder.glob("*.new") if number is None else ():
                unfinished.unlink(missing_ok=True)
        with suppress(OSError):  # it has batches yet, or never had one
            folder.rmdir()

    def _of_start(self, start: str) -> Path:
        """``start`` may come from a checkpoint that somebody has edited. Raises ValueError."""
        if not _START.fullmatch(start):
            raise ValueError(f"{start!r} is no start of a query")
        return self._folder / start

    def _numbers(self, start: str) -> list[int]:
        folder = self._of_start(start)
        names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
        return sorted(int(name) for name in names if _BATCH.fullmatch(name))

    @contextmanager
    def _failing_clearly(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OptionError("SPOOL_UNUSABLE", folder=str(self._folder), problem=str(error)) from error


def spool_of(options: ReadOptions) -> Spool | None:
    """The one that ``options`` ask for. Raises what making it does."""
    if options.spool_dir is None:
        return None
    return Spool(Path(options.spool_dir).expanduser() / quote(options.consumer_group, ""))


def _write_names(folder: Path) -> None:
    """A name is on the disk when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
